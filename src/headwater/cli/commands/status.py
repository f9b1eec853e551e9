"""`headwater status`: how the flows are, from any terminal, while they run and after."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Annotated, Any

import typer

from headwater.cli.lakes import look
from headwater.cli.live import live_lines, status_lines
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, print_json, print_lines
from headwater.cli.served import warm
from headwater.cli.values import json_text

EVERY = 1.0
"""Seconds between two looks of `--watch`."""

Statuses = Sequence[dict[str, Any]]


def register(app: typer.Typer) -> None:
    app.command("status")(warm(status))


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it, until Ctrl-C.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Show each flow: its state, rate, lag, last commit, last error and who runs it. Needs no Spark."""
    with look(project, target) as lake:
        if not watch:
            _show(lake.status().to_dicts(), as_json=as_json)
            return
        try:
            _watch(lambda: lake.status().to_dicts(), as_json=as_json)
        except KeyboardInterrupt:
            return  # that is how it ends


def _show(found: Statuses, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found:
        note("the project has no flows")
        return
    print_lines(status_lines(found, sys.stdout))
    if restarts := max((one["spark_restarts"] for one in found if one["holder"]), default=0):
        note(f"since the runner began Spark has died and was started again {restarts} times: .headwater/logs/spark.out")


def _watch(ask: Callable[[], Statuses], *, as_json: bool) -> None:
    """Again and again: in place on a terminal; elsewhere whenever something has changed."""
    if sys.stdout.isatty() and not as_json:
        latest = ask()
        with live_lines(lambda: status_lines(latest, sys.stdout), sys.stdout):
            while True:
                sleep(EVERY)
                latest = ask()
    before: Statuses | None = None
    while True:
        found = ask()
        if _without_clock(found) != before:
            before = _without_clock(found)
            if as_json:
                sys.stdout.write(json_text(found) + "\n")
            else:
                _show(found, as_json=False)
                sys.stdout.write("\n")
            sys.stdout.flush()
        sleep(EVERY)


def _without_clock(found: Statuses) -> Statuses:
    """What changes though nothing happens is left out."""
    return [{key: value for key, value in one.items() if key not in ("heard_at", "updated_at")} for one in found]
