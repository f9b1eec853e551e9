"""Dead letters as people read them: a line each, and once what can be done about all that failed alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headwater.cli.grids import Cell, Grid, GridColumn, cut
from headwater.cli.output import note, print_lines
from headwater.cli.style import has_colour, width_of
from headwater.cli.values import shown
from headwater.core.model import HINT_MARK, OLDER_HINT_MARK

ID = 8
"""As much of an id as tells dead letters apart; `dlq show` finds them by it."""
LEAST = 30
"""Columns of a terminal that a message has at least; positions are left out for it."""


def show_letters(dead_letters: Sequence[Mapping[str, Any]]) -> None:
    """A line a letter on standard output, a line a reason and hint on standard error."""
    width = width_of(sys.stdout)
    grid = _grid(dead_letters, width, position=True)
    if not grid.fits():
        grid = _grid(dead_letters, width, position=False)
    print_lines(grid.lines(vertical=False))
    sys.stdout.flush()
    for text in hints_of(dead_letters):
        note(text)


def hints_of(dead_letters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What can be done, once for all that have the same reason and hint."""
    counts: dict[tuple[str, str], int] = {}
    for letter in dead_letters:
        hint = _message_and_hint(letter)[1]
        if hint:
            counts[str(letter["reason"]), hint] = counts.get((str(letter["reason"]), hint), 0) + 1
    for (reason, hint), count in counts.items():
        yield f"{reason} ({count}): {hint}"


def _grid(dead_letters: Sequence[Mapping[str, Any]], width: int | None, *, position: bool) -> Grid:
    """Its last column, the message, takes the room that is left, and is cut there."""
    names = ["id", "at", "topic", "reason", *(["position"] if position else []), "message"]
    rows = [[_text(name, letter) for name in names] for letter in dead_letters]
    room = None
    if width is not None:
        others = Grid([GridColumn(name) for name in names[:-1]], [[Cell(text) for text in row[:-1]] for row in rows])
        room = max(width - others.across - 2, LEAST)
    cells = [[*(Cell(text) for text in row[:-1]), Cell(cut(row[-1], room))] for row in rows]
    return Grid([GridColumn(name, whole=True) for name in names], cells, width, has_colour(sys.stdout))


def _text(name: str, letter: Mapping[str, Any]) -> str:
    value = letter[name]
    if name == "id":
        return str(value)[:ID]
    if name == "message":
        return _message_and_hint(letter)[0]
    return shown(value.replace(microsecond=0)) if isinstance(value, datetime) else shown(value)


def _message_and_hint(letter: Mapping[str, Any]) -> tuple[str, str]:
    text = str(letter["message"] or "")
    message, _, hint = text.partition(HINT_MARK if HINT_MARK in text else OLDER_HINT_MARK)
    return message, hint
