"""`headwater query`: SQL on the lake."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.interrupts import interruptible
from headwater.cli.lakes import look
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note
from headwater.cli.rows import AllColumns, Output, TableStyle, Vertical, print_rows
from headwater.cli.served import warm
from headwater.core.errors import Code, UsageError
from headwater.core.units import parse_duration
from headwater.query.engines import Engine
from headwater.query.limits import QueryStop


def duration(text: str) -> timedelta:
    """A duration as the command line has it: `30s`; a bare number is seconds."""
    try:
        return parse_duration(f"{text}s" if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text) else text)
    except ValueError as error:
        raise UsageError(Code.INVALID_VALUE, str(error)) from None


def register(app: typer.Typer) -> None:
    app.command("query")(warm(query))


def query(
    sql: Annotated[str, typer.Argument(help="A statement over topic('x'), table('x'), mv('x'); - reads it.")],
    engine: Annotated[Engine | None, typer.Option("--engine", help="The engine; auto by default.")] = None,
    output: Annotated[Output, typer.Option("--output", help="How the rows are printed.")] = "table",
    vertical: Vertical = None,
    all_columns: AllColumns = False,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="Only the first rows.")] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Cancel it after this long: 30s.")] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Allow only queries about the lake's relations.")
    ] = False,
    may_refresh: Annotated[
        bool,
        typer.Option("--may-refresh", help="With --read-only: allow the refresh of an on_query view that is too old."),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="As SET has it: headwater.stale=serve. Repeatable."),
    ] = None,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Run a query or statement; rows go to standard output."""
    text = sys.stdin.read() if sql == "-" else sql
    seconds = None if timeout is None else duration(timeout).total_seconds()

    def work(stopping: QueryStop) -> None:
        with look(project, target) as lake:
            for setting in settings or ():
                name, _, value = setting.partition("=")
                lake.settings.set(name.strip().lower(), value.strip())
            result = lake.sql(
                text, engine=engine, limit=limit, stopping=stopping, read_only=read_only, may_refresh=may_refresh
            )
            stopping.check()
            print_rows(result, "json" if as_json else output, TableStyle(vertical, all_columns), sql=text)
            sys.stdout.flush()
            if sys.stderr.isatty():
                note(f"answered by {result.engine}: {result.reason}")

    interruptible(work, seconds)
