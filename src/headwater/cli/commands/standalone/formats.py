"""`headwater formats`: what each table format can do."""

from __future__ import annotations

import typer

from headwater.cli.output import AsJson, show_records
from headwater.formats.matrix import capability_matrix


def register(app: typer.Typer) -> None:
    app.command("formats")(formats)


def formats(as_json: AsJson = False) -> None:
    """Show what each table format can do."""
    matrix = capability_matrix()
    columns = list(matrix[0])
    if not as_json:
        matrix = [{k: v if isinstance(v, str) else "✔" if v else "–" for k, v in row.items()} for row in matrix]
    show_records(matrix, columns, as_json=as_json)
