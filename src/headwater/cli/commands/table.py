"""`headwater table`: what is in the tables, and what people put there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.api.lake import Lake
from headwater.cli.history import add_travel
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import COLUMNS, AsJson, note, show_described, show_record, show_records
from headwater.cli.served import here, warm
from headwater.core.errors import Code, UsageError
from headwater.core.model import At
from headwater.sql.rewrite import parse_time

app = typer.Typer(help="The tables: what they hold, load and restore them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The table.")]

add_travel(app, Lake.table)


@app.command("list")
def list_(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """List the tables."""
    with Lake.open(project, target) as lake:
        columns = ["name", "from", "format", "location", "created_at", "description"]
        show_records(lake.tables(), columns, as_json=as_json, empty="the project has no tables")


@app.command()
@warm
def describe(name: Name, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Show a table: its columns, version and size."""
    with Lake.open(project, target) as lake:
        show_described(lake.table(name).describe(), COLUMNS, as_json=as_json)


@app.command()
@warm
def load(
    name: Name,
    file: Annotated[Path, typer.Argument(help="A file: .csv, .json, .ndjson or .parquet.")],
    replace: Annotated[bool, typer.Option("--replace", help="These rows and no others.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Load a file into a reference table: a row of a known key takes the old one's place."""
    try:
        content = here(file).read_bytes()
    except OSError as error:
        raise UsageError(Code.USAGE, f"can't read {file}: {error.strerror}") from error
    with Lake.open(project, target) as lake:
        done = lake.table(name).load(str(file), content, replace=replace)
    show_record(done, as_json=as_json)


@app.command()
@warm
def restore(
    name: Name,
    version: Annotated[int | None, typer.Option("--version", help="The version to go back to.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="The time to go back to: 2026-10-17 12:00.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Set a table back to an earlier state, by one commit more; says first what that means."""
    if (version is None) == (at is None):
        raise UsageError(Code.USAGE, "give --version or --at, one of them")
    wanted: At = parse_time(at) if at is not None else version or 0
    with Lake.open(project, target) as lake:
        done = lake.table(name).restore(wanted, do=yes)
    show_record(done, as_json=as_json)
    if not yes:
        raise UsageError(
            Code.USAGE,
            f"nothing was done: table '{name}' would go from version {done['from_version']} back to what it was at "
            f"{done['to_version']}",
            hint="say --yes if that is meant",
        )


@app.command()
def drop(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do it: it can't be undone.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Drop a table, and all that its flow remembers."""
    if not yes:
        message = f"the rows of table '{name}' and all its versions will be gone"
        raise UsageError(Code.USAGE, message, hint="say --yes if that is meant")
    with Lake.open(project, target) as lake:
        dropped = lake.table(name).drop()
    show_record(dropped, as_json=as_json)
    if dropped["defined"]:
        note(f"tables.{name} is still in the project file: the next run makes it again")
