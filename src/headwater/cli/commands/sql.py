"""`headwater sql`: a shell."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from headwater.api.lake import Lake
from headwater.cli.completion.statements import SYSTEM, Completion
from headwater.cli.interrupts import interruptible
from headwater.cli.lakes import look
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, show_error
from headwater.cli.remote import ask
from headwater.cli.rows import AllColumns, Output, TableStyle, Vertical, print_rows
from headwater.core.errors import Code, HeadwaterError, UsageError, did_you_mean
from headwater.query.engines import Engine
from headwater.query.limits import QueryStop
from headwater.spark.errors import as_headwater_error
from headwater.sql.parse import is_complete, parse_statement, split
from headwater.sql.statements import SetOption

_VERTICAL: dict[bool | None, list[str]] = {True: ["--vertical"], False: ["--horizontal"], None: []}
_NEXT = {None: True, True: False, False: None}
OUTPUTS: tuple[Output, ...] = ("table", "csv", "json", "ndjson")

HELP = r"""A statement ends with ; and may have several lines; arrows move over them, and bring back earlier ones.
Tab completes names, columns and words. Enter after the ; runs it.
  \d [NAME]      list topics, tables and views, or describe one
  \h [NAME]      its versions and what made each
  \o FORMAT      print rows as table, csv, json or ndjson
  \x             a line a column, a line a row, or (at first) what has room
  \a             all columns, or (at first) those that begin with _ only if they are named
  \?             this help
  \q             leave (also Ctrl-D); Ctrl-C cancels a query or a line"""


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)


def sql(
    engine: Annotated[Engine, typer.Option("--engine", help="The engine.")] = "auto",
    output: Annotated[Output, typer.Option("--output", help="How rows are printed.")] = "table",
    vertical: Vertical = None,
    all_columns: AllColumns = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Open a SQL shell; you can also pipe statements into it."""
    with look(project, target) as lake:
        lake.settings.set("headwater.engine", engine)
        look_of_tables = TableStyle(vertical, all_columns, how="\\a")
        shell = Shell(lake, "json" if as_json else output, project, target, look_of_tables)
        if sys.stdin.isatty():
            shell.talk()
        else:
            shell.read(sys.stdin.read())
    if shell.failed and not sys.stdin.isatty():
        raise typer.Exit(shell.failed)


class Shell:
    """Statements one after the other; one that fails does not end it."""

    def __init__(
        self, lake: Lake, output: Output, project: Path, target: str | None, look: TableStyle = TableStyle()
    ) -> None:
        self._lake = lake
        self._output = output
        self._look = look
        self._options = ["--project", str(project), *(["--target", target] if target else [])]
        self.failed = 0
        """The exit code of the last statement that failed."""

    def read(self, text: str) -> None:
        """All statements of a text."""
        rest = ""
        for line in text.splitlines(keepends=True):
            if not rest.strip() and line.lstrip().startswith("\\"):
                if line.strip() == "\\q":
                    return
                self.do(line.strip())
                continue
            rest += line
            if is_complete(rest):
                self.do(rest)
                rest = ""
        if rest.strip():
            self.do(rest)

    def talk(self) -> None:
        """With somebody at a terminal."""
        from headwater.cli.prompt import Editor  # statements that are piped in need no prompt

        note(f"{self._lake.project.name}: \\? for help, \\q to leave")
        completion = Completion(self._names, self._columns)
        for text in Editor(self._lake.project.home / "sql_history", completion).entered():
            self.do(text)

    def _names(self) -> dict[str, list[str]]:
        """Of relations, by the word that SQL has for their kind, and of system tables."""
        return {**self._lake.names(), SYSTEM: [table.name for table in self._lake.system_tables()]}

    def _columns(self, kind: str, name: str) -> list[str]:
        """Of a relation, by the word that SQL has for its kind."""
        lake = self._lake
        if kind == SYSTEM:
            return next(list(table.columns) for table in lake.system_tables() if table.name == name)
        relation = lake.topic(name) if kind == "topic" else lake.table(name) if kind == "table" else lake.view(name)
        return relation.columns

    def do(self, text: str) -> None:
        """One line that begins with a backslash, or one or more statements."""
        try:
            if text.lstrip().startswith("\\"):
                self._command(text.strip())
                return
            for statement in split(text):
                self._execute(statement)
        except KeyboardInterrupt:
            note("cancelled")
        except HeadwaterError as error:
            self._failed(error)
        except Exception as caught:  # a shell outlives whatever a statement does
            self._failed(as_headwater_error(caught))

    def _execute(self, statement: str) -> None:
        if isinstance(parse_statement(statement), SetOption):
            print_rows(self._lake.sql(statement), self._output, self._look)
            return
        settings = [word for one in self._lake.settings.shown() for word in ("--set", f"{one['name']}={one['value']}")]
        look = [*_VERTICAL[self._look.vertical], *(["--all-columns"] if self._look.all_columns else [])]
        code = ask(["query", statement, "--output", self._output, *look, *settings, *self._options])
        if code is None:
            interruptible(partial(self._answer, statement))
        elif code:
            self.failed = code

    def _answer(self, statement: str, stopping: QueryStop) -> None:
        result = self._lake.sql(statement, stopping=stopping)
        stopping.check()  # nothing is printed by a statement that was left behind
        print_rows(result, self._output, self._look, sql=statement)
        sys.stdout.flush()

    def _command(self, text: str) -> None:
        word, _, name = text.rstrip(";").partition(" ")
        name = name.strip()
        if word == "\\d":
            for statement in [f"DESCRIBE {name}"] if name else ["SHOW TOPICS", "SHOW TABLES", "SHOW VIEWS"]:
                self._execute(statement)
        elif word == "\\h" and name:
            self._execute(f"DESCRIBE HISTORY {name}")
        elif word == "\\o":
            if name not in OUTPUTS:
                raise UsageError(
                    Code.INVALID_VALUE, f"rows can't be printed as '{name}'", hint=did_you_mean(name, OUTPUTS)
                )
            self._output = OUTPUTS[OUTPUTS.index(name)]
        elif word == "\\x":
            self._look = replace(self._look, vertical=_NEXT[self._look.vertical])
            note({True: "a line a column", False: "a line a row", None: "what has room"}[self._look.vertical])
        elif word == "\\a":
            self._look = replace(self._look, all_columns=not self._look.all_columns)
            note("all columns" if self._look.all_columns else "columns that begin with _ only if they are named")
        elif word in ("\\?", "\\h"):
            note(HELP)
        elif word != "\\q":
            raise UsageError(Code.USAGE, f"there is no command {word}", hint="\\? lists them")

    def _failed(self, error: HeadwaterError) -> None:
        self.failed = error.exit_code
        show_error(error, as_json=False)
