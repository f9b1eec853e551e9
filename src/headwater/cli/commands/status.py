"""`headwater status`: how the flows are, from any terminal, while they run and after."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.api.lake import Lake
from headwater.cli.live import table
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, console, note, print_json
from headwater.cli.served import warm


def register(app: typer.Typer) -> None:
    app.command("status")(warm(status))


def status(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Show each flow: its state, rate, lag, last commit, last error and who runs it. Needs no Spark."""
    with Lake.open(project, target) as lake:
        found = lake.status()
    if as_json:
        print_json(found)
        return
    if not found:
        note("the project has no flows")
        return
    console().print(table(found, holders=True))
    if restarts := max((one["spark_restarts"] for one in found if one["holder"]), default=0):
        note(f"since the runner began Spark has died and was started again {restarts} times: .headwater/logs/spark.out")
