"""All states of every key with their validity (SCD 2): changes of a step and stored rows → rows to write.

Every change is a stored row, told by its key and sequence: also a delete, and a state that was over in the moment it
began; those are hidden. So a late change is put in its place whatever came before it.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater.formats.frames import column
from headwater.tables.apply.shape import AT, CURRENT, FIRST, GONE, LAST, SEQUENCE, TIE, UNSENT, Shape

_IS_STORED = "stored"
_KEPT = ("kept_from", "kept_to")


def history(changes: DataFrame, stored: DataFrame | None, shape: Shape) -> DataFrame:
    """The rows that are new or differ from what is stored."""
    every = _every_change(changes, stored, shape)
    keys = [column(key) for key in shape.keys]
    twins = Window.partitionBy(*keys, column(SEQUENCE)).orderBy(column(TIE).desc(), column(_IS_STORED).desc())
    every = every.withColumn("twin", F.row_number().over(twins)).where("twin = 1").drop("twin")
    in_order = Window.partitionBy(*keys).orderBy(column(SEQUENCE))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # Clocks may go back where sequences don't: no state begins before the one it follows.
    every = every.withColumn(FIRST, F.max(column(AT)).over(so_far))
    filled = {name: _filled(name, shape).over(so_far).getField("value") for name in shape.values}
    if not shape.by_column:
        filled = {name: column(name) for name in shape.values}
    rows = every.select(
        *keys,
        *(value.alias(name) for name, value in filled.items()),
        column(FIRST),
        F.lead(column(FIRST)).over(in_order).alias(LAST),
        *map(column, (SEQUENCE, TIE, AT, GONE)),
        *([column(UNSENT)] if shape.by_column else []),
        *map(column, (_IS_STORED, *_KEPT)),
        *(column(name).alias(f"_hw_kept_{at}") for at, name in enumerate(shape.comparable())),
    )
    rows = rows.withColumn(CURRENT, column(LAST).isNull() & ~column(GONE))
    return rows.where(~column(_IS_STORED) | _differs(shape)).select(*map(column, shape.stored.names))


def _every_change(changes: DataFrame, stored: DataFrame | None, shape: Shape) -> DataFrame:
    nothing = F.lit(None).cast("timestamp")
    names = [*shape.columns.names, SEQUENCE, TIE, AT, GONE, *([UNSENT] if shape.by_column else [])]
    every = changes.select(
        *map(column, names), F.lit(False).alias(_IS_STORED), *(nothing.alias(name) for name in _KEPT)
    )
    if stored is None:
        return every
    kept = [column(FIRST).alias(_KEPT[0]), column(LAST).alias(_KEPT[1])]
    return every.unionByName(stored.select(*map(column, names), F.lit(True).alias(_IS_STORED), *kept))


def _filled(name: str, shape: Shape) -> Column:
    """The newest value that was sent; a stored one that was filled in before is not."""
    sent = ~F.coalesce(F.array_contains(UNSENT, name), F.lit(False)) if shape.by_column else F.lit(True)
    return F.last(F.when(sent, F.struct(column(name).alias("value"))), ignorenulls=True)


def _differs(shape: Shape) -> Column:
    pairs = [(FIRST, _KEPT[0]), (LAST, _KEPT[1])]
    if shape.by_column:
        pairs += [(name, f"_hw_kept_{at}") for at, name in enumerate(shape.comparable())]
    return reduce(lambda a, b: a | b, (~column(new).eqNullSafe(column(old)) for new, old in pairs))
