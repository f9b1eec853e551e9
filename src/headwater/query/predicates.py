"""Conditions on stored columns, and whether a file or row group can hold a row that meets them.

What is known of a column are bounds, not values: an answer of False is certain, True means 'maybe'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headwater.core.quotes import single_quoted

Column = Any
"""What stands for a stored column: anything that can be compared."""


@dataclass(frozen=True)
class Bounds:
    """What is known of a column's values in some rows; None: not known."""

    min: Any = None
    max: Any = None
    nulls: int | None = None
    rows: int | None = None
    distinct: int | None = None
    """How many values are expected; it rules nothing out."""

    @property
    def all_null(self) -> bool:
        return self.nulls is not None and self.nulls == self.rows

    @property
    def no_null(self) -> bool:
        return self.nulls == 0


class Predicate:
    """A condition of which at least this much must hold."""


@dataclass(frozen=True)
class Anything(Predicate):
    """A condition of which nothing is known."""


@dataclass(frozen=True)
class Compare(Predicate):
    column: Column
    op: str
    """One of = != < <= > >=."""
    value: Any


@dataclass(frozen=True)
class OneOf(Predicate):
    column: Column
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Prefix(Predicate):
    column: Column
    prefix: str


@dataclass(frozen=True)
class IsNull(Predicate):
    column: Column


@dataclass(frozen=True)
class Not(Predicate):
    inner: Predicate


@dataclass(frozen=True)
class And(Predicate):
    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or(Predicate):
    parts: tuple[Predicate, ...]


Known = Callable[[Column], "Bounds | None"]

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def columns(predicate: Predicate) -> Iterator[Column]:
    """The stored columns that a condition speaks of."""
    if isinstance(predicate, (And, Or)):
        for part in predicate.parts:
            yield from columns(part)
    elif isinstance(predicate, Not):
        yield from columns(predicate.inner)
    elif isinstance(predicate, (Compare, OneOf, Prefix, IsNull)):
        yield predicate.column


def may_hold(predicate: Predicate, known: Known, *, negated: bool = False) -> bool:
    """Whether some row within these bounds can meet the condition (or, negated, fail it for certain)."""
    if isinstance(predicate, Not):
        return may_hold(predicate.inner, known, negated=not negated)
    if isinstance(predicate, (And, Or)):
        every = isinstance(predicate, And) != negated
        return (all if every else any)(may_hold(part, known, negated=negated) for part in predicate.parts)
    if isinstance(predicate, Anything):
        return True
    column = next(columns(predicate))
    bounds = known(column)
    if bounds is None:
        return True
    if isinstance(predicate, IsNull):
        return not bounds.all_null if negated else not bounds.no_null
    if bounds.all_null:
        return False  # a comparison with NULL is neither true nor false
    if isinstance(predicate, Compare):
        op = _OPPOSITE[predicate.op] if negated else predicate.op
        return _compare(op, predicate.value, bounds)
    if isinstance(predicate, OneOf):
        if negated:
            return all(_compare("!=", value, bounds) for value in predicate.values)
        return any(_compare("=", value, bounds) for value in predicate.values)
    if isinstance(predicate, Prefix):
        return _prefix(predicate.prefix, bounds, negated)
    return True


def _compare(op: str, value: Any, bounds: Bounds) -> bool:
    low, high = bounds.min, bounds.max
    if value is None:
        return False
    if isinstance(low, float) or isinstance(high, float) or isinstance(value, float):
        # NaN is above every number, and writers leave it out of their bounds.
        high = None if high is None or op in (">", ">=", "!=") or math.isnan(high) else high
        low = None if low is None or op == "!=" or math.isnan(low) else low
        if math.isnan(value):
            return True
    try:
        if op == "=":
            return (low is None or low <= value) and (high is None or high >= value)
        if op == "!=":
            return low is None or high is None or not (low == value == high)
        if op in ("<", "<="):
            return low is None or low < value or (op == "<=" and low == value)
        return high is None or high > value or (op == ">=" and high == value)
    except TypeError:  # bounds of another type than the column has now
        return True


def _prefix(prefix: str, bounds: Bounds, negated: bool) -> bool:
    low, high = bounds.min, bounds.max
    if negated:
        both = isinstance(low, str) and isinstance(high, str) and low.startswith(prefix) and high.startswith(prefix)
        return not both
    # Every text with the prefix sorts at or after it, and before what follows its last character.
    if isinstance(high, str) and high.encode() < prefix.encode():
        return False
    return not (isinstance(low, str) and low.encode() > prefix.encode() and not low.startswith(prefix))


def describe(predicate: Predicate, name: Callable[[Column], str]) -> str:
    """The condition in a line, for people."""
    if isinstance(predicate, (And, Or)):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(describe(part, name) for part in predicate.parts) + ")"
    if isinstance(predicate, Not):
        return f"NOT {describe(predicate.inner, name)}"
    if isinstance(predicate, Compare):
        return f"{name(predicate.column)} {predicate.op} {_shown(predicate.value)}"
    if isinstance(predicate, OneOf):
        return f"{name(predicate.column)} IN ({', '.join(map(_shown, predicate.values))})"
    if isinstance(predicate, Prefix):
        return f"{name(predicate.column)} LIKE {_shown(predicate.prefix + '%')}"
    if isinstance(predicate, IsNull):
        return f"{name(predicate.column)} IS NULL"
    return "…"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return single_quoted(value)
    return f"'{value.isoformat()}'" if isinstance(value, datetime) else str(value)
