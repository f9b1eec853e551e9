"""`headwater run`: keep the lake up to date."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, print_line, show_error, show_records
from headwater.errors import Code, UsageError
from headwater.lake import Lake
from headwater.units import parse_duration


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    flows: Annotated[list[str] | None, typer.Argument(help="Which flows; all by default.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Take in what is there now, then end.")] = False,
    every: Annotated[str | None, typer.Option("--every", help="Look for something new this often: 5m.")] = None,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Run the flows: continuously, every so often, or once. Exit 1 if any failed."""
    if once and every:
        raise UsageError(Code.USAGE, "give --once or --every, not both")
    interval = None if every is None else _interval(every)
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def on_step(step: Any) -> None:
        record = {
            "event": "step",
            "flow": step.flow,
            "epoch": step.epoch,
            "step": step.step,
            "version": step.landed.version,
            "rows": step.landed.rows,
            "rejected": step.landed.rejected,
        }
        if as_json:
            print_line(json.dumps(record))
        else:
            rejected = f", {step.landed.rejected} to the dead letters" if step.landed.rejected else ""
            note(f"{step.flow}: step {step.step}, {step.landed.rows} rows{rejected}")

    with Lake.open(project, target) as lake:
        reports = lake.run(flows or (), once=once, every=interval, on_step=on_step, stopping=stopping)
    failed = [report for report in reports if report.error is not None]
    records = [
        {
            "flow": r.flow,
            "steps": r.steps,
            "rows": r.rows,
            "rejected": r.rejected,
            "error": r.error and str(r.error),
        }
        for r in reports
    ]
    if as_json:
        print_line(json.dumps({"event": "done", "flows": records}))
    else:
        show_records(records, ["flow", "steps", "rows", "rejected"], as_json=False, empty="the project has no flows")
        for report in failed:
            assert report.error is not None
            note(f"{report.flow} failed:")
            show_error(report.error, as_json=False)
    if failed:
        raise typer.Exit(1)


def _interval(text: str) -> Any:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(Code.INVALID_VALUE, f"--every {text}: {error}") from None
