"""What a flow says of itself: how it is and what it has done in this run; and the events that a run tells."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.flows.flow import StepDone
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
    blocked_by: tuple[str, ...] = ()
    """Flows above it that have been given up: it takes what they have committed, and then has nothing to wait for."""
    trouble: HeadwaterError | None = None
    """Why a step that runs does not come to its end, as far as that can be told meanwhile."""
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

    @property
    def shown_state(self) -> FlowState:
        """How it is, in a word: a flow that waits for one that was given up is blocked."""
        idle = self.state in (FlowState.WAITING, FlowState.STOPPED, FlowState.DONE)
        return FlowState.BLOCKED if self.blocked_by and idle else self.state

    @property
    def shown_error(self) -> HeadwaterError | None:
        """Its own error, or what holds up its step, or what blocks it."""
        return self.error or self.trouble or (blocked(self.flow, self.blocked_by) if self.blocked_by else None)

    def record(self) -> dict[str, Any]:
        """As it is kept in the state database, and printed."""
        return {
            "flow": self.flow,
            "state": self.shown_state.value,
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
            "error": None if self.shown_error is None else str(self.shown_error),
            "blocked_by": list(self.blocked_by),
        }


def blocked(flow: str, by: Sequence[str]) -> HeadwaterError:
    """What a flow says that waits for flows that have been given up."""
    were = "was" if len(by) == 1 else "were"
    return TerminalError(
        Code.FLOW_BLOCKED,
        f"{flow} is blocked by {', '.join(by)}, which {were} given up",
        hint=f"mend that; headwater flow resume {by[0]} tries it again",
    )


@dataclass(frozen=True)
class FlowEvent:
    """Something that happened to a flow."""

    event: str
    """started | step | retry | restart | failed | blocked | unblocked | paused | resumed | stopped | finished;
    without a flow reloaded | reload_refused"""
    flow: str | None
    details: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def record(self) -> dict[str, Any]:
        flow = {} if self.flow is None else {"flow": self.flow}
        return {"event": self.event, **flow, "at": self.at.isoformat(), **self.details}
