"""Colour, and how wide what is printed may be: where that goes to a terminal, and nobody has asked for none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

_CODES: Mapping[str, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_WORDS: Mapping[str, str] = {
    # the states of flows
    "running": "green",
    "retrying": "yellow",
    "paused": "yellow",
    "failed": "red",
    "blocked": "red",
    "died": "red",
    # what becomes of relations
    "create": "green",
    "change": "yellow",
    "rebuild": "red",
    "reset": "red",
    "leave": "dim",
}
_OF_WORDS = frozenset({"state", "action"})
"""The columns whose words have colours; in others they are somebody's data."""
_OF_ERRORS = frozenset({"error"})

_USUAL = 80
"""Columns of a terminal that does not tell."""


def has_colour(stream: TextIO) -> bool:
    """Whether a stream ends at a terminal that shows colours, whose user wants them (https://no-color.org)."""
    told = getattr(stream, "colour", None)  # of a command that a runner answers: what its own terminal is like
    return bool(terminal_colour(stream) if told is None else told)


def terminal_colour(stream: TextIO) -> bool:
    """The same, of a stream of this process."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")


def width_of(stream: TextIO) -> int | None:
    """The columns of the terminal that a stream ends at; None where it is a file or a program."""
    if not stream.isatty():
        return None
    told = getattr(stream, "columns", None) or os.environ.get("COLUMNS")
    if told:
        return int(told) if str(told).isdecimal() else _USUAL
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    return _USUAL


def styled(text: str, style: str, *, colour: bool) -> str:
    """A text in a style: names of `_CODES` with blanks between them."""
    if not colour or not style or not text:
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def style_of(column: str, value: Any) -> str:
    """The style of a value in a table of ours."""
    if column in _OF_ERRORS:
        return "red"
    return _WORDS.get(value, "") if column in _OF_WORDS and isinstance(value, str) else ""


def say(text: str, style: str = "", *, stderr: bool = False) -> None:
    """A line on standard output, or standard error, in a style."""
    stream = sys.stderr if stderr else sys.stdout
    stream.write(styled(text, style, colour=has_colour(stream)) + "\n")
