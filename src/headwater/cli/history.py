"""`history`, `diff` and `tag`: the same commands for topics, tables and views."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from headwater.api.lake import Lake
from headwater.api.relations import Relation
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note_cut, show_record, show_records
from headwater.cli.served import warm
from headwater.core.errors import Code, UsageError
from headwater.operations.diff import summary as summed
from headwater.operations.listings import HISTORY, told_of
from headwater.sql.moments import parse_moment, parse_time

Name = Annotated[str, typer.Argument(help="Its name.")]
DIFFERENCES = 100
"""How many rows of a diff are shown if nothing else is said."""
Found = Callable[[Lake, str], Relation]
"""How a group of commands finds what it is about: `Lake.topic`."""


def add_travel(app: typer.Typer, found: Found) -> None:
    """Give a group of commands those that go through versions."""

    @app.command()
    @warm
    def history(
        name: Name,
        limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the newest ones.")] = None,
        project: ProjectPath = Path(),
        target: Target = None,
        as_json: AsJson = False,
    ) -> None:
        """Show the versions and what made each, newest first."""
        with Lake.open(project, target) as lake:
            _show_history(found(lake, name), limit, as_json=as_json)

    @app.command()
    @warm
    def diff(
        name: Name,
        start: Annotated[str, typer.Argument(help="A version, a time (2026-10-17 12:00) or a snapshot's label.")],
        end: Annotated[str | None, typer.Argument(help="The later one; the latest version if not given.")] = None,
        summary: Annotated[bool, typer.Option("--summary", help="Only how many rows came and went.")] = False,
        limit: Annotated[int | None, typer.Option("--limit", min=1, help="How many rows; 100 if not given.")] = None,
        all_: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
        project: ProjectPath = Path(),
        target: Target = None,
        as_json: AsJson = False,
    ) -> None:
        """Show the rows that came (+) and went (-) between two versions or times."""
        if all_ and limit is not None:
            raise UsageError(Code.USAGE, "give --limit or --all, not both")
        most = None if all_ else limit or DIFFERENCES
        with Lake.open(project, target) as lake:
            _show_diff(found(lake, name), start, end, most, summary=summary, as_json=as_json)

    @app.command()
    @warm
    def tag(
        name: Name,
        label: Annotated[str | None, typer.Argument(help="The snapshot's name; without one all are listed.")] = None,
        version: Annotated[int | None, typer.Option("--version", help="This version; the latest if not given.")] = None,
        at: Annotated[str | None, typer.Option("--at", help="The version of a time: 2026-10-17 12:00.")] = None,
        replace: Annotated[bool, typer.Option("--replace", help="Move a label that is there.")] = False,
        delete: Annotated[bool, typer.Option("--delete", help="Take the label away.")] = False,
        project: ProjectPath = Path(),
        target: Target = None,
        as_json: AsJson = False,
    ) -> None:
        """Name a version, so that `VERSION AS OF 'label'` reads it and it is not expired."""
        if version is not None and at is not None:
            raise UsageError(Code.USAGE, "give --version or --at, not both")
        with Lake.open(project, target) as lake:
            relation = found(lake, name)
            if label is None:
                columns = ["label", "version", "tagged_at"]
                show_records(relation.tags(), columns, as_json=as_json, empty="no named snapshots")
            elif delete:
                relation.untag(label)
                show_record({"label": label, "deleted": True}, as_json=as_json)
            else:
                moment = version if at is None else parse_time(at)
                show_record(relation.tag(label, moment, replace=replace), as_json=as_json)


def _show_history(relation: Relation, limit: int | None, *, as_json: bool) -> None:
    commits = [told_of(commit) for commit in relation.history(limit)]
    labels: dict[int, list[str]] = {}
    for one in [] if as_json else relation.tags():
        labels.setdefault(one["version"], []).append(one["label"])
    if labels:
        commits = [{**commit, "tags": labels.get(commit["version"], [])} for commit in commits]
    show_records(commits, [*HISTORY, *(["tags"] if labels else [])], as_json=as_json)


def _show_diff(
    relation: Relation, start: str, end: str | None, most: int | None, *, summary: bool, as_json: bool
) -> None:
    changes = relation.diff(parse_moment(start), None if end is None else parse_moment(end))
    if summary:
        show_record({"from": start, "to": end or "latest", **summed(changes)}, as_json=as_json)
        return
    some = changes if most is None else changes.limit(most + 1)
    rows = [row.asDict(recursive=True) for row in some.collect()]
    shown = rows[:most]
    show_records(shown, changes.columns, as_json=as_json, empty="no row came or went")
    if len(rows) > len(shown):
        message = f"the first {len(shown)} of more rows; --all or a larger --limit shows them, --summary counts them"
        note_cut(len(shown), message, as_json=as_json)
