"""A process of its own for queries that Spark has to answer while flows run in this one.

No bound inside one JVM holds: a single aggregate may take all of its heap, and Spark ends for everybody. So a runner
starts a second process with a Spark of its own when the first such query comes. What a query does to that Spark is felt
by the queries that run at the same time, and by no flow. Those of them that have handed out no row yet are run once
more, one at a time, in a process where no other query can end their Spark. `docs/decisions/0022` and `0030` say more.

The two talk over pairs of sockets that nobody else can open: one for control, by which each query gets one of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError
from headwater.core.logs import get_logger
from headwater.core.private_files import create_private, make_private
from headwater.core.progress import say
from headwater.query.limits import AGAIN, QueryStop
from headwater.query.spark.messages import END, QUERY, Ask, AskPlan, Done, Failed, QueryStarted, RowBatch, send_project

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.project.definition import ProjectDefinition
    from headwater.query.explanation import Explained

ATTEMPTS = 3
"""How often a query is handed over: a process that has just ended is replaced."""
ENDING = 10.0
"""Seconds that the process may take to end."""
FOLDER = "queries"
"""In `.headwater`: the logs of that Spark."""
_WORKER = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from headwater.query.spark.worker import main; main(sys.argv[1:])"
)
"""Not `-m`: the folder that a runner was started in is no place to import from."""

T = TypeVar("T")

log = get_logger(__name__)


class QueryProcess:
    """Started with the first query, and again when it has ended; ended with the runner, however that ends."""

    def __init__(self, project: Callable[[], ProjectDefinition]) -> None:
        """`project`: as it is now; the process is told once, when it starts, and replaced when that has changed."""
        self._now = project
        self._project = project()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._lines: weakref.WeakSet[QueryLine] = weakref.WeakSet()
        """Those of the process that runs now."""
        self._second: QueryProcess | None = None
        """For queries that are run again, one at a time."""
        self._alone = threading.Lock()

    def answer(self, ask: Ask, stopping: QueryStop) -> RemoteAnswer:
        """A query of which no more than its analysis has been done."""
        return RemoteAnswer(self, ask, stopping)

    def explain(self, ask: AskPlan, stopping: QueryStop) -> Explained:
        """EXPLAIN ANALYZE: the query is run."""

        def explained(line: QueryLine) -> Explained:
            try:
                with stopping.stopping(line.cut):
                    found = line.receive()
                assert isinstance(found, Done) and found.explained is not None
                return found.explained
            finally:
                line.close()

        return self.spare(ask, stopping, explained)

    def spare(self, request: Ask | AskPlan, stopping: QueryStop, work: Callable[[QueryLine], T]) -> T:
        """Do the work with a query's line, and once more if its Spark has ended while it was not the only query."""
        line = self.hand_over(request)
        try:
            return work(line)
        except HeadwaterError:
            if not line.is_victim:
                raise
        return work(self.hand_over_alone(request, stopping))

    def hand_over_alone(self, request: Ask | AskPlan, stopping: QueryStop) -> QueryLine:
        """Give a query to a process that runs no other until its line is closed."""
        while not self._alone.acquire(timeout=AGAIN):
            stopping.check()
        try:
            log.warning("a query is run again by itself: its Spark has ended, and another may have been the cause")
            self._second = self._second or QueryProcess(self._now)
            line = self._second.hand_over(request)
        except BaseException:
            self._alone.release()
            raise
        line.release = weakref.finalize(line, self._alone.release)
        return line

    def hand_over(self, request: Ask | AskPlan) -> QueryLine:
        """Give the process a query; returns when it has it."""
        for _ in range(ATTEMPTS):
            ours, theirs = socket.socketpair()
            line = QueryLine(ours)
            with theirs, self._lock:
                process, control = self._running()
                try:
                    socket.send_fds(control, [QUERY], [theirs.fileno()])
                except OSError:
                    self._forget(process)
                    line.close()
                    continue
                self._enter(line)
            if line.offer(request):
                return line
            line.close()
            with self._lock:
                self._forget(process)  # it is about to end
        raise TransientError(
            Code.SESSION_FAILED,
            "the process that answers queries does not start",
            hint=f"see {self._folder / 'queries.out'}",
        )

    def _enter(self, line: QueryLine) -> None:
        """Let the queries of a process know of each other, before the new one can do anything."""
        others = [one for one in self._lines if one.is_open]
        for one in (line, *others) if others else ():
            one.is_alone = False
        self._lines.add(line)

    def close(self) -> None:
        if self._second is not None:
            self._second.close()
        with self._lock:
            process, self._process = self._process, None
            control, self._control = self._control, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def _folder(self) -> Any:
        return self._project.home / FOLDER

    def _running(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._process is not None and self._process.poll() is not None:
            log.warning("query process ended", code=self._process.returncode)
            self._forget(self._process)
        project = self._now()
        if self._process is not None and project is not self._project:
            self._forget(self._process)
        if self._process is None or self._control is None:
            self._project = project
            self._lines = weakref.WeakSet()
            say("Starting Spark for queries …")
            self._process, self._control = self._started()
        return self._process, self._control

    def _started(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        make_private(self._folder)
        create_private(self._folder / "queries.out")
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", _WORKER, str(theirs.fileno())]
        with theirs, (self._folder / "queries.out").open("ab") as output:
            process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a terminal's Ctrl-C is for the runner
            )
        log.info("query process started", pid=process.pid)
        with suppress(OSError):  # it has ended already: whoever offers it a query will see
            send_project(ours, self._project)
        return process, ours

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        """Another one is started for the next query; this one ends when its last query has."""
        control = self._control
        if self._process is not process or control is None:
            return
        self._process = self._control = None
        with suppress(OSError):
            control.send(END)

        def wait() -> None:
            process.wait()
            control.close()

        threading.Thread(target=wait, name="query process", daemon=True).start()


class QueryLine:
    """One query's line to the process. Cut, at either end, it stops the query."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))
        self._cutting = threading.Lock()
        self.is_open = True
        self.is_alone = True
        """Whether no other query has run in the same process at any time."""
        self._ended = False
        self.release: Callable[[], object] = lambda: None
        """Called when it is closed."""

    @property
    def is_victim(self) -> bool:
        """Whether its Spark has ended or lacked memory, and another query may have been the cause."""
        return self._ended and not self.is_alone

    def offer(self, request: Ask | AskPlan) -> bool:
        """Whether the process takes the query."""
        try:
            self._connection.send(request)
            return bool(self._connection.recv())
        except (EOFError, OSError):
            self.cut()
            return False

    def go(self) -> None:
        """Rows are wanted."""
        with suppress(OSError):  # what it ended with is yet to be received
            self._connection.send(True)

    def receive(self) -> QueryStarted | RowBatch | Done:
        """What it says next; raises what the query failed with."""
        try:
            found = self._connection.recv()
        except (EOFError, OSError):
            self._ended = self.is_open
            raise _gone() from None
        if isinstance(found, Failed):
            self._ended = found.short
            raise found.error from found.cause
        answer: QueryStarted | RowBatch | Done = found
        return answer

    def receive_bytes(self) -> bytes:
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            self._ended = self.is_open
            raise _gone() from None

    def cut(self) -> None:
        """From any thread, as often as one likes."""
        self.is_open = False
        with self._cutting, suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        with self._cutting:
            self._socket.close()
            with suppress(OSError):
                self._connection.close()
        self.release()


class RemoteAnswer:
    """A query in the other process: analysed at once, computed when its rows are asked for."""

    engine = "spark"

    def __init__(self, process: QueryProcess, ask: Ask, stopping: QueryStop) -> None:
        import pyarrow as pa

        self.reason = ask.reason
        self._process, self._ask, self._stopping = process, ask, stopping
        self._line, self._begun = process.spare(ask, stopping, self._started)
        self.versions = dict(self._begun.versions)
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(self._begun.schema))

    def _started(self, line: QueryLine) -> tuple[QueryLine, QueryStarted]:
        """The line of a query that has been analysed."""
        try:
            with self._stopping.stopping(line.cut):
                begun = line.receive()
        except BaseException:
            line.close()
            raise
        assert isinstance(begun, QueryStarted)
        return line, begun

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            for batch in self._received():
                rows += batch.num_rows
                yield batch
            return
        except HeadwaterError as error:
            if not self._line.is_victim:
                raise
            if rows:
                raise _interrupted(rows) from error
            self.close()
            self._line, begun = self._started(self._process.hand_over_alone(self._ask, self._stopping))
            if begun != self._begun:  # other versions than it was said to read
                raise
            yield from self._received()
        finally:
            self.close()

    def _received(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        self._line.go()
        while True:
            with self._stopping.stopping(self._line.cut):
                found = self._line.receive()
                message = self._line.receive_bytes() if isinstance(found, RowBatch) else None
            if message is None:
                return
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)

    def rows(self) -> None:
        """Only by batches."""

    def close(self) -> None:
        """Stop the query, if it has not come to its end."""
        self._line.close()


def _interrupted(rows: int) -> TerminalError:
    return TerminalError(
        Code.QUERY_FAILED,
        f"Spark has ended while several queries ran, after {rows} rows of this one",
        hint="run it again; it is not known which query used all the memory",
    )


def _gone() -> TerminalError:
    return TerminalError(
        Code.SPARK_FAILED,
        "the process that answers queries has ended while this query ran",
        hint="the next query starts it again; where the machine lacks memory, ask for less at a time",
    )


_process: QueryProcess | None = None


def process() -> QueryProcess | None:
    """Where this process's queries are sent that Spark has to answer; None: to its own Spark."""
    return _process


@contextmanager
def isolated(project: Callable[[], ProjectDefinition]) -> Iterator[None]:
    """For as long as flows run here, queries have a process of their own. On a cluster they share the flows' Spark:
    what they compute is done by executors, which Spark replaces, and a second application might never get any."""
    global _process
    if not project().settings.spark.master.startswith("local"):
        yield
        return
    _process = QueryProcess(project)
    try:
        yield
    finally:
        found, _process = _process, None
        found.close()
