"""Rows of an answer on standard output, batch by batch: as a table, CSV, JSON, a JSON object a line, or Parquet.

A table is for people: columns that begin with `_` are left out of it unless the query names them, and one that has no
room on the terminal is printed row by row. In everything else all columns stay.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli.output import grid_of, note, print_lines
from headwater.cli.values import json_text, plain, shown, visible
from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import WEIGHT

if TYPE_CHECKING:
    from headwater.query.result import Result

Output = Literal["table", "csv", "json", "ndjson", "parquet"]
Vertical = Annotated[
    bool | None,
    typer.Option(
        "--vertical/--horizontal", help="A line a column, or a row; by itself a column where a row has no room."
    ),
]
AllColumns = Annotated[bool, typer.Option("--all-columns", help="In tables, also show columns that begin with _.")]

TABLE_ROWS = 1000
"""How many rows a table on the terminal shows."""
_SAID = frozenset({WEIGHT, "_op"})
"""What became of a row is what the row is about."""


@dataclass(frozen=True)
class TableStyle:
    """How a table is printed for people."""

    vertical: bool | None = None
    """None: where a row has no room."""
    all_columns: bool = False
    how: str = "--all-columns"
    """What people say to see all columns."""


def print_rows(result: Result, output: Output, look: TableStyle = TableStyle(), *, sql: str = "") -> None:
    """All rows of a result; `sql` is the query, whose columns are shown if it names them."""
    if output == "table":
        _table(result, look, sql)
    else:
        _PRINTERS[output](result)


def show_table(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], look: TableStyle, named: Collection[str]
) -> None:
    """Somebody's rows as a table; says which columns it leaves out."""
    hidden = [] if look.all_columns else hidden_columns(columns, named)
    print_lines(grid_of(rows, [n for n in columns if n not in hidden], of_data=True).lines(vertical=look.vertical))
    if hidden:
        sys.stdout.flush()
        note(f"not shown: {', '.join(hidden)}; {look.how} shows them, as does naming them")


def hidden_columns(columns: Sequence[str], named: Collection[str]) -> list[str]:
    """Those that a table leaves out: they begin with `_`, and nobody has named them."""
    hidden = [name for name in columns if name.startswith("_") and name not in _SAID and name.lower() not in named]
    return [] if len(hidden) == len(columns) else hidden


def named_columns(sql: str) -> set[str]:
    """The columns that a query gives by name, wherever in it; nothing for what is no query."""
    from sqlglot import exp

    from headwater.sql.parse import parse_statement
    from headwater.sql.statements import Select

    try:
        statement = parse_statement(sql)
    except (HeadwaterError, RecursionError):
        return set()
    selects = statement.query.find_all(exp.Select) if isinstance(statement, Select) else ()
    return {each.alias_or_name.lower() for select in selects for each in select.expressions}


def _table(result: Result, look: TableStyle, sql: str) -> None:
    rows = list(islice(result.printable(), TABLE_ROWS + 1))
    if not rows:
        note("no rows")
        return
    columns = result.columns
    named = named_columns(sql) if any(name.startswith("_") for name in columns) else ()
    show_table(rows[:TABLE_ROWS], columns, look, named)
    if len(rows) > TABLE_ROWS:
        note(f"the first {TABLE_ROWS} rows; --output csv, json or ndjson gives all")


def _csv(result: Result) -> None:
    # A program gets every character; a terminal would obey some.
    cell = _visible_cell if sys.stdout.isatty() else _cell
    writer = csv.writer(sys.stdout)
    writer.writerow([cell(name) for name in result.columns])
    for row in result.printable():
        writer.writerow([cell(row[name]) for name in result.columns])


def _json(result: Result) -> None:
    lines = map(json_text, result.printable())
    first = next(lines, None)
    if first is None:
        sys.stdout.write("[]\n")
        return
    sys.stdout.write(f"[\n  {first}")
    for line in lines:
        sys.stdout.write(f",\n  {line}")
    sys.stdout.write("\n]\n")


def _ndjson(result: Result) -> None:
    for row in result.printable():
        sys.stdout.write(json_text(row) + "\n")


def _parquet(result: Result) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    raw = getattr(sys.stdout, "buffer", None)
    if raw is None or sys.stdout.isatty():
        raise UsageError(Code.USAGE, "Parquet is not for a terminal", hint="send it to a file: > rows.parquet")
    sys.stdout.flush()
    sink = pa.PythonFile(raw, mode="w")  # not closed: standard output stays open
    with pq.ParquetWriter(sink, result.schema, compression="zstd") as writer:
        for batch in result.batches():
            writer.write_batch(batch)
    raw.flush()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    return plain(value) if not isinstance(value, (dict, list)) else shown(value)


def _visible_cell(value: Any) -> Any:
    found = _cell(value)
    return visible(found) if isinstance(found, str) else found


_PRINTERS: dict[str, Callable[[Result], None]] = {
    "csv": _csv,
    "json": _json,
    "ndjson": _ndjson,
    "parquet": _parquet,
}
