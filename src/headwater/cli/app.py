"""All commands, each loaded when it is called: many of them need little of what the others do."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from headwater.cli.output import show_error
from headwater.cli.remote import INTERRUPTED, option
from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.extras import require_python
from headwater.project.load.files import HOME, find_project

COMMANDS = {
    "init": "Create a project that is ready to run, with sample data or for data you already have.",
    "demo": "Run a demo: the lake of a small shop, from events and a database, and what to try next.",
    "check": "Report every mistake in the project. Exit 0 if there is none, 2 otherwise.",
    "plan": "Show what a run would create, change and rebuild, why, and how much it reads. Changes nothing.",
    "schema": "Print the JSON Schema of headwater.yml, for editors and other programs.",
    "formats": "Show what each table format can do.",
    "run": "Run the flows: continuously, at an interval, or once. Exit 1 if any failed, 0 when stopped.",
    "reload": ("Make the runner reload the changed project. Only new, changed and removed flows are affected."),
    "status": "Show each flow: its state, rate, lag, last commit, last error and who runs it. Needs no Spark.",
    "backup": "Back up the lake with its state, catalog and ledger, while runners keep running.",
    "restore": "Restore a backup as the project's lake, which must not exist yet.",
    "query": "Run a query or statement; rows go to standard output.",
    "sql": "Open a SQL shell; you can also pipe statements into it.",
    "completion": "Print or install shell completion for commands, options and names (bash, zsh, fish).",
    "export": "Copy a topic, table, view or query to another format or place; other readers check it.",
    "connectors": "The jars that Spark needs for each format and source.",
    "dlq": "Dead letters: events that could not be ingested.",
    "flow": "Flows: list, pause, resume and restart them.",
    "mv": "Materialized views: create, refresh, explain and verify them.",
    "forget": "Erase rows from a topic, its past and all that was made of them, and prove that they are gone.",
    "interop": "Topics, tables and views as tables of other formats, over the same files.",
    "maintain": "Compact, cluster, expire and clean up what is due, and say why. Only `retain` removes rows.",
    "parquet": "The files under topics, tables and views.",
    "source": "Sources: list them, and prepare their databases.",
    "table": "Tables: what they hold; load and restore them.",
    "topic": "Topics: what they hold, and how it got there.",
}
"""Each is a module of its name in `commands` or a folder of it: with `register`, or with an `app` of several commands.
Its help is here too, so that the list of all is shown without loading them."""
STANDALONE = frozenset({"completion", "connectors", "demo", "formats", "init", "schema"})
"""Those that need no project, in a folder of their own."""


class Commands(MutableMapping[str, Any]):
    """Click's commands by name; one that is not looked at is not loaded."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = dict.fromkeys(COMMANDS)
        self.brief = False
        """Whether only names and help are asked for."""

    def __getitem__(self, name: str) -> Any:
        if self._found[name] is None:
            if self.brief:
                return TyperCommand(name, help=COMMANDS[name])
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
    folder = "commands.standalone" if name in STANDALONE else "commands"
    module = import_module(f"headwater.cli.{folder}.{name}")
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
        self.commands: Commands = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.commands.brief = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands.brief = False


app = typer.Typer(
    cls=CommandGroup,
    help="A streaming lakehouse on Spark: event streams in, exact and current tables and views out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        from headwater.cli.version import version_line

        print(version_line([]))
        raise typer.Exit


@app.callback()
def _headwater(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Nothing is done before a command."""


# Typer may have a Click of its own inside, whose errors are not those of the one that is installed.
_WrongUse: type[Any] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def execute(arguments: list[str]) -> int:
    """Run a command: 0 done, 1 failed, 2 wrong use."""
    as_json = "--json" in arguments
    code: int | None
    _hush()
    try:
        require_python()
        code = app(args=arguments, prog_name="headwater", standalone_mode=False)
    except HeadwaterError as error:
        if error.code is Code.INTERNAL:
            _logged(error, arguments)
        show_error(error, as_json=as_json)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except _WrongUse as error:
        if as_json:
            show_error(_as_ours(error), as_json=True)
        else:
            error.show()
        code = error.exit_code
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        code = _unread() if _has_no_reader() else 1  # Click says nothing, and exits with 1
    except BaseException as caught:  # a library in Rust that panics raises no Exception
        error_of_ours = _logged(caught, arguments)
        show_error(error_of_ours, as_json=as_json)
        code = error_of_ours.exit_code
    return _written(code or 0)


def _as_ours(error: Any) -> UsageError:
    """What the parser of arguments has to say."""
    hint = "`headwater --help` lists the commands; each has a `--help` of its own"
    return UsageError(Code.USAGE, error.format_message(), hint=hint)


def _written(code: int) -> int:
    """The exit code, once all is written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _unread()
    return code


def _has_no_reader() -> bool:
    """Whether standard output is what broke, not a line to somebody else. Rich turns it to nowhere by itself."""
    try:
        out, asked = sys.stdout.fileno(), select.poll()
        asked.register(out, 0)
        broken = any(event & select.POLLERR for _, event in asked.poll(0))
        return broken or os.path.samestat(os.fstat(out), os.stat(os.devnull))
    except (OSError, ValueError):
        return False


def _unread() -> int:
    """Whoever read our output has had enough, as `head` does: nothing is wrong, and nothing more is said."""
    if threading.current_thread() is threading.main_thread():  # no command of a runner's
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest when it ends
    return 0


def _hush() -> None:
    """Py4J tells the root logger, with a stack, when Spark's process has gone; what that means is said by us."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def _logged(error: BaseException, arguments: list[str]) -> HeadwaterError:
    """What an error means; where it is a defect of ours, it is logged, in the log of the command's own project if there
    is one: a process may have worked for another one before."""
    from headwater.core.logs import log_to
    from headwater.spark.errors import as_headwater_error

    with suppress(HeadwaterError, OSError):
        log_to(find_project(option(arguments, "--project") or ".").parent / HOME)
    return as_headwater_error(error)
