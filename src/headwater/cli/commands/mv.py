"""`headwater mv`: materialized views: made, refreshed, explained, verified, read."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

import typer

from headwater.cli.history import add_travel
from headwater.cli.options import Common, lake_command
from headwater.cli.output import (
    COLUMNS,
    grid_of,
    note,
    print_json,
    print_line,
    print_lines,
    show_described,
    show_record,
    show_records,
)
from headwater.cli.rows import AllColumns, Output, TableStyle, Vertical, print_rows
from headwater.core.errors import Code, UsageError

app = typer.Typer(help="Materialized views: create, refresh, explain and verify them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The view.")]
Mode = Literal["immediate", "periodic", "manual", "on_query"]
Policy = Literal["auto", "incremental", "incremental_strict", "full"]

add_travel(app, lambda lake, name: lake.view(name))


@lake_command(app, "list")
def list_(common: Common) -> None:
    """List the views and their last refreshes."""
    with common.look() as lake:
        columns = ["name", "format", "mode", "policy", "origin", "last_refresh", "refreshed_at", "description"]
        show_records(lake.views().to_dicts(), columns, as_json=common.as_json, empty="there are no views")


@lake_command(app, served=True)
def create(
    common: Common,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|STATEMENT", help="The view, or a full CREATE MATERIALIZED VIEW … AS … statement."),
    ],
    sql: Annotated[str | None, typer.Argument(help="Its query; not with a statement.")] = None,
    refresh: Annotated[
        Mode | None, typer.Option("--refresh", help="When to refresh; periodic with --interval, else immediate.")
    ] = None,
    interval: Annotated[str | None, typer.Option("--interval", help="How often: 60s.")] = None,
    max_staleness: Annotated[str | None, typer.Option("--max-staleness", help="For on_query: 5m.")] = None,
    policy: Annotated[Policy, typer.Option("--policy", help="How to refresh it.")] = "auto",
    format: Annotated[str | None, typer.Option("--format", help="Table format; the project's by default.")] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option("--partition-by", help="A column to partition by; several times for more.")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="A description.")] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Build it alongside the one of this name, and swap.")
    ] = False,
) -> None:
    """Create and build a view, from a name and query or a full statement."""
    if sql is None:
        given = (refresh, interval, max_staleness, format, partition_by, description or None, replace or None)
        _require_statement(name, bare=policy == "auto" and all(one is None for one in given))
        with common.open() as lake:
            (row,) = lake.sql(name)
        show_record({**row, **_parsed(row, "watermarks")}, as_json=common.as_json)
        return
    with common.open() as lake:
        done = lake.create_view(
            name,
            sql,
            mode=refresh,
            every=interval,
            max_staleness=max_staleness,
            policy=policy,
            format=format,
            partition_by=partition_by or (),
            description=description,
            replace=replace,
        )
    show_record(done.to_dict(), as_json=common.as_json)


def _require_statement(text: str, *, bare: bool) -> None:
    """One that makes a view, with its options inside."""
    from headwater.sql.parse import parse_statement
    from headwater.sql.statements import CreateView

    if re.fullmatch(r"\w*", text) or not isinstance(parse_statement(text), CreateView):
        raise UsageError(
            Code.USAGE, "give the view's name and its query, or a whole CREATE MATERIALIZED VIEW … AS … statement"
        )
    if not bare:
        raise UsageError(
            Code.USAGE,
            "a statement has its options inside: CREATE OR REPLACE …, PARTITIONED BY (…), WITH (refresh = …, …)",
        )


def _parsed(row: dict[str, Any], key: str) -> dict[str, Any]:
    """What is nested in a statement's answer, as it is in a command's."""
    return {key: json.loads(row[key])} if isinstance(row.get(key), str) else {}


@lake_command(app, served=True)
def describe(common: Common, name: Name) -> None:
    """Show a view: its query, columns, source versions and last refreshes."""
    with common.look() as lake:
        found = lake.view(name).describe().to_dict()
    told = ["at", "refresh_type", "reason", "rows_read", "rows_changed", "duration_ms"]
    show_described(found, COLUMNS, ("refreshes", told, "its last refreshes, newest first"), as_json=common.as_json)


@lake_command(app, served=True)
def explain(common: Common, name: Name) -> None:
    """Show how a view is maintained: the strategy of each part and what it reads, or why it is recomputed."""
    with common.open() as lake:
        found = lake.view(name).explain()
    if common.as_json:
        print_json(found.to_dict())
        return
    for line in found.lines():
        print_line(line)


@lake_command(app, served=True)
def refresh(
    common: Common,
    name: Name,
    policy: Annotated[Policy | None, typer.Option("--policy", help="Instead of the view's own.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Recompute it.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build it as if it had never been.")] = False,
) -> None:
    """Refresh a view now, after the views that it reads."""
    with common.open() as lake:
        done = lake.view(name).refresh("full" if full else policy, rebuild=rebuild)
    show_record(done.to_dict(), as_json=common.as_json)


@lake_command(app, served=True)
def verify(
    common: Common,
    name: Name,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Differing rows to show, of each kind.")] = 20,
) -> None:
    """Compare a view with its query at the recorded versions. Exit 1 if they differ."""
    with common.open() as lake:
        found = lake.view(name).verify(limit)
    record = found.to_dict()
    if common.as_json:
        print_json(record)
    else:
        del record["examples"]
        show_record(record, as_json=False)
        if found.examples:
            print_lines(grid_of(found.examples, list(found.examples[0]), of_data=True).lines())
    if not found.equal:
        raise typer.Exit(1)


@lake_command(app, served=True)
def query(
    common: Common,
    name: Name,
    rest: Annotated[str, typer.Argument(help="The rest of the query: WHERE …, ORDER BY …, LIMIT ….")] = "",
    stale: Annotated[
        Literal["refresh", "serve", "fail"],
        typer.Option("--stale", help="What to do if an on_query view is too old."),
    ] = "refresh",
    output: Annotated[Output, typer.Option("--output", help="How the rows are printed.")] = "table",
    vertical: Vertical = None,
    all_columns: AllColumns = False,
) -> None:
    """Read a view."""
    with common.look() as lake:
        lake.settings.stale = stale
        rows = lake.sql(f"SELECT * FROM mv('{name}') {rest}")
        print_rows(rows, "json" if common.as_json else output, TableStyle(vertical, all_columns))


@lake_command(app, served=True)
def drop(
    common: Common,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: all versions will be deleted.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if there is none.")] = False,
) -> None:
    """Drop a view with its table."""
    if not yes:
        raise UsageError(Code.USAGE, f"view '{name}' and all its versions will be deleted", hint="confirm with --yes")
    with common.open() as lake:
        done = lake.drop_view(name, if_exists=if_exists)
    show_record(done.to_dict(), as_json=common.as_json)
    if done.defined:
        note(f"the project defines view '{name}': a run makes it again, as long as it does")
