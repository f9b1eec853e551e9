"""Dead letters of tables once more: rows that came late are ingested after all."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.model import Kind
from headwater.flows.ledger import flow_name
from headwater.ingest.dead_letters import DeadLetters
from headwater.operations.replay import ReplayedLetters
from headwater.runner.holds import holding
from headwater.runner.setups.tables import computed_flow
from headwater.spark.session import activate, fork
from headwater.tables import late
from headwater.warehouse import Warehouse


def let_in(warehouse: Warehouse, name: str, *, ids: Sequence[str] = (), reason: str | None = None) -> ReplayedLetters:
    """Take the late rows of a table's dead letters (all, some by id) in, by one step. What is there because of an
    expectation stays: the same row comes to the same end."""
    flow = flow_name(name, Kind.TABLE)
    if name not in warehouse.project.tables:
        raise warehouse.unknown(Kind.TABLE, name)
    outer = warehouse.spark
    spark = fork(outer)
    activate(spark)
    try:
        with holding(warehouse, flow) as guard:
            dead_letters = DeadLetters(spark, warehouse.context)
            chosen = dead_letters.ids(flow, ids, reason)
            known = set(dead_letters.ids(flow, reason=late.REASON))
            through = [one for one in chosen if one in known]
            computed = computed_flow(warehouse, warehouse.project.tables[name], spark, guard) if through else None
            if computed is not None:
                # What has been let in by a replay that was cut off is not taken twice: it is only forgotten here.
                computed.admit_late(dead_letters.some(flow, through))
                dead_letters.drop(flow, through)
    finally:
        activate(outer)
    return ReplayedLetters(flow, len(chosen), len(through), len(through), len(chosen) - len(through))
