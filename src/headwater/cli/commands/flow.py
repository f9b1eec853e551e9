"""`headwater flow`: tell flows what to do. All of it works while a runner is up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.api.lake import Lake
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, print_json, print_line, show_records
from headwater.cli.served import warm
from headwater.core.errors import Code, UsageError

app = typer.Typer(help="The flows: pause, resume, start over.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The flow: topics.orders, or orders.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it: it can't be undone.")]


@app.command("list")
@warm
def list_(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """List the flows."""
    with Lake.open(project, target) as lake:
        columns = ["flow", "state", "paused", "epoch", "step", "last_commit_at", "holder"]
        found = [{column: status[column] for column in columns} for status in lake.status()]
    show_records(found, columns, as_json=as_json, empty="the project has no flows")


@app.command()
@warm
def pause(name: Name, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Take no further step, also after a restart, until it is resumed."""
    with Lake.open(project, target) as lake:
        lake.pause(name)
    _say(f"{name} is paused from the end of its present step on", {"flow": name, "paused": True}, as_json)


@app.command()
@warm
def resume(name: Name, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Go on with a flow that was paused, or try one again that was given up."""
    with Lake.open(project, target) as lake:
        lake.resume(name)
    _say(f"{name} goes on where a runner is up", {"flow": name, "paused": False}, as_json)


@app.command()
@warm
def reset(
    name: Name, yes: Yes = False, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False
) -> None:
    """Read the source from its beginning, and keep the rows that are there."""
    if not yes:
        raise UsageError(
            Code.USAGE,
            f"the rows of {name} will come again, beside those that are there",
            hint="say --yes if that is meant; `deduplicate_by` leaves out what is there already",
        )
    _start_over(name, project, target, as_json, empty=False)


@app.command()
@warm
def rebuild(
    name: Name, yes: Yes = False, project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False
) -> None:
    """Empty the table, and fill it with what the source still gives."""
    if not yes:
        raise UsageError(
            Code.USAGE,
            f"the rows of {name} will be replaced by what its source still gives",
            hint="say --yes if that is meant",
        )
    _start_over(name, project, target, as_json, empty=True)


def _start_over(name: str, project: Path, target: str | None, as_json: bool, *, empty: bool) -> None:
    with Lake.open(project, target) as lake:
        epoch = lake.start_over(name, empty=empty)
    text = f"{name} starts over in epoch {epoch}: at once where a runner is up, else with the next run"
    _say(text, {"flow": name, "epoch": epoch, "empty": empty}, as_json)


def _say(text: str, record: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json(record)
    else:
        print_line(text)
