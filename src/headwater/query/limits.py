"""How much a query may take, and how it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.errors import Code, TerminalError

AGAIN = 0.1
"""Seconds between two attempts to stop a query."""


@dataclass(frozen=True)
class Limits:
    """What a query may take at most; None: as much as there is."""

    rows: int | None = None
    bytes: int | None = None
    """Of its result."""
    memory: int | None = None
    """Bytes that DuckDB may hold. Spark's memory is its session's and can't be set for one query."""
    seconds: float | None = None


class Stopping:
    """One query's switch: `cancel` from any thread, or the time that it may take, stops it."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._begun = time.monotonic()
        self._cancelled = threading.Event()
        self._expired = threading.Event()
        self._lock = threading.Lock()
        self._stop: Callable[[], None] | None = None

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
                hint="give it more time, or ask for less",
            )

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """While the engine works, stopping the query calls `stop`."""
        self.check()
        with self._lock:
            self._stop = stop
        timer = None
        if self._seconds is not None:
            timer = threading.Timer(max(self._left(), 0), self._expire)
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
