"""The `headwater` command."""

from __future__ import annotations

import sys

import click
import typer

from headwater.cli import check, connectors, demo, formats, init, query, run, schema, topic
from headwater.cli.output import show_error
from headwater.errors import HeadwaterError
from headwater.extras import require_python
from headwater.sparkerrors import as_headwater_error

app = typer.Typer(
    help="A streaming lakehouse on Spark: event streams in, exact and current tables and views out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for _module in (init, demo, check, schema, formats, run, query):
    _module.register(app)
app.add_typer(connectors.app, name="connectors")
app.add_typer(topic.app, name="topic")


def main() -> None:
    """Run a command: exit 0 done, 1 failed, 2 wrong use."""
    as_json = "--json" in sys.argv
    try:
        require_python()
        code = app(standalone_mode=False)
    except HeadwaterError as error:
        show_error(error, as_json=as_json)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except Exception as caught:
        error_of_ours = as_headwater_error(caught)
        show_error(error_of_ours, as_json=as_json)
        code = error_of_ours.exit_code
    sys.exit(code or 0)
