"""How the flows are, from the state database alone: no Spark, and also after the runner has gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from headwater.core.errors import HeadwaterError
from headwater.core.record import Record
from headwater.core.state import State
from headwater.flows.ledger import Ledger
from headwater.runner.leases import held
from headwater.runner.reports import FlowReport, FlowState
from headwater.runner.setups.setup import flow_names
from headwater.sources.reader import Lag
from headwater.tables.tally import CheckCounts, Tally
from headwater.warehouse import Warehouse

NEW, DIED = "new", "died"
_ENDED = frozenset({FlowState.STOPPED, FlowState.DONE, FlowState.FAILED, FlowState.BLOCKED})


@dataclass(frozen=True)
class FlowStatus(Record):
    """A flow: what it last said of itself, and who runs it."""

    flow: str
    state: str
    """new, starting, running, waiting, retrying, failed, paused, stopped, done, blocked, or died."""
    epoch: int | None
    step: int | None
    version: int | None
    positions: Mapping[str, object]
    lag: Lag | None
    rows_per_second: float
    """In the last ten seconds."""
    last_rows_per_second: float
    """When it last had rows."""
    steps: int
    """Since its input was last read from the beginning; so are `rows` and `rejected`."""
    rows: int
    rejected: int
    last_commit_at: datetime | None
    retry_at: datetime | None
    spark_restarts: int
    error: str | None
    blocked_by: tuple[str, ...]
    updated_at: datetime | None
    """When it last said so."""
    checks: CheckCounts | None
    """Of a table with a watermark or expectations: what they have counted."""
    paused: bool
    holder: str | None
    """Who runs it."""
    heard_at: datetime | None
    """When whoever runs it was last heard of."""

    def to_dict(self) -> dict[str, object]:
        """As `headwater status --json` prints it: times in ISO 8601."""
        return {key: one.isoformat() if isinstance(one, datetime) else one for key, one in super().to_dict().items()}


def flow_statuses(warehouse: Warehouse) -> list[FlowStatus]:
    """Every flow: what it last said of itself, who runs it, and whether that is still so."""
    state: State = warehouse.state
    now, leases, controls, statuses = state.now(), state.leases(), state.controls(), state.statuses()
    rows = []
    for flow in flow_names(warehouse):
        status: dict[str, Any] = {**FlowReport(flow).record(), "state": NEW, "updated_at": None}
        status |= {key: value for key, value in statuses.get(flow, {}).items() if key in status}
        if flow not in statuses:
            status |= _as_the_lake_has_it(warehouse, flow)
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
            "lag": None if status["lag"] is None else Lag(**status["lag"]),
            "last_commit_at": _moment(status["last_commit_at"]),
            "retry_at": _moment(status["retry_at"]),
            "blocked_by": tuple(status["blocked_by"]),
            "updated_at": updated and datetime.fromtimestamp(updated, timezone.utc),
        }
        rows.append(
            FlowStatus(
                **status,
                checks=_checks(warehouse, flow),
                paused=paused,
                holder=None if lease is None else str(lease.holder),
                heard_at=None if lease is None else lease.heard_at,
            )
        )
    return rows


def _as_the_lake_has_it(warehouse: Warehouse, flow: str) -> dict[str, Any]:
    """How far a flow is that has said nothing here: of a project that was copied, or has lost its `.headwater`."""
    try:
        last = Ledger(warehouse.files, flow).last()
    except (HeadwaterError, OSError):  # the lake is away: how the flows are is told without it
        return {}
    if last is None:
        return {}
    stopped = {"state": FlowState.STOPPED.value, "epoch": last.epoch, "step": last.step}
    return {**stopped, "positions": last.end}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _checks(warehouse: Warehouse, flow: str) -> CheckCounts | None:
    """What the watermark and the expectations of a table have counted, whoever ran it."""
    table = warehouse.project.tables.get(flow.partition(".")[2]) if flow.startswith("tables.") else None
    if table is None or (table.watermark is None and not table.expect):
        return None
    return Tally(warehouse.files, flow).counts()
