"""`headwater topic`: what is in the topics, and how it got there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.api.lake import Lake
from headwater.cli.history import add_travel
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import COLUMNS, AsJson, note, print_json, show_described, show_record, show_records
from headwater.cli.served import here, warm
from headwater.cli.tail import follow_topic
from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.sources.append.text import ENDINGS, TextFormat, parse
from headwater.sql.moments import parse_time

app = typer.Typer(help="The topics: what they hold, and how it got there.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The topic.")]

add_travel(app, Lake.topic)


@app.command("list")
def list_(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """List the topics."""
    with Lake.open(project, target) as lake:
        columns = ["name", "from", "format", "location", "created_at", "description"]
        show_records(lake.topics(), columns, as_json=as_json, empty="the project has no topics")


@app.command()
@warm
def describe(name: Name, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Show a topic: its columns, version and size."""
    with Lake.open(project, target) as lake:
        found = lake.topic(name).describe()
    told = ["version", "found_at", "brought_by", "changes"]
    schemas = ("schemas", told, "versions of its payload's schema, oldest first:")
    show_described(found, COLUMNS, schemas, as_json=as_json)


@app.command()
@warm
def remap(
    name: Name,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the rows that would come, go and change.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it also where rows go.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Make a topic's rows again from `_raw`, by today's selection and mapping."""
    with Lake.open(project, target) as lake:
        done = lake.topic(name).remap(dry_run=dry_run, may_remove=yes)
    if as_json:
        print_json(done)
        return
    examples = done.pop("examples")
    show_record(done, as_json=False)
    if examples:
        note("some of the rows:")
        show_records(examples, list(examples[0]), as_json=False)
    if dry_run:
        note("nothing was changed")


@app.command()
def drop(
    name: Name,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Its dead letters too.")] = False,
    drop_slot: Annotated[
        bool,
        typer.Option("--drop-slot", help="The replication slot and publication too, with its source's last topic."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it: it can't be undone.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Drop a topic: its table, and all that its flow remembers."""
    if not yes:
        raise UsageError(
            Code.USAGE,
            f"the rows of topic '{name}' and all its versions will be gone"
            + ("" if dead_letters else "; its dead letters stay"),
            hint="say --yes if that is meant",
        )
    with Lake.open(project, target) as lake:
        dropped = lake.topic(name).drop(dead_letters=dead_letters, slot=drop_slot)
    show_record(dropped, as_json=as_json)
    if dropped["slot"] and not dropped["slot_dropped"]:
        note(
            f"the replication slot '{dropped['slot']}' is not needed by any topic now and still holds the server's log:"
            f" headwater topic drop {name} --drop-slot --yes drops it"
        )
    if dropped["defined"]:
        note(f"topics.{name} is still in the project file: the next run makes it again")


@app.command()
@warm
def tail(
    name: Name,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="How many of the newest rows.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those that come.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Print a topic's newest rows, a JSON object a line, in the order in which they came."""
    del as_json  # that is what it prints anyway
    with Lake.open(project, target) as lake:
        follow_topic(lake, name, rows, follow=follow)


@app.command()
@warm
def append(
    name: Name,
    file: Annotated[Path, typer.Argument(help="A file, or - for standard input.")] = Path("-"),
    format: Annotated[
        str | None, typer.Option("--format", help="json, ndjson or csv; by the file's name if not given.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Makes a repeated command safe.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until the topic has the rows.")] = True,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Append rows to a topic whose source is `append`."""
    with Lake.open(project, target) as lake:
        topic = lake.topic(name)
        found = topic.append(parse(_content(file), _text_format(file, format)), key, wait=wait)
    show_record(found, as_json=as_json)
    if wait and not found["committed"]:
        note(f"the rows are kept; topics.{name} is paused and takes them in when it is resumed")


@app.command()
def replay(
    name: Name,
    into: Annotated[str, typer.Option("--into", help="A table that is made of this topic.")],
    until: Annotated[str | None, typer.Option("--until", help="As the topic was at a time: 2026-10-17 12:00.")] = None,
    at: Annotated[int | None, typer.Option("--at", help="As the topic was at this version.")] = None,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Make a table anew from the topic, beside the live one, and swap it in by one commit."""
    if until is not None and at is not None:
        raise UsageError(Code.USAGE, "give --until or --at, not both")
    with Lake.open(project, target) as lake:
        done = lake.topic(name).replay(into, parse_time(until) if until is not None else at)
    show_record(done, as_json=as_json)
    if done["paused"]:
        note(f"tables.{into} is paused in that state: headwater flow resume tables.{into} lets it go on from there")


def _content(file: Path) -> bytes:
    if str(file) == "-":
        content: bytes = sys.stdin.buffer.read()
        return content
    try:
        return here(file).read_bytes()
    except OSError as error:
        raise UsageError(Code.USAGE, f"can't read {file}: {error.strerror}") from error


def _text_format(file: Path, given: str | None) -> TextFormat | None:
    if given is None:
        return ENDINGS.get(file.suffix.lower())
    known = {format: format for format in ENDINGS.values()}
    if given not in known:
        raise UsageError(Code.INVALID_VALUE, f"there is no format '{given}'", hint=did_you_mean(given, known))
    return known[given]
