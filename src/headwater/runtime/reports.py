"""What a flow says of itself: how it is and what it has done in this run; and the events that a run tells."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from headwater.errors import HeadwaterError
from headwater.flows import StepDone
from headwater.sources.reading import Lag

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
    positions: Mapping[str, Any] = field(default_factory=dict)
    lag: Lag | None = None
    last_commit_at: datetime | None = None
    retry_at: datetime | None = None
    spark_restarts: int = 0
    """How often Spark was started again under it."""
    _recent: deque[tuple[float, int]] = field(default_factory=deque, repr=False)
    _begun: float = field(default_factory=time.monotonic, repr=False)

    def landed(self, done: StepDone) -> None:
        """A step is over."""
        rows = done.landed.rows or 0
        self.steps += 1
        self.rows += rows
        self.rejected += done.landed.rejected
        self.epoch, self.step, self.version = done.epoch, done.step, done.landed.version
        self.positions = done.positions
        self.last_commit_at = datetime.now(timezone.utc)
        self._recent.append((time.monotonic(), rows))
        while len(self._recent) > 1000:
            self._recent.popleft()

    @property
    def rows_per_second(self) -> float:
        """Rows that landed a second, lately."""
        now = time.monotonic()
        recent = [rows for at, rows in tuple(self._recent) if now - at <= RATE_OVER]
        return round(sum(recent) / max(min(RATE_OVER, now - self._begun), 1.0), 1)

    def record(self) -> dict[str, Any]:
        """As it is kept in the state database, and printed."""
        return {
            "flow": self.flow,
            "state": self.state.value,
            "epoch": self.epoch,
            "step": self.step,
            "version": self.version,
            "positions": dict(self.positions),
            "lag": None
            if self.lag is None
            else {
                "records": self.lag.records,
                "bytes": self.lag.bytes,
                "seconds": self.lag.seconds,
                "detail": dict(self.lag.detail),
            },
            "rows_per_second": self.rows_per_second,
            "steps": self.steps,
            "rows": self.rows,
            "rejected": self.rejected,
            "last_commit_at": self.last_commit_at and self.last_commit_at.isoformat(),
            "retry_at": self.retry_at and self.retry_at.isoformat(),
            "spark_restarts": self.spark_restarts,
            "error": self.error and str(self.error),
        }


@dataclass(frozen=True)
class FlowEvent:
    """Something that happened to a flow."""

    event: str
    """started | step | retry | restart | failed | paused | resumed | stopped | finished"""
    flow: str
    details: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def record(self) -> dict[str, Any]:
        return {"event": self.event, "flow": self.flow, "at": self.at.isoformat(), **self.details}
