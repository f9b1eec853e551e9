"""Ctrl-C while an engine works on a query: it is cancelled, and the command ends as one that was interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from headwater.errors import Code, HeadwaterError
from headwater.query.limits import Stopping


class Interruptible(Stopping):
    """A query's switch that Ctrl-C turns too.

    Spark's own handler, set when it starts, asks Java from inside of the call that waits for Java, which breaks both:
    while an engine works, the one here stands in its place and cancels from another thread.
    """

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(seconds)
        self._interrupted = False

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            with super().stopping(stop):  # a runner's command: it is told by its line
                yield
            return
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            with super().stopping(stop):
                yield
        except HeadwaterError as error:
            if self._interrupted and error.code is Code.CANCELLED:
                raise KeyboardInterrupt from error
            raise
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt  # twice: whoever sits there has waited long enough
        self._interrupted = True
        threading.Thread(target=self.cancel, name="cancel", daemon=True).start()
