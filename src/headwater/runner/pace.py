"""When a flow takes what waits: a backlog at once, a trickle in steps that are worth their commit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from headwater.sources.reader import OffsetRange

SHORTEST_POLL, LONGEST_POLL = 0.1, 1.0
"""Seconds between looks at a source: short after something came, longer the longer nothing does."""
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0
"""Seconds before the first try after a transient error, and at most before any further one."""
SOURCE_RETRY = 5.0
"""Where a source can't be reached: asking again costs little, and its events are waited for when it is back."""


@dataclass
class Pace:
    """One flow's. Times are seconds of a clock that only goes forward."""

    batch_size: int
    flush_interval: timedelta
    _first_seen: float | None = None
    _poll: float = SHORTEST_POLL

    def wait(self, ahead: OffsetRange | None, now: float) -> float:
        """Seconds until it is time to look again; 0: take what is ahead now."""
        if ahead is None:
            self._first_seen = None
            self._poll = min(self._poll * 1.5, LONGEST_POLL)
            return self._poll
        self._poll = SHORTEST_POLL
        if self._first_seen is None:
            self._first_seen = now
        left = self._first_seen + self.flush_interval.total_seconds() - now
        enough = ahead.full or ahead.due or (ahead.rows is not None and ahead.rows >= self.batch_size)
        return 0.0 if enough or left <= 0 else min(left, SHORTEST_POLL)

    def taken(self) -> None:
        """A step is over: what waits now is waiting from now on."""
        self._first_seen = None
        self._poll = SHORTEST_POLL


@dataclass
class BackOff:
    """Longer with every failure in a row, and never in step with others that failed at the same moment."""

    failures: int = 0

    def next(self, most: float = LONGEST_RETRY) -> float:
        self.failures += 1
        longest: float = min(FIRST_RETRY * 2 ** min(self.failures - 1, 10), most)
        return longest * random.uniform(0.5, 1.0)

    def over(self) -> None:
        self.failures = 0
