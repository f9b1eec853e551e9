"""`headwater init`: a project to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.output import AsJson, note, print_json, print_line
from headwater.project.templates import DEFAULT, template_names, write_project

_TEMPLATES = ", ".join(template_names())


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the project goes.")],
    template: Annotated[str, typer.Option("--template", help=f"What to begin with: {_TEMPLATES}.")] = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Write a project that passes `check` and, on files, runs with the sample data it brings."""
    made = write_project(folder, template)
    if as_json:
        print_json({"template": template, "folder": str(folder), "files": [str(file) for file in made]})
        return
    for file in made:
        print_line(str(file))
    note(f"next: cd {folder} && headwater check")
