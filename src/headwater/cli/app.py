"""All commands, each loaded when it is called: many of them need little of what the others do."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from headwater.cli.output import show_error
from headwater.cli.remote import INTERRUPTED, option
from headwater.core.errors import Code, HeadwaterError
from headwater.core.extras import require_python
from headwater.project.load.files import HOME, find_project

COMMANDS = (
    "init", "demo", "check", "plan", "schema", "formats", "run", "reload", "status", "query", "sql",
    "connectors", "dlq", "flow", "mv", "parquet", "source", "table", "topic",
)  # fmt: skip
"""Each is a module of its name in `commands`: with `register`, or with an `app` of several commands."""


class Commands(MutableMapping[str, Any]):
    """Click's commands by name; one that is not looked at is not loaded."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if self._found[name] is None:
            self._found[name] = _loaded(name)
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _loaded(name: str) -> Any:
    module = import_module(f"headwater.cli.commands.{name}")
    alone = typer.Typer()
    if hasattr(module, "register"):
        module.register(alone)
    else:
        alone.add_typer(module.app, name=name)
    return get_group(alone).commands[name]


class CommandGroup(TyperGroup):
    """The command above all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


app = typer.Typer(
    cls=CommandGroup,
    help="A streaming lakehouse on Spark: event streams in, exact and current tables and views out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def _headwater() -> None:
    """Nothing is done before a command."""


# Typer may have a Click of its own inside, whose errors are not those of the one that is installed.
_WrongUse: type[Any] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def execute(arguments: list[str]) -> int:
    """Run a command: 0 done, 1 failed, 2 wrong use."""
    as_json = "--json" in arguments
    code: int | None
    try:
        require_python()
        code = app(args=arguments, standalone_mode=False)
    except HeadwaterError as error:
        if error.code is Code.INTERNAL:
            _logged(error, arguments)
        show_error(error, as_json=as_json)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except _WrongUse as error:
        error.show()
        code = error.exit_code
    except Exception as caught:
        error_of_ours = _logged(caught, arguments)
        show_error(error_of_ours, as_json=as_json)
        code = error_of_ours.exit_code
    return code or 0


def _logged(error: Exception, arguments: list[str]) -> HeadwaterError:
    """What an error means; where it is a defect of ours, it is logged, in the project's log if there is one."""
    from headwater.core.logs import is_logging, log_to
    from headwater.spark.errors import as_headwater_error

    if not is_logging():
        with suppress(HeadwaterError, OSError):
            log_to(find_project(option(arguments, "--project") or ".").parent / HOME)
    return as_headwater_error(error)
