"""How a command and the runner that answers it talk over a socket: frames of a letter, a length and bytes."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
from collections.abc import Mapping
from enum import Enum
from typing import Any

_HEAD = struct.Struct(">cI")
LARGEST = 1 << 20
"""Bytes in a frame at most."""


class Frame(Enum):
    """What a frame is, by its letter."""

    HELLO = b"H"
    """The runner: who it is."""
    REQUEST = b"R"
    """The command: its arguments, and where it stands."""
    OUT = b"O"
    ERR = b"E"
    WANT = b"W"
    """The runner: the command reads its standard input."""
    IN = b"I"
    """The command: some of it; empty at its end."""
    EXIT = b"X"
    """The runner: the exit code; the last frame."""


class Line:
    """One connection. Sending waits until the other side has room; several threads may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, frame: Frame, data: bytes = b"") -> None:
        """Raises OSError when the other side has gone."""
        with self._sending:
            for begin in range(0, max(len(data), 1), LARGEST):
                part = data[begin : begin + LARGEST]
                self._connection.sendall(_HEAD.pack(frame.value, len(part)) + part)

    def send_json(self, frame: Frame, value: Mapping[str, Any]) -> None:
        self.send(frame, json.dumps(value).encode())

    def receive(self) -> tuple[Frame, bytes] | None:
        """The next frame; None when the other side has gone."""
        head = self._exactly(_HEAD.size)
        if head is None:
            return None
        letter, length = _HEAD.unpack(head)
        if length > LARGEST:
            raise ValueError(f"a frame of {length} bytes")
        data = self._exactly(length)
        return None if data is None else (Frame(letter), data)

    def wait_at_most(self, seconds: float | None) -> None:
        self._connection.settimeout(seconds)

    def close(self) -> None:
        """Wakes up whoever waits on it."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was quicker
        self._connection.close()

    def _exactly(self, length: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self._connection.recv(min(length - len(parts), LARGEST))
            except TimeoutError:
                raise
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)


class Sending(io.RawIOBase):
    """What is written here comes out at the other end of the line."""

    def __init__(self, line: Line, frame: Frame) -> None:
        self._line = line
        self._frame = frame

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._line.send(self._frame, bytes(data))
        return len(data)


class Receiving(io.RawIOBase):
    """The command's standard input, which it sends once somebody reads it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._asked = False
        self._waiting = bytearray()
        self._ended = False
        self._came = threading.Condition()

    def readable(self) -> bool:
        return True

    def put(self, data: bytes) -> None:
        """Some more has come; nothing: it has ended."""
        with self._came:
            self._waiting += data
            self._ended = self._ended or not data
            self._came.notify_all()

    def readinto(self, buffer: Any) -> int:
        with self._came:
            if not self._asked:
                self._asked = True
                self._line.send(Frame.WANT)
            while not self._waiting and not self._ended:
                self._came.wait()
            count = min(len(buffer), len(self._waiting))
            buffer[:count] = self._waiting[:count]
            del self._waiting[:count]
            return count


class Text(io.TextIOWrapper):
    """A stream of the other end: whether it is a terminal, how wide, and in colour, is told by the command."""

    def __init__(
        self, buffer: Any, *, tty: bool, by_line: bool = False, columns: int | None = None, colour: bool = False
    ) -> None:
        super().__init__(buffer, encoding="utf-8", newline="", line_buffering=tty or by_line)
        self._tty = tty
        self.columns = columns
        self.colour = colour

    def isatty(self) -> bool:
        return self._tty
