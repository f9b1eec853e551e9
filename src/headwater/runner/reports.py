"""What a flow says of itself: how it is and what it has done in this run; and the events that a run tells."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.record import Record
from headwater.flows.step import StepDone
from headwater.sources.reader import Lag

RATE_OVER = 10.0
"""Seconds that a rate is the mean of."""


class FlowState(str, Enum):
    """How a flow is."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"
    DONE = "done"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class FlowResult(Record):
    """What a flow did in a run."""

    flow: str
    state: FlowState
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
    rows: int
    rejected: int
    """Records that became dead letters."""
    last_commit_at: datetime | None
    retry_at: datetime | None
    spark_restarts: int
    """How often Spark was started again under it."""
    error: HeadwaterError | None
    """Why it was given up, if it was."""
    trouble: HeadwaterError | None
    """That, or what else holds it up or blocks it."""
    blocked_by: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """As it is printed; `error` is what holds it up, in words."""
        fields = super().to_dict() | {
            "state": self.state.value,
            "last_commit_at": self.last_commit_at and self.last_commit_at.isoformat(),
            "retry_at": self.retry_at and self.retry_at.isoformat(),
            "error": None if self.trouble is None else str(self.trouble),
        }
        del fields["trouble"]
        return fields


@dataclass
class Totals:
    """What a flow has done since its input was last read from the beginning, in this run and those before it."""

    steps: int = 0
    rows: int = 0
    rejected: int = 0


@dataclass
class FlowReport:
    """One flow in this run. One thread writes it; others may read it at any moment."""

    flow: str
    state: FlowState = FlowState.STARTING
    steps: int = 0
    rows: int = 0
    rejected: int = 0
    error: HeadwaterError | None = None
    epoch: int | None = None
    step: int | None = None
    version: int | None = None
    positions: Mapping[str, object] = field(default_factory=dict)
    lag: Lag | None = None
    last_commit_at: datetime | None = None
    retry_at: datetime | None = None
    spark_restarts: int = 0
    """How often Spark was started again under it."""
    blocked_by: tuple[str, ...] = ()
    """Flows above it that have been given up: it takes what they have committed, and then has nothing to wait for."""
    totals: Totals = field(default_factory=Totals)
    last_rate: float = 0.0
    """Rows a second when rows last came, in this run or one before it."""
    trouble: HeadwaterError | None = None
    """Why a step that runs does not come to its end, as far as that can be told meanwhile."""
    _recent: deque[tuple[float, int]] = field(default_factory=deque, repr=False)
    _begun: float = field(default_factory=time.monotonic, repr=False)

    @staticmethod
    def after(flow: str, status: Mapping[str, Any] | None) -> FlowReport:
        """A flow that begins in this run, and what is known of it from those before."""
        report = FlowReport(flow)
        if status is None:
            return report
        report.epoch, report.step, report.version = (status.get(key) for key in ("epoch", "step", "version"))
        report.positions = status.get("positions") or {}
        committed = status.get("last_commit_at")
        report.last_commit_at = None if committed is None else datetime.fromisoformat(committed)
        report.last_rate = float(status.get("last_rows_per_second") or 0.0)
        report.totals = Totals(*(int(status.get(key) or 0) for key in ("steps", "rows", "rejected")))
        return report

    def landed(self, done: StepDone) -> None:
        """A step is over."""
        rows = done.landed.rows or 0
        self._add_up(done, rows)  # by the step before
        self.steps += 1
        self.rows += rows
        self.rejected += done.landed.rejected
        self.epoch, self.step, self.version = done.epoch, done.step, done.landed.version
        self.positions = done.positions
        self.last_commit_at = datetime.now(timezone.utc)
        self._recent.append((time.monotonic(), rows))
        while len(self._recent) > 1000:
            self._recent.popleft()
        if rows:
            self.last_rate = self.rows_per_second

    def _add_up(self, done: StepDone, rows: int) -> None:
        if self.step is None or self.epoch != done.epoch or done.step <= self.step:
            self.totals = Totals()  # it starts over, or was dropped and is rebuilt
        self.totals.steps += 1
        self.totals.rows += rows
        self.totals.rejected += done.landed.rejected

    @property
    def rows_per_second(self) -> float:
        """Rows that landed a second, lately."""
        now = time.monotonic()
        recent = [rows for at, rows in tuple(self._recent) if now - at <= RATE_OVER]
        return round(sum(recent) / max(min(RATE_OVER, now - self._begun), 1.0), 1)

    @property
    def shown_state(self) -> FlowState:
        """How it is, in a word: a flow that waits for one that was given up is blocked."""
        idle = self.state in (FlowState.WAITING, FlowState.STOPPED, FlowState.DONE)
        return FlowState.BLOCKED if self.blocked_by and idle else self.state

    @property
    def shown_error(self) -> HeadwaterError | None:
        """Its own error, or what holds up its step, or what blocks it."""
        return self.error or self.trouble or (blocked(self.flow, self.blocked_by) if self.blocked_by else None)

    def status(self) -> dict[str, object]:
        """As it is kept in the state database: with what it has done before this run, too."""
        return {**self.record(), **asdict(self.totals)}

    def record(self) -> dict[str, object]:
        """As it is printed: what it has done in this run."""
        return self.result().to_dict()

    def result(self) -> FlowResult:
        """What it has done in this run, up to this moment."""
        return FlowResult(
            flow=self.flow,
            state=self.shown_state,
            epoch=self.epoch,
            step=self.step,
            version=self.version,
            positions=dict(self.positions),
            lag=self.lag,
            rows_per_second=self.rows_per_second,
            last_rows_per_second=self.last_rate,
            steps=self.steps,
            rows=self.rows,
            rejected=self.rejected,
            last_commit_at=self.last_commit_at,
            retry_at=self.retry_at,
            spark_restarts=self.spark_restarts,
            error=self.error,
            trouble=self.shown_error,
            blocked_by=self.blocked_by,
        )


def blocked(flow: str, by: Sequence[str]) -> HeadwaterError:
    """What a flow says that waits for flows that have been given up."""
    were = "was" if len(by) == 1 else "were"
    return TerminalError(
        Code.FLOW_BLOCKED,
        f"{flow} is blocked by {', '.join(by)}, which {were} given up",
        hint=f"mend that; `headwater flow resume {by[0]}` tries it again",
    )


@dataclass(frozen=True)
class FlowEvent:
    """Something that happened to a flow."""

    event: str
    """started | step | retry | restart | failed | blocked | unblocked | paused | resumed | stopped | finished;
    without a flow reloaded | reload_refused"""
    flow: str | None
    details: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def record(self) -> dict[str, object]:
        """As a run prints it with `--json`."""
        flow = {} if self.flow is None else {"flow": self.flow}
        return {"event": self.event, **flow, "at": self.at.isoformat(), **self.details}
