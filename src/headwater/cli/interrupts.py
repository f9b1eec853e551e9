"""Ctrl-C while a statement is at work: it is cancelled within a second, whatever an engine is busy with.

The work is done in a thread of its own, and the main thread, which Python hands signals to, does nothing but wait. An
interrupt in the middle of a call that waits for Java breaks the line to it; and while Spark starts, or reads a large
table's metadata, there is nothing yet that could be cancelled.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context

from headwater.query.limits import QueryStop, stopped_by_name

PATIENCE = 0.7
"""Seconds that the work may take to end after it was told to."""
LATEST = 10.0
"""Seconds that it may take to end after its time is over."""
ROUND = 0.5
_NAME = "interruptible work"


def interruptible(work: Callable[[QueryStop], None], seconds: float | None = None) -> None:
    """Do the work, which is given its switch; Ctrl-C turns that and ends the wait as KeyboardInterrupt."""
    stopping = QueryStop(seconds)
    if threading.current_thread() is not threading.main_thread():
        with stopped_by_name(stopping):  # a runner's command: it is told by its line
            work(stopping)
        return
    ended = threading.Event()
    failures: list[BaseException] = []
    context = copy_context()

    def do() -> None:
        try:
            context.run(work, stopping)
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own asks Java, from wherever we are
    try:
        threading.Thread(target=do, name=_NAME, daemon=True).start()
        while not ended.wait(ROUND):
            if stopping.is_overdue(LATEST):
                stopping.check()  # an engine that is not even stopped by its time is left behind
    except KeyboardInterrupt:
        stopping.cancel()
        if not ended.wait(PATIENCE):
            _cancel_jobs()
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if failures:
        raise failures[0]


def leave(code: int) -> None:
    """End this process at once if interrupted work still goes on in it; its JVM ends with it."""
    if any(thread.name == _NAME for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _cancel_jobs() -> None:
    """Whatever Spark does for work that has no switch, such as building a view."""
    pyspark = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext._active_spark_context
    if context is None:
        return

    def cancel() -> None:
        try:
            context.cancelAllJobs()
        except Exception:
            return  # Spark is starting or ending: there are none

    threading.Thread(target=cancel, name="cancel all jobs", daemon=True).start()
