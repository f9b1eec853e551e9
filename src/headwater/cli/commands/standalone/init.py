"""`headwater init`: a project to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.output import AsJson, note, print_json, print_line
from headwater.core.errors import Code, UsageError
from headwater.core.secret import address_without_login
from headwater.project.templates import DEFAULT, require_room, template_names, write_files, write_project

_TEMPLATES = ", ".join(template_names())


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the project.")],
    template: Annotated[
        str | None, typer.Option("--template", help=f"What to begin with: {_TEMPLATES}; {DEFAULT} if not given.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="ADDRESS",
            help="Data that are there: a file or folder, kafka://broker:9092/topic, postgresql://…?table=public.events.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a project that is ready to run, with sample data or for data you already have."""
    if from_ is not None:
        if template is not None:
            raise UsageError(Code.USAGE, "give --template or --from, not both")
        _from_data(folder, from_, as_json=as_json)
        return
    made = write_project(folder, template or DEFAULT)
    if as_json:
        print_json({"template": template or DEFAULT, "folder": str(folder), "files": [str(file) for file in made]})
        return
    for file in made:
        print_line(str(file))
    note(f"next: cd {_quoted(folder)} && headwater run --once; README.md says what to look at")


def _from_data(folder: Path, address: str, *, as_json: bool) -> None:
    from headwater.operations.scaffold.files import project_files, variables_to_set
    from headwater.operations.scaffold.sample import look_at

    require_room(folder)
    if not as_json:
        note(f"looking at {address_without_login(address)} …")
    look = look_at(address)
    made = write_files(folder, project_files(look, folder, address_without_login(address)))
    needed = variables_to_set(look)
    if as_json:
        columns = [{"name": one.name, "type": one.type} for one in look.columns]
        told = {"records": look.records, "rejected": list(look.rejected), "columns": columns, "variables": needed}
        where = {"from": address_without_login(address), "folder": str(folder)}
        print_json({**where, **told, "files": [str(file) for file in made]})
        return
    for file in made:
        print_line(str(file))
    if look.rejected:
        note(f"{len(look.rejected)} of {look.records} records would be dead letters: {look.rejected[0]}")
    for name in needed:
        note(f"set {name} to what stood in the address: it is in no file")
    note(f"next: cd {_quoted(folder)} && headwater run --once; README.md says what to look at")


def _quoted(folder: Path) -> str:
    return shlex.quote(str(folder))
