"""`headwater topic`: what is in the topics, and how it got there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.answering import here, warm
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, print_json, show_record, show_records
from headwater.errors import Code, UsageError, did_you_mean
from headwater.lake import Lake
from headwater.model import WEIGHT, At, Commit
from headwater.sources.append.text import ENDINGS, TextFormat, parse
from headwater.sql.rewrite import parse_time

app = typer.Typer(help="The topics: what they hold, and how it got there.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The topic.")]


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
    if as_json:
        print_json(found)
        return
    columns, schemas = found.pop("columns"), found.pop("schemas")
    show_record(found, as_json=False)
    show_records(columns, ["name", "type"], as_json=False)
    note("versions of its payload's schema, oldest first:")
    show_records(schemas, ["version", "found_at", "brought_by", "changes"], as_json=False, empty="none yet")


@app.command()
@warm
def remap(name: Name, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Make a topic's rows anew from `_raw`, by today's selection and mapping."""
    with Lake.open(project, target) as lake:
        done = lake.topic(name).remap()
    show_record(done, as_json=as_json)


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
def history(
    name: Name,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the newest ones.")] = None,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Show a topic's versions and what made each, newest first."""
    with Lake.open(project, target) as lake:
        commits = [described(commit) for commit in lake.topic(name).history(limit)]
    columns = [
        "version",
        "committed_at",
        "operation",
        "rows_added",
        "rows_removed",
        "flow",
        "epoch",
        "step",
        "positions",
    ]
    show_records(commits, columns, as_json=as_json)


@app.command()
@warm
def diff(
    name: Name,
    start: Annotated[str, typer.Argument(help="A version, or a time: 2026-10-17 12:00.")],
    end: Annotated[str, typer.Argument(help="The later version or time.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many rows to show.")] = 100,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Show the rows that came (+1) and went (-1) between two versions or times."""
    with Lake.open(project, target) as lake:
        topic = lake.topic(name)
        changes = topic.changes(topic.version_at(_at(start)), topic.version_at(_at(end)))
        columns = [WEIGHT, *(column for column in changes.columns if column != WEIGHT)]
        rows = [row.asDict(recursive=True) for row in changes.limit(limit + 1).collect()]
    ordered = [{column: row[column] for column in columns} for row in rows[:limit]]
    show_records(ordered, columns, as_json=as_json, empty="no row came or went")
    if len(rows) > limit:
        note(f"the first {limit} rows; --limit shows more")


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


def described(commit: Commit) -> dict[str, Any]:
    """A commit as `history` prints it."""
    mark = commit.mark
    return {
        "version": commit.version,
        "committed_at": commit.committed_at,
        "operation": commit.operation,
        "rows_added": commit.rows_added,
        "rows_removed": commit.rows_removed,
        "flow": mark and mark.flow,
        "epoch": mark and mark.epoch,
        "step": mark and mark.step,
        "positions": dict(mark.positions) if mark else None,
    }


def _at(text: str) -> At:
    return int(text) if text.isdigit() and len(text) != 4 else parse_time(text)
