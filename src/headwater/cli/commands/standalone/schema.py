"""`headwater schema`: the JSON Schema of the project file."""

from __future__ import annotations

import typer

from headwater.cli.output import AsJson, print_json
from headwater.project.schema import project_schema


def register(app: typer.Typer) -> None:
    app.command("schema")(schema)


def schema(as_json: AsJson = True) -> None:
    """Print the JSON Schema of headwater.yml, for editors and other programs."""
    print_json(project_schema())
