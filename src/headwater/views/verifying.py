"""The proof that a view equals its query at the versions that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from headwater.changes.following import States
from headwater.changes.operator import Moment
from headwater.formats.frames import column, has_map
from headwater.views.flow import ViewFlow
from headwater.warehouse import shown

DIGITS = 12
"""Sums of doubles depend on the order of their rows: they are the same if they agree so far."""
_SURPLUS, _STORED = "surplus", "stored"


@dataclass(frozen=True)
class Verified:
    """What the comparison has found."""

    view: str
    equal: bool
    rows: int
    missing: int
    """Rows of the query that the view lacks."""
    unexpected: int
    """Rows of the view that are not in the query."""
    watermarks: dict[str, Any]
    examples: list[dict[str, Any]] = field(default_factory=list)
    """Some of them, with `_difference`: missing or unexpected."""


def verify(flow: ViewFlow, limit: int = 20) -> Verified:
    """Compare a view with its query at the recorded versions, in both directions, duplicates and all, in one pass."""
    refresher = flow.refresher
    start = flow.recorded()
    made = refresher.compiled(start)
    states = States(refresher.asked.relations, start, start)
    for name in refresher.asked.relations:
        states.rows(name, Moment.NEW).createOrReplaceTempView(name)
    expected = _comparable(refresher.spark.sql(refresher.asked.text).select(*map(column, made.columns)))
    compared = _counted(expected, _comparable(shown(refresher.table.read(), made.rows)))
    surplus = F.col(_SURPLUS)
    totals = compared.agg(F.sum(_STORED), *(F.sum(F.greatest(n, F.lit(0))) for n in (surplus, -surplus))).collect()[0]
    rows, missing, unexpected = (int(total or 0) for total in totals)
    examples = [
        {"_difference": what, **row}
        for what, count, differs in (("missing", missing, surplus > 0), ("unexpected", unexpected, surplus < 0))
        for row in (_some(compared.where(differs), made.columns, limit) if count else ())
    ]
    watermarks = {label: place.version for label, place in start.items()}
    return Verified(flow.name, missing == unexpected == 0, rows, missing, unexpected, watermarks, examples)


def _counted(expected: DataFrame, actual: DataFrame) -> DataFrame:
    """Each row that either has, once, its columns numbered: how many more of it are expected, and how many stored."""
    numbered = [str(n) for n in range(len(expected.columns))]
    sides = ((expected, 1, 0), (actual, -1, 1))
    one, other = (
        df.toDF(*numbered).withColumns({_SURPLUS: F.lit(surplus), _STORED: F.lit(stored)})
        for df, surplus, stored in sides
    )
    return one.union(other).groupBy(*numbered).agg(*(F.sum(name).alias(name) for name in (_SURPLUS, _STORED)))


def _some(differing: DataFrame, columns: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """Some of the rows that one side has more of, each as often as it has more."""
    found: list[dict[str, Any]] = []
    for row in differing.limit(limit).collect():
        told = row.asDict(recursive=True)
        found += [{name: told[str(n)] for n, name in enumerate(columns)}] * abs(told[_SURPLUS])
    return found[:limit]


def _comparable(df: DataFrame) -> DataFrame:
    # With metadata of its own a column is no session_window to Spark, which would merge what it compares.
    return df.select(*(_rounded(df, f.name).alias(f.name, metadata={"compared": True}) for f in df.schema.fields))


def _rounded(df: DataFrame, name: str) -> Column:
    data_type = df.schema[name].dataType
    if isinstance(data_type, (DoubleType, FloatType)):
        return F.format_string(f"%.{DIGITS}g", column(name).cast("double"))
    if has_map(data_type):
        return F.to_json(column(name))
    return column(name)
