"""Asks the runner that is up to run a command. Light: what the answer needs is loaded there already."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwater.cli.style import terminal_colour
from headwater.core.errors import HeadwaterError
from headwater.project.load.files import find_project
from headwater.runner.socket.address import Hello, socket_of
from headwater.runner.socket.frames import Frame, Line

PATIENCE = 2.0
"""Seconds that a runner may take to say who it is; a paused one never does."""
INTERRUPTED = 130
"""The exit code of what Ctrl-C has ended."""


def ask(arguments: Sequence[str]) -> int | None:
    """The exit code of the command as the runner ran it; None if there is no runner for it."""
    try:
        return _ask(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED  # the line has been closed, which tells the runner


def _ask(arguments: Sequence[str]) -> int | None:
    if "--watch" in arguments:
        return None  # it goes on when that runner has ended
    try:
        file = find_project(option(arguments, "--project") or ".")
    except HeadwaterError:
        return None
    place = socket_of(file)
    if place is None:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        line = Line(connection)
        try:
            line.wait_at_most(PATIENCE)
            connection.connect(str(place))
            first = line.receive()
            if first is None or first[0] is not Frame.HELLO:
                return None
            if not Hello.from_json(first[1]).fits(file, option(arguments, "--target"), arguments):
                return None
            line.wait_at_most(None)
            line.send_json(Frame.REQUEST, _request(arguments))
        except (OSError, ValueError, TypeError):
            return None  # not up, or not one that we know how to talk to
        try:
            return _listen(line)
        except BrokenPipeError:
            # Whoever read our output has had enough, as `head` does.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 0


def option(arguments: Sequence[str], name: str) -> str | None:
    """The value of an option, as far as that can be told without knowing the command."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.split("=", 1)[1]
    return None


def _request(arguments: Sequence[str]) -> dict[str, Any]:
    return {
        "arguments": list(arguments),
        "folder": str(Path.cwd()),
        "out_tty": sys.stdout.isatty(),
        "err_tty": sys.stderr.isatty(),
        "columns": shutil.get_terminal_size().columns,
        "out_colour": terminal_colour(sys.stdout),
        "err_colour": terminal_colour(sys.stderr),
    }


def _listen(line: Line) -> int:
    outlets = {Frame.OUT: sys.stdout, Frame.ERR: sys.stderr}
    while (received := line.receive()) is not None:
        frame, data = received
        if frame in outlets:
            _write(outlets[frame], data)
        elif frame is Frame.WANT:
            threading.Thread(target=_send_input, args=(line,), daemon=True).start()
        elif frame is Frame.EXIT:
            return int(json.loads(data)["code"])
    sys.stderr.write("error the runner that answered this command has ended; give the command again\n")
    return 1


def _write(outlet: Any, data: bytes) -> None:
    raw = getattr(outlet, "buffer", None)
    if raw is None:
        outlet.write(data.decode("utf-8", errors="replace"))
    else:
        raw.write(data)
        raw.flush()


def _send_input(line: Line) -> None:
    try:
        while data := os.read(sys.stdin.fileno(), 1 << 16):
            line.send(Frame.IN, data)
        line.send(Frame.IN)
    except (OSError, ValueError):
        pass  # the command is over
