"""A command at a terminal: a real pty, whose Ctrl-C goes to every process of the foreground, as a shell's does."""

from __future__ import annotations

import os
import pty
import signal
import threading
import time
from collections.abc import Callable, Sequence

CTRL_C = b"\x03"


class Terminal:
    """The command has the terminal to itself; `said` grows while it runs."""

    def __init__(self, command: Sequence[str]) -> None:
        self.said = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], list(command))
        self._status: int | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def until(self, met: Callable[[], object], seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while not met():
            assert self.poll() is None, f"ended with {self._status}: {self.said}"
            assert time.monotonic() < deadline, f"waited in vain: {self.said}"
            time.sleep(0.05)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self, seconds: float = 60) -> int:
        deadline = time.monotonic() + seconds
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"it has not ended: {self.said}"
            time.sleep(0.05)
        self._reader.join(5)
        return code

    def end(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        os.close(self._fd)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:  # the other side is closed
                return
            if not data:
                return
            self.said += data.decode("utf-8", errors="replace")
