"""`headwater flow`: tell flows what to do. All of it works while a runner is up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from headwater.cli.options import Common, Exclude, Flows, Select, lake_command
from headwater.cli.output import print_json, print_line, show_records
from headwater.core.errors import Code, UsageError

if TYPE_CHECKING:
    from headwater.api.lake import Lake

app = typer.Typer(help="Flows: list, pause, resume and restart them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The flow: topics.orders, or orders.")]
Names = Annotated[list[str] | None, typer.Argument(help="The flows: orders, topics.orders, tag:x, +orders, orders+.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm: this can't be undone.")]


@lake_command(app, "list", served=True)
def list_(common: Common, flows: Flows = None, select: Select = None, exclude: Exclude = None) -> None:
    """List the flows."""
    with common.look() as lake:
        chosen = lake.flows([*(flows or ()), *(select or ())], exclude or ())
        columns = ["flow", "state", "paused", "epoch", "step", "last_commit_at", "holder"]
        statuses = [status for status in lake.status().to_dicts() if status["flow"] in chosen]
        found = [{column: status[column] for column in columns} for status in statuses]
    show_records(found, columns, as_json=common.as_json, empty="the project has no flows")


@lake_command(app, served=True)
def pause(common: Common, names: Names = None, select: Select = None, exclude: Exclude = None) -> None:
    """Pause flows until they are resumed, also across restarts."""
    with common.look() as lake:
        chosen = _chosen(lake, names, select, exclude)
        for flow in chosen.flows:
            lake.pause(flow)
    _say_all("{} is paused from the end of its present step on", chosen, {"paused": True}, common)


@lake_command(app, served=True)
def resume(common: Common, names: Names = None, select: Select = None, exclude: Exclude = None) -> None:
    """Continue paused flows, or retry failed ones."""
    with common.look() as lake:
        chosen = _chosen(lake, names, select, exclude)
        for flow in chosen.flows:
            lake.resume(flow)
    _say_all("{} goes on where a runner is up", chosen, {"paused": False}, common)


class _Chosen(NamedTuple):
    flows: list[str]
    name: str | None
    """What the one flow is called that was given by its name alone."""


def _chosen(lake: Lake, names: list[str] | None, select: list[str] | None, exclude: list[str] | None) -> _Chosen:
    wanted = [*(names or ()), *(select or ())]
    if not wanted:
        raise UsageError(Code.USAGE, "say which flows: a name, or a selector such as tag:x; '*' for all")
    flows = lake.flows(wanted, exclude or ())
    alone = len(flows) == 1 and len(wanted) == 1 and wanted[0] in (flows[0], flows[0].partition(".")[2])
    return _Chosen(flows, wanted[0] if alone else None)


def _say_all(text: str, chosen: _Chosen, told: Mapping[str, object], common: Common) -> None:
    """Of a flow that was given by its name a line, or an object; of selected ones each, or a list."""
    if chosen.name is not None:
        _say(text.format(chosen.name), {"flow": chosen.name, **told}, common)
    elif common.as_json:
        print_json([{"flow": flow, **told} for flow in chosen.flows])
    else:
        for flow in chosen.flows:
            print_line(text.format(flow))


@lake_command(app, served=True)
def reset(common: Common, name: Name, yes: Yes = False) -> None:
    """Read the source again from its beginning and keep the existing rows."""
    if not yes:
        _require_flow(common, name)
        raise UsageError(
            Code.USAGE,
            f"the rows of {name} will come again, alongside those that are there",
            hint="confirm with --yes; `deduplicate_by` leaves out rows that are already there",
        )
    _start_over(common, name, empty=False)


@lake_command(app, served=True)
def rebuild(common: Common, name: Name, yes: Yes = False) -> None:
    """Empty the table and fill it again from the source."""
    if not yes:
        _require_flow(common, name)
        raise UsageError(
            Code.USAGE,
            f"the rows of {name} will be replaced by what its source still has",
            hint="confirm with --yes",
        )
    _start_over(common, name, empty=True)


def _require_flow(common: Common, name: str) -> None:
    """Nobody is asked to confirm what can't be done."""
    with common.look() as lake:
        lake.flows([name])


def _start_over(common: Common, name: str, *, empty: bool) -> None:
    with common.open() as lake:
        epoch = lake.start_over(name, empty=empty)
    text = f"{name} starts over in epoch {epoch}: at once where a runner is up, else with the next run"
    _say(text, {"flow": name, "epoch": epoch, "empty": empty}, common)


def _say(text: str, record: dict[str, object], common: Common) -> None:
    if common.as_json:
        print_json(record)
    else:
        print_line(text)
