"""Sums of doubles depend on the order of their rows: which differences are rounding, and which are not."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, FloatType, StructType
from sqlglot import exp

from headwater.spark.frames import column
from headwater.sql.dialect import Headwater

DIGITS = 12
"""Digits that the same double has in both."""
NOISE = 64 * 2.0**-52
"""What rounding can make of a sum, for each unit of what its values would add up to without their signs."""

Magnitudes = Mapping[str, Mapping[int, float]]
"""Per row, by its other columns: how large a sum's values are together, by the column's number."""


@dataclass(frozen=True)
class Leftover:
    """A row that one side has more of; `surplus`: so many more are expected, or fewer."""

    values: tuple[Any, ...]
    surplus: int


def floating(schema: StructType) -> dict[int, float]:
    """The numbers of the columns with doubles or floats, and how far two of the same differ, relatively."""
    return {
        n: 10.0 ** (1 - DIGITS) if isinstance(f.dataType, DoubleType) else 2.0**-22
        for n, f in enumerate(schema.fields)
        if isinstance(f.dataType, (DoubleType, FloatType))
    }


class Paired:
    """Rows that differ: those that are the same but for the rounding of their doubles go in pairs."""

    def __init__(self, columns: Sequence[str], floats: Mapping[int, float], rows: Sequence[Leftover]) -> None:
        self._columns = columns
        self._floats = floats
        self.left = list(rows)
        self.widen({})

    def widen(self, magnitudes: Magnitudes) -> None:
        """Pair what is left by knowing how large the values were that sums near zero are made of."""
        groups: defaultdict[str, list[Leftover]] = defaultdict(list)
        for row in self.left:
            groups[_rest(row.values, self._floats)].append(row)
        self.left = [one for rest, rows in groups.items() for one in self._matched(rows, magnitudes.get(rest, {}))]

    def _matched(self, rows: list[Leftover], scale: Mapping[int, float]) -> list[Leftover]:
        first, relative = next(iter(self._floats.items()))
        fewer = sorted((row for row in rows if row.surplus < 0), key=lambda row: _place(row.values[first]))
        places = [_place(row.values[first]) for row in fewer]
        left = []
        for row in rows:
            if row.surplus < 0:
                continue
            place = _place(row.values[first])
            width = 2 * (relative * abs(place) + NOISE * scale.get(first, 0.0)) if math.isfinite(place) else 0.0
            for at in range(bisect_left(places, place - width), bisect_right(places, place + width)):
                other = fewer[at]
                if row.surplus and other.surplus and self._same(row, other, scale):
                    both = min(row.surplus, -other.surplus)
                    row = replace(row, surplus=row.surplus - both)
                    fewer[at] = replace(other, surplus=other.surplus + both)
            left.append(row)
        return [row for row in (*left, *fewer) if row.surplus]

    def _same(self, one: Leftover, other: Leftover, scale: Mapping[int, float]) -> bool:
        return all(
            _near(one.values[n], other.values[n], relative, NOISE * scale.get(n, 0.0))
            for n, relative in self._floats.items()
        )


def magnitudes(spark: SparkSession, text: str, columns: Sequence[str]) -> Magnitudes:
    """A query's sums without the signs of their values: what their rounding is measured by. Empty where none is."""
    query = sqlglot.parse_one(text, dialect=Headwater)
    if query.find(*_SUMS) is None:
        return {}
    try:
        frame = spark.sql(query.transform(_unsigned).sql(dialect=Headwater)).select(*map(column, columns))
        floats = floating(frame.schema)
        rows = frame.collect()
    except PySparkException:
        return {}  # then all that differs is told
    largest_of: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        largest = largest_of[_rest(tuple(row.asDict(recursive=True).values()), floats)]
        for n in floats:
            value = abs(row[n] or 0.0)
            if math.isfinite(value):
                largest[n] = max(value, largest.get(n, 0.0))
    return largest_of


_SUMS = (exp.Sum, exp.Avg)


def _unsigned(node: exp.Expr) -> exp.Expr:
    if isinstance(node, _SUMS) and not isinstance(node.this, (exp.Abs, exp.Distinct)):
        return type(node)(this=exp.Abs(this=node.this.transform(_unsigned)))
    if isinstance(node, exp.Sub) and node.find(*_SUMS) is not None:
        return exp.Add(this=node.this.transform(_unsigned), expression=node.expression.transform(_unsigned))
    return node


def _rest(values: Sequence[Any], floats: Mapping[int, float]) -> str:
    """All but the doubles of a row."""
    return repr([value for n, value in enumerate(values) if n not in floats])


def _place(value: float | None) -> float:
    """Where a value is in their order."""
    return -math.inf if value is None else math.inf if math.isnan(value) else value


def _near(one: float | None, other: float | None, relative: float, absolute: float) -> bool:
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or math.isclose(one, other, rel_tol=relative, abs_tol=absolute)
