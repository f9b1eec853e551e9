"""All rows at once taken away: a delete of every key that was there, remembered for those that come late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType

from headwater.spark.frames import column
from headwater.tables.apply.changes import sequence_text
from headwater.tables.apply.shape import AT, FROM, GONE, GONE_AT, SEQUENCE, TIE, UNSENT, Shape, no_names, order

TRUNCATED = "truncated"
"""Where the positions of a flow hold them."""
_FIRST, _MOMENT = "_hw_first", "_hw_moment"


@dataclass(frozen=True)
class Truncation:
    """One of them, as a position holds it; `at` is in microseconds since 1970."""

    sequence: str | None
    tie: str | None
    at: int | None

    def to_json(self) -> list[Any]:
        return [self.sequence, self.tie, self.at]

    def column(self, sequence: DataType) -> Column:
        at = F.timestamp_micros(F.lit(self.at).cast("bigint"))
        tie = F.lit(self.tie).cast(StringType())
        return F.struct(F.lit(self.sequence).cast(sequence).alias(SEQUENCE), tie.alias(TIE), at.alias(AT))


def remembered(positions: Any) -> list[Truncation]:
    return [Truncation(*one) for one in positions.get(TRUNCATED, [])]


def collected(truncations: DataFrame) -> list[Truncation]:
    """The truncations of a range, the oldest first."""
    at = F.unix_micros(column(AT))
    rows = truncations.orderBy(column(SEQUENCE), column(TIE)).select(sequence_text(), column(TIE), at).collect()
    return [Truncation(*row) for row in rows]


def noted(known: Sequence[Truncation], truncations: DataFrame, shape: Shape) -> list[Truncation]:
    """What is remembered after a range with these. A history ends the states before each of them, whenever those come.
    Of the latest state the newest is enough: what came before an older one came before it too."""
    new = collected(truncations)
    if shape.history or not new or any(one.sequence is None for one in new):
        return [*known, *new]
    every = [*known, new[-1]]
    numbered = (F.struct(one.column(shape.sequence), F.lit(at)) for at, one in enumerate(every))
    row = truncations.sparkSession.range(1).select(F.array_max(F.array(*numbered)).getField("col2")).first()
    assert row is not None
    return [every[row[0]]]


def deletes(changes: DataFrame, stored: DataFrame | None, shape: Shape, moments: Sequence[Truncation]) -> DataFrame:
    """The deletes of the keys that had a row before them: of each of them in a history, else of the last."""
    seen = changes.select(*map(column, shape.keys), order().alias(_FIRST))
    if stored is not None:
        there = stored if shape.history else stored.where(column(GONE_AT).isNull())
        seen = seen.unionByName(there.select(*map(column, shape.keys), order().alias(_FIRST)))
    first = seen.groupBy(*map(column, shape.keys)).agg(F.min(column(_FIRST)).alias(_FIRST))
    sequences = F.array(*(one.column(shape.sequence) for one in moments))
    each = F.explode(sequences) if shape.history else F.array_max(sequences)
    hit = first.select(*map(column, (*shape.keys, _FIRST)), each.alias(_MOMENT))
    hit = hit.where(
        column(_FIRST) < F.struct(*(column(_MOMENT).getField(name).alias(name) for name in (SEQUENCE, TIE)))
    )
    return hit.select(
        *map(column, shape.keys),
        *(F.lit(None).cast(shape.columns[name].dataType).alias(name) for name in shape.values),
        *(column(_MOMENT).getField(name).alias(name) for name in (SEQUENCE, TIE, AT)),
        F.lit(True).alias(GONE),
        (F.array(*map(F.lit, shape.values)) if shape.soft else no_names()).alias(UNSENT),
        F.lit(None).cast(StructType([shape.columns[key] for key in shape.keys])).alias(FROM),
    )
