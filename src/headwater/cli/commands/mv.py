"""`headwater mv`: materialized views: made, refreshed, explained, verified, read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from headwater.api.lake import Lake
from headwater.cli.history import add_travel
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import (
    COLUMNS,
    AsJson,
    note,
    print_json,
    print_line,
    show_described,
    show_record,
    show_records,
)
from headwater.cli.rows import Output, print_rows
from headwater.cli.served import warm
from headwater.core.errors import Code, UsageError

app = typer.Typer(help="The materialized views: kept incrementally, and proved.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The view.")]
Mode = Literal["immediate", "periodic", "manual", "on_query"]
Policy = Literal["auto", "incremental", "incremental_strict", "full"]

add_travel(app, Lake.view)


@app.command("list")
def list_(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """List the views, and how their last refreshes went."""
    with Lake.open(project, target) as lake:
        columns = ["name", "format", "mode", "policy", "origin", "last_refresh", "refreshed_at", "description"]
        show_records(lake.views(), columns, as_json=as_json, empty="there are no views")


@app.command()
@warm
def create(
    name: Name,
    sql: Annotated[str, typer.Argument(help="Its query.")],
    refresh: Annotated[
        Mode | None, typer.Option("--refresh", help="When; periodic with --interval, else immediate.")
    ] = None,
    interval: Annotated[str | None, typer.Option("--interval", help="How often: 60s.")] = None,
    max_staleness: Annotated[str | None, typer.Option("--max-staleness", help="For on_query: 5m.")] = None,
    policy: Annotated[Policy, typer.Option("--policy", help="How it is brought up to date.")] = "auto",
    format: Annotated[str | None, typer.Option("--format", help="Table format; the project's if unset.")] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option("--partition-by", help="A column to partition by; several times for more.")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="What it is, for people.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Build it beside the one of this name, and swap.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Make a view and build it."""
    with Lake.open(project, target) as lake:
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
    show_record(done.described(), as_json=as_json)


@app.command()
@warm
def describe(name: Name, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Show a view: its query, columns, the versions it was made of, and its last refreshes."""
    with Lake.open(project, target) as lake:
        found = lake.view(name).describe()
    told = ["at", "refresh_type", "reason", "rows_read", "rows_changed", "duration_ms"]
    show_described(found, COLUMNS, ("refreshes", told, "its last refreshes, newest first:"), as_json=as_json)


@app.command()
@warm
def explain(name: Name, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Show how a view is kept: each part's strategy and what it reads, or why it is computed anew."""
    with Lake.open(project, target) as lake:
        found = lake.view(name).explain()
    if as_json:
        print_json(found.described())
        return
    for line in found.lines():
        print_line(line)


@app.command()
@warm
def refresh(
    name: Name,
    policy: Annotated[Policy | None, typer.Option("--policy", help="Instead of the view's own.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Compute it anew.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build it as if it had never been.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Bring a view up to date now, after the views that it reads."""
    with Lake.open(project, target) as lake:
        done = lake.view(name).refresh("full" if full else policy, rebuild=rebuild)
    show_record(done.described(), as_json=as_json)


@app.command()
@warm
def verify(
    name: Name,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Differing rows to show, of each kind.")] = 20,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Compare a view with its query at the versions that it names; exit 1 if they differ."""
    from dataclasses import asdict

    with Lake.open(project, target) as lake:
        found = lake.view(name).verify(limit)
    record = asdict(found)
    if as_json:
        print_json(record)
    else:
        examples = record.pop("examples")
        show_record(record, as_json=False)
        if examples:
            show_records(examples, list(examples[0]), as_json=False)
    if not found.equal:
        raise typer.Exit(1)


@app.command()
@warm
def query(
    name: Name,
    rest: Annotated[str, typer.Argument(help="What follows FROM: WHERE …, ORDER BY …, LIMIT ….")] = "",
    stale: Annotated[
        Literal["refresh", "serve", "fail"],
        typer.Option("--stale", help="Where a view of mode on_query is older than it may be."),
    ] = "refresh",
    output: Annotated[Output, typer.Option("--output", help="How the rows are printed.")] = "table",
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Read a view."""
    with Lake.open(project, target) as lake:
        lake.settings.stale = stale
        print_rows(lake.sql(f"SELECT * FROM mv('{name}') {rest}"), "json" if as_json else output)


@app.command()
@warm
def drop(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do it: its versions will be gone.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if there is none.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Drop a view with its table."""
    if not yes:
        raise UsageError(
            Code.USAGE, f"view '{name}' and all its versions will be gone", hint="say --yes if that is meant"
        )
    with Lake.open(project, target) as lake:
        done = lake.drop_view(name, if_exists=if_exists)
    show_record(done, as_json=as_json)
    if done.get("defined"):
        note(f"the project defines view '{name}': a run makes it again, as long as it does")
