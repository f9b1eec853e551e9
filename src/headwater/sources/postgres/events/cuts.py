"""Ranges of events as SQL: the same events, whenever and from whichever connection they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from headwater.core.errors import Code, TerminalError
from headwater.sources.postgres.events.database import StoreIdentity
from headwater.sources.postgres.events.store import POSITION, EventStore
from headwater.sources.reader import Position

StorePosition = Mapping[str, Any]
"""A position that is one."""


@dataclass(frozen=True)
class Leg:
    """Some events, all between two positions."""

    low: int
    high: int
    rows: int
    where: Callable[[int, int], str]
    """The condition for those of them between two positions, over the columns of our queries."""

    def split(self, parts: int) -> list[str]:
        """Conditions of which exactly one holds for each event."""
        width = self.high - self.low + 1
        parts = max(1, min(parts, width))
        bounds = [self.low + width * n // parts for n in range(parts + 1)]
        return [self.where(low, high - 1) for low, high in pairwise(bounds)]


@dataclass(frozen=True)
class NextRange:
    """The next range: where it ends, and how much is in it."""

    end: StorePosition
    rows: int
    full: bool


class Tracker(Protocol):
    """Knows which events are new, and gives the events of a range again."""

    def next(self, start: StorePosition | None) -> NextRange | None: ...

    def fix_range(self, start: StorePosition | None, end: StorePosition) -> None: ...

    def legs(self, start: StorePosition | None, end: StorePosition) -> list[Leg]: ...

    def waiting(self, start: StorePosition | None) -> str | None:
        """The condition for what has not been read, as far as one can say it in short."""

    def detail(self) -> Mapping[str, Any]: ...

    def freeze(self) -> None: ...

    def committed(self, end: StorePosition) -> None: ...


def between(low: int | None, high: int | None) -> str:
    """A condition on the position; without ends, none."""
    parts = [f"{POSITION} >= {low}" if low is not None else "", f"{POSITION} <= {high}" if high is not None else ""]
    return " AND ".join(part for part in parts if part) or "TRUE"


def require_same_server(store: EventStore, start: Position | None, now: StoreIdentity) -> None:
    """Positions and transactions of one server say nothing of another."""
    if start is None or start["system"] == now.system:
        return
    spec = store.spec
    raise TerminalError(
        Code.SOURCE_CHANGED,
        f"{store.name} is in another database cluster than the one that the flow has read so far"
        f" (system {now.system}, and not {start['system']})",
        where=spec.where,
        hint="new events there can't be distinguished from those already read: `headwater flow reset NAME` reads all of"
        " it again, and `deduplicate_by: event_id` leaves out what the topic has; `headwater flow rebuild NAME` fills"
        " the topic again",
    )
