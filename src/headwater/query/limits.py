"""How much a query may take, and how it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.core.errors import Code, TerminalError

if TYPE_CHECKING:
    from headwater.core.spec.settings import QueriesSpec

AGAIN = 0.1
"""Seconds between two attempts to stop a query."""
SMALL = 100_000
"""A limit of no more rows is put into the query: its engine need not find any beyond it."""


@dataclass(frozen=True)
class Limits:
    """What a query may take at most; None: as much as there is."""

    rows: int | None = None
    bytes: int | None = None
    """Of its result."""
    memory: int | None = None
    """Bytes that DuckDB may hold. Spark's memory is its session's and can't be set for one query."""
    seconds: float | None = None

    def exceeded(self, rows: int, bytes: int) -> bool:
        """Whether a result of so much is more than there may be."""
        return (self.rows is not None and rows > self.rows) or (self.bytes is not None and bytes > self.bytes)

    def or_else(self, queries: QueriesSpec) -> Limits:
        """The project's own limits where these say nothing."""
        timeout = queries.timeout
        return Limits(
            queries.max_rows if self.rows is None else self.rows,
            queries.max_bytes if self.bytes is None else self.bytes,
            self.memory,
            (None if timeout is None else timeout.total_seconds()) if self.seconds is None else self.seconds,
        )


class QueryStop:
    """One query's switch: `cancel` from any thread, or the time that it may take, stops it."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._begun = time.monotonic()
        self._cancelled = threading.Event()
        self._expired = threading.Event()
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None

    def at_most(self, seconds: float | None) -> None:
        """Give it a time, unless it was made with one."""
        if self._seconds is None:
            self._seconds = seconds

    def is_overdue(self, by: float) -> bool:
        """Whether its time has been over for so many seconds."""
        return self._seconds is not None and self._left() < -by

    def cancel(self) -> None:
        self._cancelled.set()
        threading.Thread(target=self._call, name="stopping", daemon=True).start()

    def check(self) -> None:
        """Raise if the query has been stopped."""
        if self._cancelled.is_set():
            raise TerminalError(Code.CANCELLED, "the query was cancelled")
        if self._expired.is_set() or (self._seconds is not None and self._left() <= 0):
            raise TerminalError(
                Code.QUERY_LIMIT,
                f"the query took longer than {self._seconds:g} s",
                hint="ask for less, or give it more time: --timeout, queries.timeout",
            )

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """While the engine works, stopping the query calls `stop`."""
        self.check()
        with self._lock:
            self._stop = stop
        timer = None
        if self._seconds is not None:
            timer = threading.Timer(min(max(self._left(), 0), threading.TIMEOUT_MAX), self._expire)
            timer.daemon = True
            timer.start()
        try:
            yield
        except BaseException:
            self.check()  # what the engine says of being stopped is not the cause
            raise
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                self._stop = None

    def _expire(self) -> None:
        self._expired.set()
        self._call()

    def _call(self) -> None:
        """Stop what runs, again until it has ended: an engine may be between two pieces of work."""
        while True:
            with self._lock:
                if self._stop is None:
                    return
                self._stop()
            time.sleep(AGAIN)

    def _left(self) -> float:
        return (self._seconds or 0) - (time.monotonic() - self._begun)


_by_thread: dict[str, QueryStop] = {}


@contextmanager
def stopped_by_name(stopping: QueryStop) -> Iterator[None]:
    """While this thread works, whoever knows its name can stop the query: `cancel_thread`."""
    name = threading.current_thread().name
    _by_thread[name] = stopping
    try:
        yield
    finally:
        _by_thread.pop(name, None)


def cancel_thread(name: str) -> None:
    """Stop the query that a thread of this name works at, if it does."""
    stopping = _by_thread.get(name)
    if stopping is not None:
        stopping.cancel()
