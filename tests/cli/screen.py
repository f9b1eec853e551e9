"""What is printed at a real terminal of a certain width, and where there is none. In this process: the standard streams
are put on a terminal's end."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from rich.cells import cell_len

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
WEIRD = "日本語👍 a\x1b[31mb\x07\nc\td"
"""Wide characters, an escape sequence, a bell, an end of a line, a tab."""


@dataclass(frozen=True)
class Shown:
    """What came out."""

    out: str
    """As it stands there, with colours."""
    err: str = ""

    @property
    def lines(self) -> list[str]:
        """Without colours."""
        return ESCAPES.sub("", self.out).splitlines()

    @property
    def widest(self) -> int:
        return max(map(cell_len, self.lines), default=0)

    @property
    def has_colour(self) -> bool:
        return bool(ESCAPES.search(self.out + self.err))


def on_terminal(show: Callable[[], object], columns: int, *, both: bool = False, **env: str) -> Shown:
    """Standard output is a terminal; standard error is none, unless `both`."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    parts: list[bytes] = []
    reader = threading.Thread(target=_read, args=(terminal, parts))
    reader.start()
    err = io.StringIO()
    with os.fdopen(end, "w", encoding="utf-8") as out:
        with (
            _environment(**{"TERM": "xterm-256color", **env}),
            redirect_stdout(out),
            redirect_stderr(out if both else err),
        ):
            show()
    reader.join()
    os.close(terminal)
    return Shown(b"".join(parts).decode().replace("\r\n", "\n"), err.getvalue())


def in_pipe(show: Callable[[], object]) -> Shown:
    """Both streams go to a program."""
    out, err = io.StringIO(), io.StringIO()
    with _environment(TERM="xterm-256color"), redirect_stdout(out), redirect_stderr(err):
        show()
    return Shown(out.getvalue(), err.getvalue())


def _environment(**env: str) -> patch.dict:  # type: ignore[name-defined]
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR", "TERM")}
    return patch.dict(os.environ, {**kept, **env}, clear=True)


def _read(terminal: int, parts: list[bytes]) -> None:
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the other side is closed
            return
        if not data:
            return
        parts.append(data)
