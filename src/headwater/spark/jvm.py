"""The process that Spark runs in: started so that Ctrl-C leaves none behind, and ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from headwater.core.errors import Code, TerminalError, TransientError

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

PATIENCE = 30.0
"""Seconds that a JVM may take to end."""
ENDING = 5.0
"""Seconds that one which has shut Spark down by itself may take to be gone."""
WINDOW = 600.0
"""Seconds over which restarts are counted."""
HINT = "see .headwater/logs/spark.out; where it lacks memory, set spark.conf spark.driver.memory"
OUT_OF_MEMORY = frozenset({3, 52})
"""Exit codes: of Java's own `-XX:+ExitOnOutOfMemoryError`, and of Spark's handler of errors."""


def launched(conf: SparkConf | None, output: BinaryIO) -> Any:
    """A new JVM, as py4j's gateway to it; what it prints goes to `output`.

    Settings in `conf` stand in its command line: secret ones go through a `submission`.

    PySpark waits for the JVM to report to a folder, which it removes even if it is interrupted meanwhile: the JVM then
    never listens for the end of its parent, and outlives it. So it is started in a thread, which no signal reaches. If
    this process ends, the JVM ends with it; if it goes on, the thread ends the JVM that nobody waits for any more.

    The JVM and the Python workers that it starts are a session of their own: Ctrl-C at a terminal is a signal to this
    process alone, which finishes what it is doing and then ends them. Killed, it takes them along all the same: a JVM
    ends when its standard input does.
    """
    from pyspark.java_gateway import launch_gateway

    future: Future[Any] = Future()

    def launch() -> None:
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output, "start_new_session": True})
        except BaseException as error:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return
        if future.set_running_or_notify_cancel():
            future.set_result(gateway)
        else:
            end(gateway)

    threading.Thread(target=launch, name="starting a JVM", daemon=True).start()
    try:
        return future.result()
    except BaseException:
        if not future.cancel() and future.exception() is None:
            end(future.result())
        raise


def new_context(conf: SparkConf) -> SparkContext:
    """A new Spark context that leaves Ctrl-C to whoever handles it.

    PySpark takes SIGINT for itself when a context is made in the main thread: it cancels all jobs and raises
    KeyboardInterrupt wherever the program is. It does not when the context is made in any other thread.
    """
    from pyspark import SparkContext

    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler or getattr(handler, "__module__", "") == SparkContext.__module__:
        return SparkContext(conf=conf)
    with ThreadPoolExecutor(1, thread_name_prefix="starting Spark") as thread:
        return thread.submit(SparkContext, conf=conf).result()


def is_gone() -> bool:
    """Whether the JVM of this process's Spark has ended, though nobody here has ended it."""
    pyspark = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext._active_spark_context
    process = None if context is None else getattr(context._gateway, "proc", None)
    return process is not None and process.poll() is not None


def has_ended() -> bool:
    """Whether this process's Spark is over although nobody here has ended it: its JVM is gone, or about to be."""
    pyspark = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext._active_spark_context
    if context is None:
        return False
    if is_gone():
        return True
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:  # py4j raises whatever it met: nobody answers
        return True


@dataclass(frozen=True)
class Ending:
    """How a JVM ended."""

    words: str
    out_of_memory: bool = False

    def __str__(self) -> str:
        return self.words


def bury(gateway: Any) -> Ending:
    """How a JVM ended that has, or is about to; one that does not come to its end is killed."""
    process = getattr(gateway, "proc", None)
    if process is None:
        return Ending("Spark has ended")
    try:
        code = process.wait(timeout=ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return Ending("Spark was shut down")
    if code in OUT_OF_MEMORY:
        return Ending("Spark ran out of memory and has ended", out_of_memory=True)
    how = f"it was killed by {_signal(-code)}" if code < 0 else f"exit code {code}"
    return Ending(f"Spark's process has ended ({how})")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end(gateway: Any) -> None:
    """End a JVM, and wait until it has."""
    with suppress(Exception):  # py4j raises whatever it met; the process is ended in any case
        gateway._gateway_client.shutdown_gateway()
    if gateway.proc is not None:
        # Before the connections: it closes its ends of them, and whoever still reads from one lets go of it.
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
    gateway.shutdown_callback_server()


@dataclass
class Restarts:
    """How often Spark was started again."""

    most: int
    """In WINDOW; then a run ends."""
    count: int = 0
    _at: deque[float] = field(default_factory=deque)

    def allow(self) -> bool:
        """Whether there may be another one now; counts it."""
        now = time.monotonic()
        while self._at and now - self._at[0] > WINDOW:
            self._at.popleft()
        if len(self._at) >= self.most:
            return False
        self._at.append(now)
        self.count += 1
        return True

    def allow_again(self) -> bool:
        """As if there had been none: what ended it is known, and is not done again."""
        self._at.clear()
        return self.allow()

    def pending(self, ending: Ending) -> TransientError:
        """What the flows say while Spark is started again."""
        return TransientError(
            Code.SPARK_FAILED,
            f"{ending}; it is started again ({len(self._at)} of at most {self.most} times in 10 minutes)",
            hint=HINT,
        )

    def exhausted(self, ending: Ending, *, owned: bool = True) -> TerminalError:
        """What the flows say when it is not."""
        why = f"after {len(self._at)} restarts in 10 minutes" if self._at else "and runtime.spark_restarts is 0"
        if not owned:
            why = "and it was not started by this lake"
        return TerminalError(Code.SPARK_FAILED, f"{ending}, {why}: it is not started again", hint=HINT)
