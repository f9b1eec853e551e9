"""How a flow is run: when it takes its steps, after which others, and how it is put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.core.errors import Code, UsageError, did_you_mean, nearest
from headwater.core.model import Kind
from headwater.core.spec.base import Trigger
from headwater.exports.definitions import stream_names
from headwater.flows.flow import Steps
from headwater.flows.ledger import flow_name
from headwater.project.definition import ProjectDefinition
from headwater.project.load.code import code_digest
from headwater.project.runnable import kept_tables
from headwater.runner.pace import Pace
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Guard = Callable[[], None]
"""Raises when this process may no longer write."""


@dataclass(frozen=True)
class FlowSetup:
    """One flow, ready to be opened in a session of its own."""

    flow: str
    trigger: Trigger
    pace: Pace
    open: Callable[[SparkSession, Guard], Steps]
    after: frozenset[str] = frozenset()
    """Flows whose results it reads: a run that ends lets them finish first."""
    made_of: object = None
    """What it is put together from: equal as long as the flow need not be opened again."""


def setup_of_table(warehouse: Warehouse, name: str, open: Callable[[SparkSession, Guard], Steps]) -> FlowSetup:
    """How a table of the project is run, whatever keeps it: after what it reads, as soon as something is there."""
    from headwater.project.graph import Name, graph_of  # with a parser of SQL, which no list of flows needs

    reads = graph_of(warehouse.project).inputs[Name(Kind.TABLE, name)]
    return FlowSetup(
        flow=flow_name(name, Kind.TABLE),
        trigger=warehouse.project.trigger_of(warehouse.project.tables[name]),
        pace=Pace(1, timedelta(0)),
        open=open,
        after=frozenset(str(each.of) for each in reads),
        made_of=_made_of_table(warehouse.project, name, [str(each.of) for each in reads]),
    )


def _made_of_table(project: ProjectDefinition, name: str, reads: list[str]) -> object:
    table = project.tables[name]
    code = None if table.transform is None else code_digest(project.root, project.settings.code)
    return (table.model_dump(), project.format_of(table), project.trigger_of(table), reads, code)


EXPORTS = "exports"
"""What the flows of exports begin with."""


def export_flow(name: str) -> str:
    """The flow that keeps a streaming export up to date."""
    return f"{EXPORTS}.{name}"


def flow_names(warehouse: Warehouse) -> list[str]:
    """Every flow of a lake: those of its project, and of the views that were made by a statement."""
    project = warehouse.project
    topics = [flow_name(topic) for topic in project.topics]
    tables = [flow_name(table, Kind.TABLE) for table in kept_tables(project)]
    exports = [export_flow(name) for name in stream_names(warehouse)]
    flows = [*topics, *tables, *(flow_name(view, Kind.VIEW) for view in warehouse.views()), *exports]
    if project.problems:  # some definitions may not have been read
        known = {*warehouse.state.statuses(), *warehouse.state.controls(), *warehouse.state.leases()}
        flows += sorted(known - {*flows})
    return flows


def named(warehouse: Warehouse, name: str) -> str:
    """The flow of a name, with or without its kind: `topics.orders`, `orders`."""
    flows = flow_names(warehouse)
    matches = [flow for flow in flows if name in (flow, flow.split(".", 1)[1])]
    if len(matches) > 1:
        raise UsageError(Code.UNKNOWN_FLOW, f"'{name}' is not one flow", hint=f"write {' or '.join(matches)}")
    if not matches:
        best = nearest(name, [*flows, *(flow.split(".", 1)[1] for flow in flows)])
        hint = f"did you mean '{best}'?" if best else did_you_mean(name, flows)
        raise UsageError(Code.UNKNOWN_FLOW, f"there is no flow '{name}'", hint=hint)
    return matches[0]
