"""`headwater source`: the sources, and what they need at their other end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.api.lake import Lake
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, print_json, print_line, show_records

app = typer.Typer(help="The sources: list them, prepare what they read.", no_args_is_help=True)


@app.command("list")
def list_(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """List the sources and the topics that they feed."""
    with Lake.open(project, target) as lake:
        found = lake.sources()
    show_records(
        found, ("source", "type", "topics", "description"), as_json=as_json, empty="the project has no sources"
    )


@app.command()
def prepare(
    source: Annotated[str, typer.Argument(help="The source.")],
    run: Annotated[bool, typer.Option("--run", help="Run what is not done yet; else it is only shown.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Show, or run, the SQL that a database needs so that the source is read at its best."""
    with Lake.open(project, target) as lake:
        found = lake.prepare_source(source, run=run)
    if as_json:
        print_json(found)
        return
    for statement in found["statements"]:
        state = "there already" if statement["done"] else "done now" if run else ""
        print_line(f"-- {statement['why']}{f' ({state})' if state else ''}")
        print_line(f"{statement['sql']};")
    for text in found["notes"]:
        note(text)
