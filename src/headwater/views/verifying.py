"""The proof that a view equals its query at the versions that it names."""

from __future__ import annotations

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
    """Compare a view with its query at the recorded versions, in both directions, duplicates and all."""
    refresher = flow.refresher
    start = flow.recorded()
    made = refresher.compiled(start)
    states = States(refresher.asked.relations, start, start)
    for name in refresher.asked.relations:
        states.rows(name, Moment.NEW).createOrReplaceTempView(name)
    expected = _comparable(refresher.spark.sql(refresher.asked.text).select(*map(column, made.columns)))
    stored = refresher.table.read()
    actual = _comparable(shown(stored, made.rows)).persist()
    try:
        missing, unexpected = expected.exceptAll(actual).persist(), actual.exceptAll(expected).persist()
        counts = (actual.count(), missing.count(), unexpected.count())
        examples = [
            {"_difference": what, **row.asDict(recursive=True)}
            for what, df in (("missing", missing), ("unexpected", unexpected))
            for row in df.limit(limit).collect()
        ]
        missing.unpersist()
        unexpected.unpersist()
    finally:
        actual.unpersist()
    watermarks = {label: place.version for label, place in start.items()}
    return Verified(flow.name, counts[1] == counts[2] == 0, *counts, watermarks, examples)


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
