"""How views are run: soon after what they read, or every so often; never those that wait to be asked."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from pyspark.sql import SparkSession

from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec import View
from headwater.core.spec.base import Trigger
from headwater.flows.flow import Steps
from headwater.flows.ledger import flow_name
from headwater.runner.pace import Pace
from headwater.runner.preflight import require_fence
from headwater.runner.setups.setup import FlowSetup, Guard
from headwater.views.flow import open_flow
from headwater.views.status import read_by
from headwater.warehouse import Warehouse

JOINED = timedelta(milliseconds=200)
"""Commits of a view's sources within this time are taken by one refresh."""


def view_setups(warehouse: Warehouse, wanted: set[str]) -> list[FlowSetup]:
    """The views that a runner keeps: immediate and periodic ones, and those that it is told by name."""
    setups = []
    for name in warehouse.views():
        definition = warehouse.definition(Kind.VIEW, name)
        assert isinstance(definition, View)
        flow = flow_name(name, Kind.VIEW)
        if flow in wanted or (not wanted and definition.refresh.mode in ("immediate", "periodic")):
            setups.append(_plan(warehouse, definition, flow))
    return setups


def _plan(warehouse: Warehouse, definition: View, flow: str) -> FlowSetup:
    trigger: Trigger = definition.refresh.every or "continuous"
    try:
        after = frozenset(map(str, read_by(warehouse, definition.sql)))
    except HeadwaterError:  # what it reads has been dropped: its flow says so, and is given up alone
        after = frozenset()
    return FlowSetup(
        flow=flow,
        trigger=trigger,
        pace=Pace(1_000_000_000, JOINED),
        open=partial(_open, warehouse, definition),
        after=after,
        made_of=(definition.model_dump(), warehouse.project.format_of(definition), sorted(after)),
    )


def _open(warehouse: Warehouse, definition: View, spark: SparkSession, guard: Guard) -> Steps:
    require_fence(warehouse, definition)
    return open_flow(warehouse, definition.name, spark, guard, definition).steps
