"""All commands."""

from __future__ import annotations

import click
import typer

from headwater.cli import (
    check,
    connectors,
    demo,
    dlq,
    flow,
    formats,
    init,
    mv,
    parquet,
    plan,
    query,
    run,
    schema,
    source,
    sql,
    status,
    table,
    topic,
)
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
for _module in (init, demo, check, plan, schema, formats, run, status, query, sql):
    _module.register(app)
app.add_typer(connectors.app, name="connectors")
app.add_typer(dlq.app, name="dlq")
app.add_typer(flow.app, name="flow")
app.add_typer(mv.app, name="mv")
app.add_typer(parquet.app, name="parquet")
app.add_typer(source.app, name="source")
app.add_typer(table.app, name="table")
app.add_typer(topic.app, name="topic")


def execute(arguments: list[str]) -> int:
    """Run a command: 0 done, 1 failed, 2 wrong use."""
    as_json = "--json" in arguments
    code: int | None
    try:
        require_python()
        code = app(args=arguments, standalone_mode=False)
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
    return code or 0
