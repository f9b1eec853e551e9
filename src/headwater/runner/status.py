"""How the flows are, from the state database alone: no Spark, and also after the runner has gone."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from headwater.core.state import State
from headwater.runner.leases import held
from headwater.runner.reports import FlowReport, FlowState
from headwater.runner.setups import flow_names
from headwater.tables.tally import Tally
from headwater.warehouse import Warehouse

NEW, DIED = "new", "died"
_ENDED = frozenset({FlowState.STOPPED, FlowState.DONE, FlowState.FAILED, FlowState.BLOCKED})


def flow_statuses(warehouse: Warehouse) -> list[dict[str, Any]]:
    """Every flow: what it last said of itself, who runs it, and whether that is still so."""
    state: State = warehouse.state
    now, leases, controls, statuses = state.now(), state.leases(), state.controls(), state.statuses()
    found = []
    for flow in flow_names(warehouse):
        status = {**FlowReport(flow).record(), "state": NEW, "updated_at": None, **statuses.get(flow, {})}
        lease = None if flow not in leases else held(leases[flow], now)
        control = controls.get(flow)
        paused = control is not None and control.paused
        if lease is not None and not lease.live:
            status["state"] = DIED
        elif lease is None:
            if status["state"] != NEW and status["state"] not in {state.value for state in _ENDED}:
                status["state"] = FlowState.STOPPED.value
            if paused:
                status["state"] = FlowState.PAUSED.value
        if lease is None or not lease.live:
            status["rows_per_second"] = 0.0
        updated = status["updated_at"]
        status |= {
            "checks": _checks(warehouse, flow),
            "paused": paused,
            "holder": None if lease is None else str(lease.holder),
            "heard_at": None if lease is None else lease.heard_at.isoformat(),
            "updated_at": updated and datetime.fromtimestamp(updated, timezone.utc).isoformat(),
        }
        found.append(status)
    return found


def _checks(warehouse: Warehouse, flow: str) -> dict[str, Any] | None:
    """What the watermark and the expectations of a table have counted, whoever ran it."""
    table = warehouse.project.tables.get(flow.partition(".")[2]) if flow.startswith("tables.") else None
    if table is None or (table.watermark is None and not table.expect):
        return None
    return Tally(warehouse.files, flow).told()
