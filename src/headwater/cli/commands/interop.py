"""`headwater interop`: relations as tables of other formats, over the same files."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, print_json, show_records

app = typer.Typer(
    help="Topics, tables and views as tables of other formats, over the same files.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The topic, table or view: orders, views.daily.")]

_SYNCED = ["format", "outcome", "source_version", "files", "files_added", "files_removed", "rows", "duration_ms"]
_TARGETS = ["relation", "format", "location", "source_version", "latest_version", "current", "synced_at"]


@lake_command(app, "sync", served=True)
def sync_(
    common: Common,
    name: Name,
    to: Annotated[
        str | None, typer.Option("--to", help="Formats: iceberg,delta. By default those of its `interop`.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Read the whole target back, and not just what is new.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make the target again, also if somebody else has written to it.")
    ] = False,
) -> None:
    """Bring its tables in other formats up to date: no row is copied, and what others would see is read back."""
    with common.open() as lake:
        done = lake.sync_interop(name, _formats(to), full=full, replace=replace)
    if common.as_json:
        print_json([one.to_dict() for one in done])
        return
    show_records([one.to_dict() for one in done], _SYNCED, as_json=False)
    for one in done:
        note(f"{one.format}: {one.location}")


@lake_command(app, "list", served=True)
def list_(common: Common) -> None:
    """List the tables of other formats, where they are, and how far."""
    with common.look() as lake:
        found = [one.to_dict() for one in lake.interop_targets()]
    show_records(found, _TARGETS, as_json=common.as_json, empty="no relation is a table of another format too")


@lake_command(app, "drop", served=True)
def drop(
    common: Common,
    name: Name,
    formats: Annotated[str, typer.Option("--from", help="Formats: iceberg,delta.")],
) -> None:
    """Drop its tables in other formats. The files stay: they are the relation's."""
    with common.open() as lake:
        gone = lake.drop_interop(name, _formats(formats))
    if common.as_json:
        print_json({"dropped": gone})
    else:
        note(f"dropped: {', '.join(gone)}" if gone else "there was none")


def _formats(text: str | None) -> list[str]:
    return [one.strip() for one in (text or "").split(",") if one.strip()]
