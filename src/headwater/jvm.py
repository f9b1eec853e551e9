"""The process that Spark runs in: started so that Ctrl-C leaves none behind, and ended."""

from __future__ import annotations

import signal
import subprocess
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

PATIENCE = 30.0
"""Seconds that a JVM may take to end."""


def launched(conf: SparkConf, output: BinaryIO) -> Any:
    """A new JVM, as py4j's gateway to it; what it prints goes to `output`.

    PySpark waits for the JVM to report to a folder, which it removes even if it is interrupted meanwhile: the JVM then
    never listens for the end of its parent, and outlives it. So it is started in a thread, which no signal reaches. If
    this process ends, the JVM ends with it; if it goes on, the thread ends the JVM that nobody waits for any more.

    The JVM and the Python workers that it starts are a session of their own: Ctrl-C at a terminal is a signal to this
    process alone, which finishes what it is doing and then ends them. Killed, it takes them along all the same: a JVM
    ends when its standard input does.
    """
    from pyspark.java_gateway import launch_gateway

    found: Future[Any] = Future()

    def launch() -> None:
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output, "start_new_session": True})
        except BaseException as error:
            if found.set_running_or_notify_cancel():
                found.set_exception(error)
            return
        if found.set_running_or_notify_cancel():
            found.set_result(gateway)
        else:
            end(gateway)

    threading.Thread(target=launch, name="starting a JVM", daemon=True).start()
    try:
        return found.result()
    except BaseException:
        if not found.cancel() and found.exception() is None:
            end(found.result())
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
