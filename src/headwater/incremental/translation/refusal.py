"""What can't be kept incrementally."""

from __future__ import annotations

from sqlglot import exp

_SHOWN = 120


class NotIncremental(Exception):
    """A part of a query that has no operator, with the reason and what would help."""

    def __init__(self, reason: str, part: exp.Expr | None = None, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.part = "" if part is None else _short(part.sql(dialect="spark"))

    def message(self) -> str:
        """The reason, with the part of the query that it is about."""
        return f"{self.reason}: {self.part}" if self.part else self.reason


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
