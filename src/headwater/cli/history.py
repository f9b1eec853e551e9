"""`history`, `diff` and `tag`: the same commands for topics, tables and views."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, note_cut, print_json, show_record, show_records
from headwater.cli.rows import AllColumns, TableStyle, Vertical, show_table
from headwater.core.errors import Code, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.api.lake import Lake
    from headwater.api.relations import Relation

Name = Annotated[str, typer.Argument(help="Its name.")]
DIFFERENCES = 100
"""How many rows of a diff are shown if nothing else is said."""
Found = Callable[["Lake", str], "Relation"]
"""How a group of commands finds what it is about: `Lake.topic`."""


def add_travel(app: typer.Typer, found: Found) -> None:
    """Give a group of commands those that go through versions."""

    @lake_command(app, served=True)
    def history(
        common: Common,
        name: Name,
        limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the newest ones.")] = None,
    ) -> None:
        """Show the versions and what made each, newest first."""
        with common.look() as lake:
            _show_history(found(lake, name), limit, as_json=common.as_json)

    @lake_command(app, served=True)
    def diff(
        common: Common,
        name: Name,
        start: Annotated[str, typer.Argument(help="A version, a time (2026-10-17 12:00) or a snapshot's label.")],
        end: Annotated[str | None, typer.Argument(help="The later version; the latest by default.")] = None,
        summary: Annotated[bool, typer.Option("--summary", help="Only the numbers of rows added and removed.")] = False,
        limit: Annotated[int | None, typer.Option("--limit", min=1, help="Number of rows; 100 by default.")] = None,
        all_: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
        vertical: Vertical = None,
        all_columns: AllColumns = False,
    ) -> None:
        """Show the rows added (+) and removed (-) between two versions or times."""
        if all_ and limit is not None:
            raise UsageError(Code.USAGE, "give --limit or --all, not both")
        most = None if all_ else limit or DIFFERENCES
        from headwater.operations.diff import summary as summed
        from headwater.operations.native_diff import summary_of
        from headwater.query.result import printable_rows
        from headwater.sql.moments import parse_moment

        with common.look() as lake:
            relation = found(lake, name)
            ends = parse_moment(start), None if end is None else parse_moment(end)
            net = relation._net_changes(*ends)
            if summary:
                counted = summed(relation.diff(*ends)) if net is None else summary_of(net)
                show_record({"from": start, "to": end or "latest", **counted}, as_json=common.as_json)
                return
            look = TableStyle(vertical, all_columns)
            if net is not None:
                few = net.combine_chunks() if most is None else net.slice(0, most + 1).combine_chunks()
                rows = [row for batch in few.to_batches() for row in printable_rows(batch)]
                _show_rows(rows, net.schema.names, most, look, as_json=common.as_json)
            else:
                _show_diff(relation.diff(*ends), most, look, as_json=common.as_json)

    @lake_command(app, served=True)
    def tag(
        common: Common,
        name: Name,
        label: Annotated[str | None, typer.Argument(help="The label; lists all labels if not given.")] = None,
        version: Annotated[int | None, typer.Option("--version", help="The version; the latest by default.")] = None,
        at: Annotated[str | None, typer.Option("--at", help="The version at a time: 2026-10-17 12:00.")] = None,
        replace: Annotated[bool, typer.Option("--replace", help="Move an existing label.")] = False,
        delete: Annotated[bool, typer.Option("--delete", help="Delete the label.")] = False,
    ) -> None:
        """Label a version, so that `VERSION AS OF 'label'` reads it and it never expires."""
        if version is not None and at is not None:
            raise UsageError(Code.USAGE, "give --version or --at, not both")
        with common.open() as lake:
            relation = found(lake, name)
            if label is None:
                columns = ["label", "version", "tagged_at"]
                show_records(relation.tags().to_dicts(), columns, as_json=common.as_json, empty="no named snapshots")
            elif delete:
                relation.untag(label)
                show_record({"label": label, "deleted": True}, as_json=common.as_json)
            else:
                from headwater.sql.moments import parse_time

                moment = version if at is None else parse_time(at)
                show_record(relation.tag(label, moment, replace=replace).to_dict(), as_json=common.as_json)


def _show_history(relation: Relation, limit: int | None, *, as_json: bool) -> None:
    from headwater.operations.listings import HISTORY

    history = relation.history(limit)
    labels: dict[int, list[str]] = {}
    for one in [] if as_json else relation.tags():
        labels.setdefault(one.version, []).append(one.label)
    if labels:
        commits = [{**one.to_dict(), "tags": labels.get(one.version, [])} for one in history]
    else:
        commits = history.to_dicts()
    show_records(commits, [*HISTORY, *(["tags"] if labels else [])], as_json=as_json)


def _show_diff(changes: DataFrame, most: int | None, look: TableStyle, *, as_json: bool) -> None:
    from headwater.query.spark.outputs import collect_printable  # with pyspark, which `history` does without

    some = changes if most is None else changes.limit(most + 1)
    _show_rows(collect_printable(some), changes.columns, most, look, as_json=as_json)


def _show_rows(
    rows: list[dict[str, Any]], columns: list[str], most: int | None, look: TableStyle, *, as_json: bool
) -> None:
    shown = rows[:most]
    if as_json:
        print_json(shown)
    elif not shown:
        note("no row came or went")
    else:
        show_table(shown, columns, look, named=())
    if len(rows) > len(shown):
        message = f"the first {len(shown)} of more rows; --all or a larger --limit shows them, --summary counts them"
        note_cut(len(shown), message, as_json=as_json)
