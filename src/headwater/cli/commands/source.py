"""`headwater source`: the sources, and what they need at their other end."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, print_json, print_line, show_records

app = typer.Typer(help="Sources: list them, and prepare their databases.", no_args_is_help=True)


@lake_command(app, "list")
def list_(common: Common) -> None:
    """List the sources and the topics that they feed."""
    with common.look() as lake:
        found = lake.sources().to_dicts()
    show_records(
        found, ("source", "type", "topics", "description"), as_json=common.as_json, empty="the project has no sources"
    )


@lake_command(app)
def prepare(
    common: Common,
    source: Annotated[str, typer.Argument(help="The source.")],
    run: Annotated[bool, typer.Option("--run", help="Run what isn't done yet; without it, only show it.")] = False,
) -> None:
    """Show, or run, the SQL that the source's database needs."""
    with common.open() as lake:
        found = lake.prepare_source(source, run=run)
    if common.as_json:
        print_json(found.to_dict())
        return
    for statement in found.statements:
        state = "there already" if statement.done else "done now" if run else ""
        print_line(f"-- {statement.why}{f' ({state})' if state else ''}")
        print_line(f"{statement.sql};")
    for text in found.notes:
        note(text)
