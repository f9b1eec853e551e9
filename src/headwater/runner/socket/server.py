"""The runner's door: a Unix socket for its owner alone, where commands ask to be run in the warm Spark."""

from __future__ import annotations

import fcntl
import io
import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.core.logs import get_logger
from headwater.core.private_files import create_private, make_private
from headwater.project.definition import ProjectDefinition
from headwater.query.limits import cancel_thread
from headwater.runner.socket.address import Hello, folder_of
from headwater.runner.socket.frames import Frame, Line, Receiving, Sending, Text

LONGEST_PATH = 100
"""Bytes; a Unix socket's path may have 107, or fewer on some systems."""

WIDEST = 100_000
"""Columns of a terminal at most."""

log = get_logger(__name__)


@dataclass(frozen=True)
class Streams:
    """A command's standard streams, at the other end of the line."""

    stdin: Text
    stdout: Text
    stderr: Text


@dataclass(frozen=True)
class Request:
    """A command to run: its arguments, the folder it was called in, its streams."""

    arguments: tuple[str, ...]
    folder: Path
    streams: Streams


@dataclass(frozen=True)
class Answers:
    """Which commands are answered, and how: run in this process, for an exit code."""

    commands: frozenset[str]
    run: Callable[[Request], int]


class RunnerSocket:
    """Open while the runner is up. Several runners may share a lake: one of them has the door."""

    def __init__(self, project: ProjectDefinition, answers: Answers) -> None:
        self._hello = Hello.of(project, answers.commands)
        self._folder = folder_of(project.file)
        self._answers = answers
        self._lock: io.TextIOWrapper | None = None
        self._listening: socket.socket | None = None
        self._place: Path | None = None
        self._visits: set[Visit] = set()
        self._numbers = iter(range(1, 1 << 62))

    def open(self) -> None:
        """Listen, unless another process does."""
        if self._listening is not None:
            return
        make_private(self._folder)
        create_private(self._folder / "lock")
        lock = (self._folder / "lock").open("w", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return
        self._lock = lock
        self._place = self._short_place()
        self._place.unlink(missing_ok=True)  # left by a runner that was killed: whoever has the lock may
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listening.bind(str(self._place))
        finally:
            os.umask(before)
        listening.listen(16)
        self._listening = listening
        create_private(self._folder / "socket")
        (self._folder / "socket").write_text(str(self._place), encoding="utf-8")
        threading.Thread(target=self._accept, args=(listening,), name="door", daemon=True).start()

    def renew(self, project: ProjectDefinition) -> None:
        """From now on this is the project that commands are answered for."""
        self._hello = Hello.of(project, self._answers.commands)

    def close(self) -> None:
        """Answer nobody any more; what is being answered is cut off."""
        listening, self._listening = self._listening, None
        if listening is None or self._place is None or self._lock is None:
            return
        (self._folder / "socket").unlink(missing_ok=True)
        self._place.unlink(missing_ok=True)
        if self._place.parent != self._folder:
            self._place.parent.rmdir()
        listening.close()
        for visit in tuple(self._visits):
            visit.cut_off()
        self._lock.close()

    def _short_place(self) -> Path:
        place = self._folder / "runner.sock"
        if len(os.fsencode(place)) <= LONGEST_PATH:
            return place
        return Path(tempfile.mkdtemp(prefix="headwater-")) / "runner.sock"

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return  # closed
            visit = Visit(Line(connection), f"headwater:command:{next(self._numbers)}")
            threading.Thread(target=self._serve, args=(visit,), name="visit", daemon=True).start()

    def _serve(self, visit: Visit) -> None:
        self._visits.add(visit)
        try:
            visit.serve(self._hello, self._answers.run)
        except (OSError, ValueError, KeyError) as error:
            log.info("visit ended", error=str(error))
        finally:
            self._visits.discard(visit)
            visit.line.close()


@dataclass(frozen=True)
class _SocketMessage:
    """A request as it came, each part of the type that it has to be."""

    arguments: tuple[str, ...]
    folder: Path
    out_tty: bool
    err_tty: bool
    columns: int | None
    out_colour: bool
    err_colour: bool

    @staticmethod
    def from_json(data: bytes) -> _SocketMessage:
        """Raises ValueError with the part that is wrong."""
        try:
            message = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError("not JSON") from error
        if not isinstance(message, dict):
            raise ValueError("not an object")
        arguments, folder, columns = message.get("arguments"), message.get("folder"), message.get("columns")
        out_tty, err_tty = message.get("out_tty"), message.get("err_tty")
        out_colour, err_colour = message.get("out_colour", False), message.get("err_colour", False)
        if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
            raise ValueError("`arguments` should be a list of texts")
        if not isinstance(folder, str) or "\0" in folder:
            raise ValueError("`folder` should be a path")
        if not isinstance(out_tty, bool) or not isinstance(err_tty, bool):
            raise ValueError("`out_tty` and `err_tty` should be true or false")
        if not isinstance(out_colour, bool) or not isinstance(err_colour, bool):
            raise ValueError("`out_colour` and `err_colour` should be true or false")
        if columns is not None and (type(columns) is not int or not 0 <= columns <= WIDEST):
            raise ValueError("`columns` should be a number of columns")
        return _SocketMessage(tuple(arguments), Path(folder), out_tty, err_tty, columns, out_colour, err_colour)


class Visit:
    """One command that is answered: it runs in one thread, while another hears whether it is still wanted."""

    def __init__(self, line: Line, tag: str) -> None:
        self.line = line
        self._tag = tag
        self._over = False

    def serve(self, hello: Hello, answer: Callable[[Request], int]) -> None:
        self.line.send_json(Frame.HELLO, hello.record())
        received = self.line.receive()
        if received is None or received[0] is not Frame.REQUEST:
            return
        try:
            message = _SocketMessage.from_json(received[1])
        except ValueError as error:
            self._refuse(str(error))
            return
        stdin = Receiving(self.line)
        out = io.BufferedWriter(Sending(self.line, Frame.OUT), 1 << 16)
        err = io.BufferedWriter(Sending(self.line, Frame.ERR))
        streams = Streams(
            Text(io.BufferedReader(stdin), tty=False),
            Text(out, tty=message.out_tty, columns=message.columns, colour=message.out_colour),
            Text(err, tty=message.err_tty, by_line=True, columns=message.columns, colour=message.err_colour),
        )
        request = Request(message.arguments, message.folder, streams)
        worker = threading.Thread(target=self._work, args=(request, answer), name=self._tag, daemon=True)
        worker.start()
        while True:
            received = self.line.receive()
            if received is None:
                break
            if received[0] is Frame.IN:
                stdin.put(received[1])
        stdin.put(b"")
        if not self._over:
            self.cut_off()
        worker.join()

    def _refuse(self, why: str) -> None:
        """Answer what is no request: whoever sent it is told, and this process goes on."""
        log.info("not a request", reason=why)
        self.line.send(Frame.ERR, f"error not a request that this runner understands: {why}\n".encode())
        self.line.send_json(Frame.EXIT, {"code": 2})

    def cut_off(self) -> None:
        """Nobody waits for the answer any more: stop its query and its Spark jobs; what it writes goes nowhere."""
        cancel_thread(self._tag)
        from py4j.protocol import Py4JError
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        if context is not None and not self._over:
            with suppress(Py4JError, OSError):  # it has died
                context.cancelJobsWithTag(self._tag)
        self.line.close()

    def _work(self, request: Request, answer: Callable[[Request], int]) -> None:
        from py4j.protocol import Py4JError
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        if context is not None:
            with suppress(Py4JError, OSError):  # it has died: a command that needs it will say so
                context.addJobTag(self._tag)
                context.setInterruptOnCancel(True)
        code = 1
        try:
            code = answer(request)
            request.streams.stdout.flush()
            request.streams.stderr.flush()
        except OSError as error:
            log.info("nobody waited for the answer", arguments=request.arguments[:2], error=str(error))
        except Exception as caught:
            log.error("command failed", arguments=request.arguments[:2], exc_info=caught)
        self._over = True
        try:
            self.line.send_json(Frame.EXIT, {"code": code})
        except OSError:
            pass  # it has gone
        self.line.close()
