"""Rows that got another key, and values that were not sent with that: they stand under the old key."""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.spark.frames import column
from headwater.tables.apply.shape import FROM, SEQUENCE, TIE, UNSENT, Shape, no_names, order

_BEFORE, _FROM_KEY, _MOVED = "_hw_before", "_hw_from_key", "_hw_moved"


def with_moved_values(changes: DataFrame, stored: DataFrame | None, shape: Shape, held: ExitStack) -> DataFrame:
    """The changes with the values that moved along. A row that moved on within the step takes a round more."""
    while True:
        open_ = changes.where(is_open())
        earlier = open_.select(*(column(k).alias(_to(k)) for k in shape.keys), order().alias(_BEFORE))
        waits = _all([column(FROM).getField(k) == column(_to(k)) for k in shape.keys])
        ready = open_.join(earlier, waits & (column(_BEFORE) < order()), "left_anti")
        if ready.isEmpty():
            return changes
        changes = _taken_along(changes, ready, stored, shape).persist()
        held.callback(changes.unpersist)


def is_open() -> Column:
    return column(FROM).isNotNull() & (F.size(UNSENT) > 0)


def _taken_along(changes: DataFrame, ready: DataFrame, stored: DataFrame | None, shape: Shape) -> DataFrame:
    """The newest values under the old key before the row left it."""
    names = [*map(column, shape.columns.names), column(SEQUENCE), column(TIE)]
    written = changes.select(*names, column(UNSENT))
    if stored is not None:
        written = written.unionByName(stored.select(*names, no_names().alias(UNSENT)))
    moved = ready.select(
        *(column(k).alias(_to(k)) for k in shape.keys),
        column(FROM).alias(_FROM_KEY),
        order().alias(_MOVED),
    )
    under = _all([column(_FROM_KEY).getField(k) == column(k) for k in shape.keys])
    to = [column(_to(k)) for k in shape.keys]
    rows = (
        moved.join(written, under & (order() < column(_MOVED)), "left")
        .groupBy(*to, column(_MOVED))
        .agg(*(_newest(name).alias(f"_hw_moved_{at}") for at, name in enumerate(shape.values)))
    )
    same = _all([column(k) == column(_to(k)) for k in shape.keys]) & order().eqNullSafe(column(_MOVED))
    joined = changes.join(rows, same & is_open(), "left")
    here = column(_MOVED).isNotNull()
    values = [
        F.when(here & F.array_contains(UNSENT, name), F.col(f"_hw_moved_{at}")).otherwise(column(name)).alias(name)
        for at, name in enumerate(shape.values)
    ]
    rest = [name for name in changes.columns if name not in (*shape.columns.names, UNSENT, FROM)]
    return joined.select(
        *map(column, shape.keys),
        *values,
        *map(column, rest),
        F.when(here, no_names()).otherwise(column(UNSENT)).alias(UNSENT),
        F.when(~here, column(FROM)).alias(FROM),
    )


def _newest(name: str) -> Column:
    return F.max_by(column(name), F.when(~F.array_contains(UNSENT, name), order()))


def _to(key: str) -> str:
    """The name of a key that a row has moved to, alongside the one that it had."""
    return f"_hw_to_{key}"


def _all(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions)
