"""`headwater query`: SQL on the lake."""

from __future__ import annotations

import csv
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from headwater.cli.answering import warm
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, plain, print_json, show_records, shown
from headwater.lake import Lake
from headwater.query.result import Result

Output = Literal["table", "csv", "json", "ndjson"]

TABLE_ROWS = 1000
"""How many rows a table on the terminal shows."""


def register(app: typer.Typer) -> None:
    app.command("query")(warm(query))


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT over topic('x'), table('x'), mv('x').")],
    output: Annotated[Output, typer.Option("--output", help="How the rows are printed.")] = "table",
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Answer a query; the rows go to standard output."""
    with Lake.open(project, target) as lake:
        result = lake.sql(sql)
        _print(result, "json" if as_json else output)


def _print(result: Result, output: Output) -> None:
    if output == "json":
        print_json(result.rows())
    elif output == "ndjson":
        for row in result:
            sys.stdout.write(json.dumps(row, default=plain, ensure_ascii=False) + "\n")
    elif output == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(result.columns)
        for row in result:
            writer.writerow([_cell(row[name]) for name in result.columns])
    else:
        rows = list(islice(result, TABLE_ROWS + 1))
        show_records(rows[:TABLE_ROWS], result.columns, as_json=False, empty="no rows")
        if len(rows) > TABLE_ROWS:
            note(f"the first {TABLE_ROWS} rows; --output csv, json or ndjson gives all")


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    return plain(value) if not isinstance(value, (dict, list)) else shown(value)
