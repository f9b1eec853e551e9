"""The process that `isolation` starts: it answers queries with a Spark of its own, and ends with its parent."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.core.errors import Code, HeadwaterError
from headwater.core.logs import get_logger
from headwater.core.spec.settings import SparkSpec
from headwater.project.definition import ProjectDefinition
from headwater.query.limits import Limits, QueryStop
from headwater.query.spark.isolation import FOLDER
from headwater.query.spark.messages import (
    END,
    Ask,
    AskPlan,
    Complaint,
    Done,
    Failed,
    QueryStarted,
    RowBatch,
    receive_project,
)
from headwater.spark.errors import as_headwater_error, piece_of
from headwater.spark.internals import java_context
from headwater.spark.jvm import has_ended, is_gone
from headwater.warehouse import Warehouse

PIECE = 8 * 1024**2
"""Bytes of a batch that are sent at once: the other side holds no more."""
ROUND = 1.0
"""Seconds between two looks at whether this process is still of use."""
LINGERING = 10.0
"""Seconds that a stopped query may go on, before its Spark is ended as soon as nobody else needs it."""
EXIT_ON_OUT_OF_MEMORY = "-XX:+ExitOnOutOfMemoryError"

log = get_logger(__name__)


def main(arguments: Sequence[str]) -> None:
    """`FD`: the control socket, by which the project comes first, and then a socket for each query."""
    control = socket.socket(fileno=int(arguments[0]))
    with suppress(OSError):
        os.nice(5)  # flows come first
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")  # and where memory runs out, this ends
    QueryWorker(receive_project(control)).serve(control)


def spark_of(project: ProjectDefinition) -> SparkSpec:
    """The Spark of queries: as the project has it, with a heap of its own, and gone at once when that is full."""
    spec, memory = project.settings.spark, project.settings.queries.memory
    options = spec.conf.get("spark.driver.extraJavaOptions", "")
    conf = {
        **spec.conf,
        "spark.driver.memory": f"{max(memory // 1024**2, 1)}m",
        "spark.driver.extraJavaOptions": f"{options} {EXIT_ON_OUT_OF_MEMORY}".strip(),
    }
    return spec.model_copy(update={"conf": conf, "ui": False})


class QueryWorker:
    """A thread per query."""

    def __init__(self, project: ProjectDefinition) -> None:
        self._project = project
        self._spark = spark_of(project)
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._queries: set[WorkerQuery] = set()
        self._used = time.monotonic()
        self._ending = False
        self._owner: Warehouse | None = None

    def serve(self, control: socket.socket) -> None:
        """Until the parent is gone."""
        threading.Thread(target=self._watch, name="watch", daemon=True).start()
        while True:
            message, handles, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                os._exit(0)  # the JVM's standard input ends, and so it ends
            if message == END:
                self._ending = True
            for handle in handles:
                query = WorkerQuery(self, Connection(handle))
                with self._lock:
                    self._ending = self._ending or is_gone()
                    if self._ending:
                        query.refuse()  # its parent starts another process
                        continue
                    self._queries.add(query)
                threading.Thread(target=query.run, name="query", daemon=True).start()

    def opened(self) -> Warehouse:
        """The lake for one query; the first one starts Spark, and its handle keeps it."""
        with self._starting:
            if self._owner is None:
                self._owner = self._warehouse()
                self._owner.restarts = None  # where it has died this process ends, and another is started
            self._owner.spark  # noqa: B018  # started here, once
        return self._warehouse()

    def over(self, query: WorkerQuery) -> None:
        with self._lock:
            self._queries.discard(query)
            self._used = time.monotonic()

    def _warehouse(self) -> Warehouse:
        return Warehouse(self._project, self._spark, self._project.home / FOLDER)

    def _watch(self) -> None:
        """End when Spark has died, when nobody has asked for long, or when what was stopped goes on."""
        lingering: float | None = None
        while True:
            time.sleep(ROUND)
            now = time.monotonic()
            with self._lock:
                left = [query.left_at for query in self._queries if query.left_at is not None]
                wanted, quiet = len(self._queries) > len(left), now - self._used
                idle = not self._queries and quiet > self._project.settings.queries.idle.total_seconds()
                stuck = any(now - at > LINGERING for at in left)  # in the middle of planning, which is no job yet
                self._ending = self._ending or is_gone() or idle or stuck
            if not self._queries and not self._ending and quiet < 10 * LINGERING:
                lingering = (lingering or now) if self._tasks() else None
                stuck = lingering is not None and now - lingering > LINGERING
                self._ending = self._ending or stuck
            if stuck:
                log.warning("a query that was stopped does not end: its Spark is ended")
            if self._ending and not wanted:
                os._exit(0)

    def _tasks(self) -> bool:
        """Whether Spark still works at something."""
        try:
            owner = self._owner
            if owner is None:
                return False
            infos: Any = java_context(owner.spark).sc().statusTracker().getExecutorInfos()
            return any(info.numRunningTasks() > 0 for info in infos)
        except Exception:  # it is starting, or has died, which is looked for elsewhere
            return False


class WorkerQuery:
    """One query, from its line."""

    def __init__(self, worker: QueryWorker, line: Connection) -> None:
        self._worker, self._line = worker, line
        self._stopping = QueryStop()
        self._wanted = threading.Event()
        self.left_at: float | None = None
        """When whoever asked has left."""

    def refuse(self) -> None:
        self._line.close()

    def run(self) -> None:
        try:
            request = self._received()
            self._tell(True)
            threading.Thread(target=self._listen, name="line", daemon=True).start()
            self._answer(request)
        except _Left:
            pass  # nobody waits for it any more
        finally:
            self._worker.over(self)
            with suppress(OSError):
                socket.socket(fileno=os.dup(self._line.fileno())).shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        """Rows are wanted, or nobody waits any more."""
        with suppress(EOFError, OSError):
            while self._line.recv():
                self._wanted.set()
        self.left_at = time.monotonic()
        self._stopping.cancel()
        self._wanted.set()

    def _answer(self, request: Ask | AskPlan) -> None:
        try:
            warehouse = self._worker.opened()
            try:
                self._send(warehouse, request)
            finally:
                warehouse.close()
        except _Left:
            raise
        except Exception as caught:
            error = _meant(caught)
            short = error.code is Code.QUERY_TOO_LARGE or has_ended()
            self._tell(Failed.by(error, _complaint(error.__cause__), short=short))

    def _send(self, warehouse: Warehouse, request: Ask | AskPlan) -> None:
        if isinstance(request, AskPlan):
            from headwater.query.explain import explain

            found = explain(
                warehouse,
                request.sql,
                engine="spark",
                analyze=True,
                stopping=self._stopping,
                read_only=request.read_only,
            )
            self._tell(Done(replace(found, reason=request.reason)))
            return
        from headwater.query.spark.answer import SparkAnswer

        scans = _scans(warehouse, request.sql)
        answer = SparkAnswer(
            warehouse,
            request.sql,
            request.reason,
            self._stopping,
            request.pinned,
            scans,
            request.rows,
            read_only=request.read_only,
        )
        self._tell(QueryStarted(answer.versions, answer.schema.serialize().to_pybytes()))
        self._wanted.wait()
        limits, rows, held = Limits(request.rows, request.bytes), 0, 0
        for batch in answer.batches():
            self._stopping.check()
            rows, held = rows + batch.num_rows, held + batch.nbytes
            for piece in pieces(batch):
                self._tell(RowBatch())
                self._tell(piece.serialize().to_pybytes())
            if limits.exceeded(rows, held):
                break  # the other side has counted too, and says so
        self._tell(Done())

    def _received(self) -> Any:
        try:
            return self._line.recv()
        except (EOFError, OSError):
            raise _Left from None

    def _tell(self, what: Any) -> None:
        """Waits for as long as the other side has no room for more."""
        try:
            if isinstance(what, bytes):
                self._line.send_bytes(what)
            else:
                self._line.send(what)
        except OSError:
            raise _Left from None


class _Left(Exception):
    """Nobody is at the other end of the line."""


def pieces(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """A batch in parts of some 8 MB."""
    count = max(1, min(batch.num_rows, -(-batch.nbytes // PIECE)))
    step = -(-batch.num_rows // count) if batch.num_rows else 1
    return [batch.slice(begin, step) for begin in range(0, max(batch.num_rows, 1), step)]


def _scans(warehouse: Warehouse, sql: str) -> list[Any]:
    """What is known of the query's relations without Spark."""
    from headwater.query.duckdb.eligibility import plan_query
    from headwater.query.duckdb.translation.terms import Refused

    try:
        return [one.scan for one in plan_query(warehouse, sql).scans]
    except Refused as refused:
        return list(refused.scans)
    except HeadwaterError:
        return []


def _meant(caught: Exception) -> HeadwaterError:
    if isinstance(caught, HeadwaterError) or not has_ended():
        return as_headwater_error(caught)
    from pyspark import SparkContext

    from headwater.query.spark.answer import failure

    return failure(caught, SparkContext._active_spark_context)


def _complaint(cause: Any) -> Complaint | None:
    if not hasattr(cause, "getErrorClass"):
        return None
    return Complaint(cause.getErrorClass(), dict(cause.getMessageParameters() or {}), piece_of(cause))
