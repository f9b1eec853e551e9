"""Who holds a flow: a process and its JVM, told apart from later ones with the same number by when they started."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headwater.core.errors import Code, TerminalError

ENDING = 15.0
"""Seconds that a killed process may take to be gone."""
_NAMESPACE = "/proc/self/ns/pid"


@dataclass(frozen=True)
class Holder:
    """A runner, by what it takes to find its processes again on its own machine."""

    host: str
    namespace: str
    """Containers on one machine number their processes each on their own."""
    pid: int
    started: float
    jvm_pid: int | None = None
    jvm_started: float | None = None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @staticmethod
    def here() -> Holder:
        """This process."""
        pid = os.getpid()
        return Holder(socket.gethostname(), _namespace(), pid, _started(pid) or 0.0)

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Holder:
        return Holder(**record)

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def with_jvm(self, pid: int | None) -> Holder:
        """The same with the process that its Spark runs in."""
        return self if pid is None else replace(self, jvm_pid=pid, jvm_started=_started(pid))

    @property
    def is_me(self) -> bool:
        return self.is_on_this_machine and self.pid == os.getpid() and self.is_alive

    @property
    def is_on_this_machine(self) -> bool:
        return self.host == socket.gethostname() and self.namespace == _namespace()

    @property
    def is_alive(self) -> bool:
        """Whether the process is there; only its own machine can tell."""
        return _is_there(self.pid, self.started)

    @property
    def has_no_jvm(self) -> bool:
        """It had one, and that has gone."""
        return self.jvm_pid is not None and not _is_there(self.jvm_pid, self.jvm_started or 0.0)

    def end(self) -> None:
        """Kill the runner and its JVM, if they are there: paused, they would wake up and write. Returns when gone."""
        _end(self.pid, self.started)
        self.end_jvm()

    def end_jvm(self) -> None:
        if self.jvm_pid is not None:
            _end(self.jvm_pid, self.jvm_started or 0.0)


def _end(pid: int, started: float) -> None:
    if not _is_there(pid, started):
        return
    import psutil  # loaded where a process is looked for: most commands find none

    try:
        psutil.Process(pid).kill()
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise TerminalError(
            Code.FLOW_HELD,
            f"process {pid} holds the flow and may not be ended by this user",
            hint="end it, or run as its owner",
        ) from error
    deadline = time.monotonic() + ENDING
    while _is_there(pid, started):
        if time.monotonic() > deadline:
            raise TerminalError(Code.FLOW_HELD, f"process {pid} was killed and does not end")
        time.sleep(0.02)


def _namespace() -> str:
    try:
        return os.readlink(_NAMESPACE)
    except OSError:  # not on every system
        return ""


def _started(pid: int) -> float | None:
    import psutil

    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def _is_there(pid: int, started: float) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        # A clock that was set makes the same process seem to have started a little earlier or later.
        return abs(process.create_time() - started) < 2.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
