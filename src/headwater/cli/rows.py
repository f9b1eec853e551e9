"""Rows of an answer on standard output, batch by batch: as a table, CSV, JSON, a JSON object a line, or Parquet."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any, Literal

from headwater.cli.output import json_text, note, plain, show_records, shown, visible
from headwater.core.errors import Code, UsageError
from headwater.query.result import Result

Output = Literal["table", "csv", "json", "ndjson", "parquet"]

TABLE_ROWS = 1000
"""How many rows a table on the terminal shows."""


def print_rows(result: Result, output: Output) -> None:
    _PRINTERS[output](result)


def _table(result: Result) -> None:
    rows = list(islice(result, TABLE_ROWS + 1))
    show_records(rows[:TABLE_ROWS], result.columns, as_json=False, empty="no rows")
    if len(rows) > TABLE_ROWS:
        note(f"the first {TABLE_ROWS} rows; --output csv, json or ndjson gives all")


def _csv(result: Result) -> None:
    # A program gets every character; a terminal would obey some.
    cell = _visible_cell if sys.stdout.isatty() else _cell
    writer = csv.writer(sys.stdout)
    writer.writerow([cell(name) for name in result.columns])
    for row in result:
        writer.writerow([cell(row[name]) for name in result.columns])


def _json(result: Result) -> None:
    lines = map(json_text, result)
    first = next(lines, None)
    if first is None:
        sys.stdout.write("[]\n")
        return
    sys.stdout.write(f"[\n  {first}")
    for line in lines:
        sys.stdout.write(f",\n  {line}")
    sys.stdout.write("\n]\n")


def _ndjson(result: Result) -> None:
    for row in result:
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


_PRINTERS: dict[Output, Callable[[Result], None]] = {
    "table": _table,
    "csv": _csv,
    "json": _json,
    "ndjson": _ndjson,
    "parquet": _parquet,
}
