"""The proof that a view equals its query at the versions that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.core.model import Row, Version
from headwater.core.record import Record
from headwater.schema.types import has_map
from headwater.spark.frames import column
from headwater.views.doubles import DIGITS, Leftover, Paired, floating, magnitudes
from headwater.views.flow import ViewFlow
from headwater.warehouse import shown

_SURPLUS, _STORED = "surplus", "stored"
PAIRED = 100_000
"""Rows that differ up to which they are looked at for sums of doubles that differ by rounding alone."""


@dataclass(frozen=True)
class Verified(Record):
    """What the comparison has found."""

    view: str
    equal: bool
    rows: int
    missing: int
    """Rows of the query that the view lacks."""
    unexpected: int
    """Rows of the view that are not in the query."""
    watermarks: Mapping[str, Version | None]
    """The version of each source that it names."""
    examples: tuple[Row, ...] = ()
    """Some of them, with `_difference`: missing or unexpected."""


def verify(flow: ViewFlow, limit: int = 20) -> Verified:
    """Compare a view with its query at the recorded versions, in both directions, duplicates and all."""
    refresher = flow.refresher
    start = flow.recorded()
    made = refresher.compiled(start)
    refresher.view_query.put(start, refresher.notes.columns())
    expected = refresher.spark.sql(refresher.view_query.text).select(*map(column, made.columns))
    floats = floating(expected.schema)
    compared = _counted(expected, shown(refresher.table.read(), made.rows), list(floats))
    surplus = F.col(_SURPLUS)
    totals = compared.agg(F.sum(_STORED), *(F.sum(F.greatest(n, F.lit(0))) for n in (surplus, -surplus))).collect()[0]
    rows, missing, unexpected = (int(total or 0) for total in totals)
    different: list[Leftover] = []
    if floats and missing and unexpected and missing + unexpected <= PAIRED:
        paired = Paired(made.columns, floats, [_leftover(row) for row in compared.where(surplus != 0).collect()])
        if paired.left:
            paired.widen(magnitudes(refresher.spark, refresher.view_query.text, made.columns))
        different = paired.left
        missing, unexpected = (sum(max(0, sign * one.surplus) for one in different) for sign in (1, -1))
    else:
        for count, differs in ((missing, surplus > 0), (unexpected, surplus < 0)):
            different += map(_leftover, compared.where(differs).limit(limit).collect()) if count else ()
    examples = (
        *_described(made.columns, [one for one in different if one.surplus > 0], "missing", limit),
        *_described(made.columns, [one for one in different if one.surplus < 0], "unexpected", limit),
    )
    watermarks = {label: version.version for label, version in start.items()}
    return Verified(flow.name, missing == unexpected == 0, rows, missing, unexpected, watermarks, examples)


def _counted(expected: DataFrame, actual: DataFrame, floats: list[int]) -> DataFrame:
    """Each row that either has, once, its columns numbered: how many more of it are expected, and how many stored.
    Doubles are told apart by some digits, and given in full alongside them."""
    numbered = [str(n) for n in range(len(expected.columns))]
    one, other = (
        _numbered(df, floats).withColumns({_SURPLUS: F.lit(surplus), _STORED: F.lit(stored)})
        for df, surplus, stored in ((expected, 1, 0), (actual, -1, 1))
    )
    counts = (F.sum(name).alias(name) for name in (_SURPLUS, _STORED))
    return one.union(other).groupBy(*numbered).agg(*counts, *(F.max(_full(n)).alias(_full(n)) for n in floats))


def _numbered(df: DataFrame, floats: list[int]) -> DataFrame:
    # With metadata of its own a column is no session_window to Spark, which would merge what it compares.
    names = df.columns
    compared = (_compared(df, n).alias(str(n), metadata={"compared": True}) for n in range(len(names)))
    return df.select(*compared, *(_plain(names[n]).alias(_full(n)) for n in floats))


def _compared(df: DataFrame, n: int) -> Column:
    name = df.columns[n]
    if n in floating(df.schema):
        return F.format_string(f"%.{DIGITS}g", _plain(name))
    return F.to_json(column(name)) if has_map(df.schema[name].dataType) else column(name)


def _plain(name: str) -> Column:
    """A double, where the two zeros are one."""
    value = column(name).cast("double")
    return F.when(value == 0, F.lit(0.0)).otherwise(value)


def _full(n: int) -> str:
    return f"full {n}"


def _leftover(row: Any) -> Leftover:
    fields = row.asDict(recursive=True)
    surplus = int(fields.pop(_SURPLUS))
    del fields[_STORED]
    values = {int(name): value for name, value in fields.items() if name.isdecimal()}
    values |= {int(name.split()[1]): value for name, value in fields.items() if not name.isdecimal()}
    return Leftover(tuple(values[n] for n in range(len(values))), surplus)


def _described(columns: list[str], rows: list[Leftover], what: str, limit: int) -> list[Row]:
    """Some of the rows that one side has more of, each as often as it has more."""
    differences: list[Row] = []
    for one in rows:
        differences += [{"_difference": what, **dict(zip(columns, one.values, strict=True))}] * min(
            abs(one.surplus), limit
        )
        if len(differences) >= limit:
            break
    return differences[:limit]
