"""Tables for people: rows below one another where they fit, else each row by itself, a line a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, get_character_cell_size

from headwater.cli.style import styled
from headwater.cli.values import on_one_line, visible

GAP = "  "
FOLDED = 24
"""Columns that a text has at least, before it is folded; numbers and times never are."""


@dataclass(frozen=True)
class GridColumn:
    """A column of a table."""

    name: str
    right: bool = False
    """Numbers: their digits stand below one another."""
    whole: bool = False
    """Never folded."""


@dataclass(frozen=True)
class Cell:
    """A value as text, and its style."""

    text: str
    style: str = ""


Row = Sequence[Cell]


@dataclass(frozen=True)
class Grid:
    """Rows of cells, for a terminal of so many columns (None: a file or program, where nothing is folded)."""

    columns: Sequence[GridColumn]
    rows: Sequence[Row]
    width: int | None = None
    colour: bool = False

    def lines(self, *, vertical: bool | None = None) -> Iterator[str]:
        """As a table; vertically where that is asked for, or (None) the terminal is too narrow for it."""
        if vertical or (vertical is None and not self.fits()):
            return self._one_by_one()
        return self._below_one_another()

    def fits(self) -> bool:
        """Whether the table has room, with its longer texts folded."""
        return self.width is None or len(self.columns) < 2 or _across(self._least()) <= self.width

    @property
    def across(self) -> int:
        """Columns of a terminal that it takes with nothing folded."""
        return _across(self._natural())

    # --- below one another

    def _below_one_another(self) -> Iterator[str]:
        widths = self._widths()
        yield self._line([Cell(on_one_line(column.name), "bold") for column in self.columns], widths)
        for row in self.rows:
            folded = [_folded(on_one_line(cell.text), width) for cell, width in zip(row, widths, strict=True)]
            for number in range(max((len(lines) for lines in folded), default=0)):
                parts = [lines[number] if number < len(lines) else "" for lines in folded]
                yield self._line([Cell(text, cell.style) for text, cell in zip(parts, row, strict=True)], widths)

    def _line(self, cells: Sequence[Cell], widths: Sequence[int | None]) -> str:
        """Cells side by side; nothing stands behind the last character."""
        parts, blank = [], ""
        for cell, column, width in zip(cells, self.columns, widths, strict=True):
            missing = " " * max((width or 0) - cell_len(cell.text), 0)
            if column.right:
                blank += missing
            if cell.text:
                parts.append(blank + styled(cell.text, cell.style, colour=self.colour))
                blank = ""
            blank += GAP if column.right else missing + GAP
        return "".join(parts)

    def _natural(self) -> list[int]:
        texts = [[on_one_line(column.name)] for column in self.columns]
        for row in self.rows:
            for some, cell in zip(texts, row, strict=True):
                some.append(on_one_line(cell.text))
        return [max(map(cell_len, some)) for some in texts]

    def _least(self) -> list[int]:
        """How narrow each column may become."""
        return [
            natural if column.whole else min(natural, max(FOLDED, cell_len(on_one_line(column.name))))
            for column, natural in zip(self.columns, self._natural(), strict=True)
        ]

    def _widths(self) -> list[int | None]:
        """The widest columns give way until the rest has room."""
        found, least = self._natural(), self._least()
        while self.width is not None and len(found) > 1 and (over := _across(found) - self.width) > 0:
            loose = [at for at, width in enumerate(found) if width > least[at]]
            if not loose:
                break
            widest = max(loose, key=lambda at: found[at])
            next_one = max((found[at] for at in loose if at != widest), default=0)
            floor = max(least[widest], min(next_one, found[widest] - 1))
            found[widest] = max(floor, found[widest] - over)
        return [None, *found[1:]] if len(found) == 1 else list(found)

    # --- one by one

    def _one_by_one(self) -> Iterator[str]:
        for number, row in enumerate(self.rows, 1):
            if len(self.rows) > 1:
                title = f"── row {number} "
                rule = title + "─" * max(min(self.width or 40, 40) - len(title), 0)
                yield styled(rule, "dim", colour=self.colour)
            yield from described([column.name for column in self.columns], row, self.width, colour=self.colour)


def described(names: Sequence[str], values: Row, width: int | None, *, colour: bool) -> Iterator[str]:
    """Names, and their values behind them; what is longer goes on below itself."""
    names = [on_one_line(name) for name in names]
    indent = max(map(cell_len, names), default=0) + len(GAP)
    room = None if width is None else max(width - indent, FOLDED)
    for name, cell in zip(names, values, strict=True):
        lines = [part for line in visible(cell.text).expandtabs(4).split("\n") for part in _folded(line, room)]
        head = styled(name, "bold", colour=colour) + " " * (indent - cell_len(name))
        for line in lines:
            yield (head + styled(line, cell.style, colour=colour)).rstrip()
            head = " " * indent


def cut(text: str, width: int | None) -> str:
    """A text on one line, no longer than so many columns."""
    line = on_one_line(text)
    if width is None or cell_len(line) <= width:
        return line
    return _beginning(line, max(width - 1, 0)).rstrip() + "…"


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _folded(text: str, width: int | None) -> list[str]:
    """A text in lines of so many columns; between words where one of them begins in the second half of a line."""
    lines = []
    while width is not None and cell_len(text) > width:
        begun = _beginning(text, width)
        blank = begun.rfind(" ") if text[len(begun)] != " " else len(begun)
        end = blank if blank > len(begun) // 2 else len(begun)
        lines.append(text[:end])
        text = text[end:].removeprefix(" ")
    return [*lines, text]


def _beginning(text: str, width: int) -> str:
    """As much of a text as so many columns hold; at least a character."""
    taken = 0
    for at, character in enumerate(text):
        taken += get_character_cell_size(character)
        if taken > width and at > 0:
            return text[:at]
    return text
