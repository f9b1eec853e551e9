"""`headwater run`: keep the lake up to date."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from typer.main import get_command

from headwater.cli.lakes import open_lake
from headwater.cli.live import RunDisplay
from headwater.cli.options import Exclude, Flows, ProjectPath, Select, Target
from headwater.cli.output import AsJson, note, show_error, show_records
from headwater.cli.served import answers, streams_by_thread
from headwater.core.errors import Code, UsageError
from headwater.core.logs import native_words
from headwater.core.units import parse_duration
from headwater.project.load.files import HOME, find_project

REASONS = "`headwater dlq list` has the reasons"


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    flows: Flows = None,
    select: Select = None,
    exclude: Exclude = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there now, then exit.")] = False,
    every: Annotated[str | None, typer.Option("--every", help="Run at this interval: 5m.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Rebuild what the changes require.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Reload the project when its files change.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Run the flows: continuously, at an interval, or once. Exit 1 if any failed, 0 when stopped."""
    from headwater.cli.app import app, execute

    if once and every:
        raise UsageError(Code.USAGE, "give --once or --every, not both")
    if once and watch:
        raise UsageError(Code.USAGE, "--once ends by itself, so there is nothing to watch: use --once or --watch")
    interval = None if every is None else _interval(every)
    show = RunDisplay(as_json=as_json)
    home = find_project(project).parent / HOME
    with (
        stop_on_signals() as stopping,
        native_words(home),
        streams_by_thread(),
        open_lake(project, target, quick=once) as lake,
    ):
        with show.showing(), reload_on_hangup(stopping) as reloading:
            reports = lake.run(
                [*(flows or ()), *(select or ())],
                exclude=exclude or (),
                once=once,
                every=interval,
                on_event=show.on_event,
                on_ready=show.on_ready,
                stopping=stopping.asked,
                answers=answers(get_command(app), execute),
                apply=apply,
                reloading=reloading,
                watch=watch,
            )
    failed = [report for report in reports if report.error is not None]
    records = [report.to_dict() for report in reports]
    if as_json:
        show.line({"event": "done", "stopped": stopping.by_signal, "flows": records})
    else:
        columns = ["flow", "state", "steps", "rows", "rejected"]
        show_records(records, columns, as_json=False, empty="the project has no flows")
        rejected = sum(report.rejected for report in reports)
        if rejected:
            note(f"{rejected} {'records are dead letters' if rejected > 1 else 'record is a dead letter'}: {REASONS}")
        for report in failed:
            assert report.error is not None
            if report.error.code is not Code.FLOW_BLOCKED:
                note(f"{report.flow} failed:")
            show_error(report.error, as_json=False)
    if once and stopping.by_signal:
        note("stopped before the end")
    if (once and stopping.by_signal) or (failed and not stopping.by_signal):
        raise typer.Exit(1)


class RunStop:
    """Whether the run is to stop, and whether somebody outside said so."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.by_signal = False


@contextmanager
def stop_on_signals() -> Iterator[RunStop]:
    """The first SIGTERM or SIGINT asks the flows to stop; the second ends everything at once.

    Nothing is lost by that: what a step has not committed is done again at the next start.
    """
    stopping = RunStop()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.by_signal:
            _end_at_once(128 + number)
        stopping.by_signal = True
        stopping.asked.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reload_on_hangup(stopping: RunStop) -> Iterator[threading.Event]:
    """SIGHUP asks for the project to be read again; where it comes because the terminal is gone, the flows stop."""
    reloading, terminal = threading.Event(), _has_terminal()

    def hang_up(number: int, frame: FrameType | None) -> None:
        if terminal and not _has_terminal():
            stopping.by_signal = True
            stopping.asked.set()
        else:
            reloading.set()

    before = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield reloading
    finally:
        signal.signal(signal.SIGHUP, before)


def _has_terminal() -> bool:
    """Whether this process belongs to a terminal that is there."""
    try:
        os.close(os.open(os.ctermid(), os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _end_at_once(code: int) -> None:
    from headwater.spark.session import is_running, jvm_pid

    pid = jvm_pid() if is_running() else None
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    os._exit(code)


def _interval(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(Code.INVALID_VALUE, f"--every {text}: {error}") from None
