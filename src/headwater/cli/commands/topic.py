"""`headwater topic`: what is in the topics, and how it got there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.history import add_travel
from headwater.cli.options import Common, lake_command
from headwater.cli.output import (
    COLUMNS,
    grid_of,
    note,
    print_heading,
    print_json,
    print_lines,
    show_described,
    show_record,
    show_records,
)
from headwater.cli.served import here
from headwater.cli.tail import follow_topic
from headwater.core.errors import Code, UsageError, did_you_mean

if TYPE_CHECKING:
    from headwater.sources.append.text import TextFormat

app = typer.Typer(help="Topics: what they hold, and how it got there.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The topic.")]

add_travel(app, lambda lake, name: lake.topic(name))


@lake_command(app, "list")
def list_(common: Common) -> None:
    """List the topics."""
    with common.look() as lake:
        columns = ["name", "from", "format", "location", "created_at", "description"]
        show_records(lake.topics().to_dicts(), columns, as_json=common.as_json, empty="the project has no topics")


@lake_command(app, served=True)
def describe(common: Common, name: Name) -> None:
    """Show a topic: its columns, version and size."""
    with common.look() as lake:
        found = lake.topic(name).describe().to_dict()
    told = ["version", "found_at", "brought_by", "changes"]
    schemas = ("schemas", told, "versions of its payload's schema, oldest first")
    show_described(found, COLUMNS, schemas, as_json=common.as_json)


@lake_command(app, served=True)
def remap(
    common: Common,
    name: Name,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which rows would be added, removed and changed.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it also where rows go.")] = False,
) -> None:
    """Rebuild a topic's rows from `_raw` with today's selection and mapping."""
    with common.open() as lake:
        done = lake.topic(name).remap(dry_run=dry_run, may_remove=yes)
    record = done.to_dict()
    if common.as_json:
        print_json(record)
        return
    del record["examples"]
    show_record(record, as_json=False)
    if done.examples:
        print_heading("some of the rows")
        print_lines(grid_of(done.examples, list(done.examples[0]), of_data=True).lines())
    if dry_run:
        note("nothing was changed")


@lake_command(app)
def drop(
    common: Common,
    name: Name,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Its dead letters too.")] = False,
    drop_slot: Annotated[
        bool,
        typer.Option("--drop-slot", help="The replication slot and publication too, with its source's last topic."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: this can't be undone.")] = False,
) -> None:
    """Drop a topic: its table and its flow's ledger."""
    from headwater.operations.drop import DroppedTopic  # with pyspark, which `topic list` does without

    if not yes:
        raise UsageError(
            Code.USAGE,
            f"the rows of topic '{name}' and all its versions will be deleted"
            + ("" if dead_letters else "; its dead letters stay"),
            hint="confirm with --yes",
        )
    with common.open() as lake:
        dropped = lake.topic(name).drop(dead_letters=dead_letters, slot=drop_slot)
    show_record(dropped.to_dict(), as_json=common.as_json)
    if isinstance(dropped, DroppedTopic) and dropped.slot and not dropped.slot_dropped:
        note(
            f"the replication slot '{dropped.slot}' is not needed by any topic now and still holds the server's log:"
            f" headwater topic drop {name} --drop-slot --yes drops it"
        )
    if dropped.defined:
        note(f"topics.{name} is still in the project file: the next run makes it again")


@lake_command(app, served=True)
def tail(
    common: Common,
    name: Name,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="Number of newest rows.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new rows.")] = False,
) -> None:
    """Print a topic's newest rows, one JSON object per line, in order of arrival."""
    with common.look() as lake:
        follow_topic(lake, name, rows, follow=follow)


@lake_command(app, served=True)
def append(
    common: Common,
    name: Name,
    file: Annotated[Path, typer.Argument(help="A file, or - for standard input.")] = Path("-"),
    format: Annotated[
        str | None, typer.Option("--format", help="json, ndjson or csv; by the file's name by default.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Makes a repeated command safe.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the topic has the rows.")] = True,
) -> None:
    """Append rows to a topic whose source is `append`."""
    from headwater.sources.append.text import parse

    with common.open() as lake:
        topic = lake.topic(name)
        found = topic.append(parse(_content(file), _text_format(file, format)), key, wait=wait)
    show_record(found.to_dict(), as_json=common.as_json)
    if wait and not found.committed:
        note(f"the rows are kept; topics.{name} is paused and takes them in when it is resumed")


@lake_command(app)
def replay(
    common: Common,
    name: Name,
    into: Annotated[str, typer.Option("--into", help="A table that is made of this topic.")],
    until: Annotated[str | None, typer.Option("--until", help="As the topic was at a time: 2026-10-17 12:00.")] = None,
    at: Annotated[int | None, typer.Option("--at", help="As the topic was at this version.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm where rows go that the topic does not have any more.")
    ] = False,
) -> None:
    """Rebuild a table from the topic, alongside the live one, and swap it in with one commit."""
    if until is not None and at is not None:
        raise UsageError(Code.USAGE, "give --until or --at, not both")
    from headwater.sql.moments import parse_time

    with common.open() as lake:
        done = lake.topic(name).replay(into, parse_time(until) if until is not None else at, may_remove=yes)
    show_record(done.to_dict(), as_json=common.as_json)
    if done.paused:
        note(f"tables.{into} is paused in that state: headwater flow resume tables.{into} lets it go on from there")


def _content(file: Path) -> bytes:
    if str(file) == "-":
        content: bytes = sys.stdin.buffer.read()
        return content
    try:
        return here(file).read_bytes()
    except OSError as error:
        raise UsageError(Code.USAGE, f"can't read {file}: {error.strerror}") from error


def _text_format(file: Path, given: str | None) -> TextFormat:
    from headwater.sources.append.text import ENDINGS

    if given is None:
        return ENDINGS.get(file.suffix.lower(), "json")
    known = {format: format for format in ENDINGS.values()}
    if given not in known:
        raise UsageError(Code.INVALID_VALUE, f"there is no format '{given}'", hint=did_you_mean(given, known))
    return known[given]
