"""The one place where commands render: tables for people, JSON for programs, errors for both.

Results go to standard output, everything else to standard error. Below it `values` makes texts of values, `grids`
tables of texts, and `style` colours them where there is a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli.style import has_colour, say, style_of, styled, width_of
from headwater.cli.values import json_text, shown, shown_as, visible
from headwater.core.errors import HeadwaterError, Problem

if TYPE_CHECKING:
    from headwater.cli.grids import Grid  # loaded where a table is printed: programs wait for less

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Level = Literal["error", "warning", "note"]
_STYLES: Mapping[Level, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold"}


def show_records(
    records: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    as_json: bool,
    empty: str = "nothing",
    vertical: bool | None = None,
) -> None:
    """A list of like things: a JSON array, or a table; vertically where that is asked for, or has no room otherwise."""
    if as_json:
        print_json(list(records))
    elif not records:
        note(empty)
    else:
        print_lines(grid_of(records, columns).lines(vertical=vertical))


def show_record(record: Mapping[str, Any], *, as_json: bool) -> None:
    """One thing with its properties."""
    if as_json:
        print_json(record)
        return
    from headwater.cli.grids import Cell, described

    cells = [Cell(shown_as(key, value), style_of(key, value)) for key, value in record.items()]
    print_lines(described(list(record), cells, width_of(sys.stdout), colour=has_colour(sys.stdout)))


def show_described(found: dict[str, Any], *lists: tuple[str, Sequence[str], str], as_json: bool) -> None:
    """One thing with its properties, and the lists among them as tables: name, columns, heading."""
    if as_json:
        print_json(found)
        return
    parts = [(found.pop(name), columns, heading) for name, columns, heading in lists]
    show_record(found, as_json=False)
    for records, columns, heading in parts:
        print_heading(heading if records else f"{heading}: none yet")
        if records:
            print_lines(grid_of(records, columns).lines())


COLUMNS = ("columns", ["name", "type"], "columns")
"""A relation's columns, as `show_described` takes a list."""


def grid_of(records: Sequence[Mapping[str, Any]], columns: Sequence[str], *, of_data: bool = False) -> Grid:
    """Records as a table for whoever reads standard output; `of_data`: somebody's rows, whose names mean nothing."""
    from headwater.cli.grids import Cell, Grid, GridColumn

    def cell(name: str, value: Any) -> Cell:
        return Cell(shown(value)) if of_data else Cell(shown_as(name, value), style_of(name, value))

    def column(name: str) -> GridColumn:
        values = [value for record in records if (value := record.get(name)) is not None]
        numbers = all(isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) for value in values)
        return GridColumn(
            name, right=numbers, whole=all(isinstance(one, (int, float, Decimal, date)) for one in values)
        )

    rows = [[cell(name, record.get(name)) for name in columns] for record in records]
    return Grid([column(name) for name in columns], rows, width_of(sys.stdout), has_colour(sys.stdout))


def print_lines(lines: Iterable[str]) -> None:
    """Lines that are ready: visible, and in their styles."""
    for line in lines:
        sys.stdout.write(line + "\n")


def print_heading(text: str) -> None:
    """What the table below it is, where an answer has several."""
    sys.stdout.write("\n")
    say(visible(text), "bold")


def print_json(value: Any) -> None:
    sys.stdout.write(json_text(value, indent=2) + "\n")
    sys.stdout.flush()


def print_line(text: str, style: str = "") -> None:
    """A line of an answer for people."""
    say(visible(text), style)


def note_cut(shown: int, message: str, *, as_json: bool) -> None:
    """Say that a list was cut, and how to get the rest; the list itself stays a list, so it goes to standard error."""
    if as_json:
        sys.stderr.write(json.dumps({"cut": {"shown": shown, "message": message}}) + "\n")
    else:
        note(message)


def note(text: str) -> None:
    """Something to know that is not the result."""
    say(visible(text), stderr=True)


def warn(text: str) -> None:
    """Something that is not as it should be, and kept nothing from being done."""
    _tell("warning", text, stderr=True)


def show_error(error: HeadwaterError, *, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(json.dumps({"errors": [described(p) for p in error.problems]}, indent=2) + "\n")
        return
    for problem in error.problems:
        print_problem(problem, "error", stderr=True)


def print_problem(problem: Problem, level: Level, *, stderr: bool = False) -> None:
    """A problem with what it is in front; in colour on a terminal."""
    _tell(level, str(problem), stderr=stderr)
    if problem.excerpt is not None:
        say(visible(problem.excerpt), stderr=stderr)


def _tell(level: Level, text: str, *, stderr: bool) -> None:
    stream = sys.stderr if stderr else sys.stdout
    say(f"{styled(level, _STYLES[level], colour=has_colour(stream))} {visible(text)}", stderr=stderr)


def described(problem: Problem) -> dict[str, Any]:
    """A problem as programs read it."""
    where = problem.where
    return {
        "code": str(problem.code),
        "message": problem.message,
        "file": where and where.file,
        "line": where and where.line,
        "path": where and where.path,
        "hint": problem.hint,
        **({} if problem.excerpt is None else {"column": where and where.column, "excerpt": problem.excerpt}),
    }
