"""`headwater table`: what is in the tables, and what people put there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.history import add_travel
from headwater.cli.options import Common, lake_command
from headwater.cli.output import COLUMNS, note, show_described, show_record, show_records
from headwater.cli.served import here
from headwater.core.errors import Code, UsageError
from headwater.core.model import At

app = typer.Typer(help="Tables: what they hold; load and restore them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The table.")]

add_travel(app, lambda lake, name: lake.table(name))


@lake_command(app, "list")
def list_(common: Common) -> None:
    """List the tables."""
    with common.look() as lake:
        columns = ["name", "from", "format", "location", "created_at", "description"]
        show_records(lake.tables().to_dicts(), columns, as_json=common.as_json, empty="the project has no tables")


@lake_command(app, served=True)
def describe(common: Common, name: Name) -> None:
    """Show a table: its columns, version and size."""
    with common.look() as lake:
        show_described(lake.table(name).describe().to_dict(), COLUMNS, as_json=common.as_json)


@lake_command(app, served=True)
def load(
    common: Common,
    name: Name,
    file: Annotated[Path, typer.Argument(help="A file: .csv, .json, .ndjson or .parquet.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace all rows.")] = False,
) -> None:
    """Load a file into a reference table; rows with an existing key replace the old ones."""
    try:
        content = here(file).read_bytes()
    except OSError as error:
        raise UsageError(Code.USAGE, f"can't read {file}: {error.strerror}") from error
    with common.open() as lake:
        done = lake.table(name).load(str(file), content, replace=replace)
    show_record(done.to_dict(), as_json=common.as_json)


@lake_command(app, served=True)
def restore(
    common: Common,
    name: Name,
    version: Annotated[int | None, typer.Option("--version", help="The version to go back to.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="The time to go back to: 2026-10-17 12:00.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
) -> None:
    """Restore an earlier state of a table, as a new commit; explains the consequences first."""
    if (version is None) == (at is None):
        raise UsageError(Code.USAGE, "give --version or --at, one of them")
    from headwater.sql.moments import parse_time

    wanted: At = parse_time(at) if at is not None else version or 0
    with common.open() as lake:
        done = lake.table(name).restore(wanted, do=yes)
    show_record(done.to_dict(), as_json=common.as_json)
    if not yes:
        raise UsageError(
            Code.USAGE,
            f"nothing was done: table '{name}' would go from version {done.from_version} back to what it was at "
            f"{done.to_version}",
            hint="confirm with --yes",
        )


@lake_command(app)
def drop(
    common: Common,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: this can't be undone.")] = False,
) -> None:
    """Drop a table and its flow's ledger."""
    if not yes:
        message = f"the rows of table '{name}' and all its versions will be deleted"
        raise UsageError(Code.USAGE, message, hint="confirm with --yes")
    with common.open() as lake:
        dropped = lake.table(name).drop()
    show_record(dropped.to_dict(), as_json=common.as_json)
    if dropped.defined:
        note(f"tables.{name} is still in the project file: the next run makes it again")
