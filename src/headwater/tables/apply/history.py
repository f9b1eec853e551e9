"""All states of every key with their validity (SCD 2): changes of a step and stored rows → rows to write.

Every change is a stored row, told by its key and sequence: also a delete, which is hidden. So a late change is put in
its place whatever came before it. States of one moment have an empty interval of time, but for the last of them.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from headwater.spark.frames import column
from headwater.tables.apply.shape import (
    AT,
    CURRENT,
    FIRST,
    GONE,
    LAST,
    POSITION,
    SEQ_FROM,
    SEQ_TO,
    SEQUENCE,
    TIE,
    UNSENT,
    Shape,
    no_names,
)

_IS_STORED = "_hw_stored"
_NUMBER = "_hw_number"


def history(changes: DataFrame, stored: DataFrame | None, shape: Shape) -> DataFrame:
    """The rows that are new or differ from what is stored."""
    every = _every_change(changes, stored, shape)
    keys = [column(key) for key in shape.keys]
    if shape.by_column:
        every = every.withColumns({_kept(at): column(name) for at, name in enumerate(_compared(shape))})
    every = _one_of_each_sequence(every, shape)
    in_order = Window.partitionBy(*keys).orderBy(column(SEQUENCE))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # Clocks may go back where sequences don't: no state begins before the one it follows.
    every = every.withColumn(FIRST, F.max(column(AT)).over(so_far))
    filled = {name: column(name) for name in shape.values}
    if shape.by_column:
        # The newest value that was sent; a stored one that was filled in before is not.
        filled = {name: F.last(_sent(name), ignorenulls=True).over(so_far).getField("value") for name in shape.values}
    rows = every.select(
        *keys,
        *(value.alias(name) for name, value in filled.items()),
        column(FIRST),
        F.lead(column(FIRST)).over(in_order).alias(LAST),
        column(SEQUENCE).alias(SEQ_FROM),
        F.lead(column(SEQUENCE)).over(in_order).alias(SEQ_TO),
        *map(column, (SEQUENCE, TIE, AT, GONE, _IS_STORED)),
        *(column(_was(f.name)) for f in shape.validity),
        *(map(column, (UNSENT, *map(_kept, range(len(_compared(shape)))))) if shape.by_column else ()),
    )
    rows = rows.withColumn(CURRENT, column(LAST).isNull() & ~column(GONE))
    return rows.where(~column(_IS_STORED) | _differs(shape)).select(*map(column, shape.stored.names))


def _every_change(changes: DataFrame, stored: DataFrame | None, shape: Shape) -> DataFrame:
    names = [*shape.columns.names, SEQUENCE, TIE, AT, GONE, *([UNSENT] if shape.by_column else [])]
    every = changes.select(
        *map(column, names),
        F.lit(False).alias(_IS_STORED),
        *(F.lit(None).cast(f.dataType).alias(_was(f.name)) for f in shape.validity),
    )
    if stored is None:
        return every
    kept = [column(f.name).alias(_was(f.name)) for f in shape.validity]
    return every.unionByName(stored.select(*map(column, names), F.lit(True).alias(_IS_STORED), *kept))


def _one_of_each_sequence(every: DataFrame, shape: Shape) -> DataFrame:
    twins = Window.partitionBy(*map(column, (*shape.keys, SEQUENCE)))
    newest_first = twins.orderBy(column(TIE).desc(), column(_IS_STORED).desc())
    if shape.by_column and shape.rules.sequence_by != POSITION:
        every = _with_values_of_twins(every, shape, newest_first)
    return every.withColumn(_NUMBER, F.row_number().over(newest_first)).where(column(_NUMBER) == 1).drop(_NUMBER)


def _with_values_of_twins(every: DataFrame, shape: Shape, newest_first: WindowSpec) -> DataFrame:
    """A change leaves out what none of those has sent that it takes the place of."""
    and_older = newest_first.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    sent = {name: f"_hw_twin_{at}" for at, name in enumerate(shape.values)}
    every = every.withColumns(
        {twin: F.first(_sent(name), ignorenulls=True).over(and_older) for name, twin in sent.items()}
    )
    left_out = [F.when(column(twin).isNull(), F.lit(name)) for name, twin in sent.items()]
    return every.withColumns(
        {
            **{
                name: F.when(column(twin).isNotNull(), column(twin).getField("value")).otherwise(column(name))
                for name, twin in sent.items()
            },
            UNSENT: F.array_compact(F.array(*left_out)) if left_out else no_names(),
        }
    ).drop(*sent.values())


def _sent(name: str) -> Column:
    """The value of a column as a struct, NULL where it was not sent."""
    sent = ~F.coalesce(F.array_contains(UNSENT, name), F.lit(False))
    return F.when(sent, F.struct(column(name).alias("value")))


def _compared(shape: Shape) -> list[str]:
    """What may change of a stored row alongside its validity, where changes leave columns out."""
    return [*shape.comparable(), UNSENT]


def _was(name: str) -> str:
    """What is stored of a row's validity, alongside what it comes to now."""
    return f"_hw_was_{name}"


def _kept(at: int) -> str:
    return f"_hw_kept_{at}"


def _differs(shape: Shape) -> Column:
    pairs = [(f.name, _was(f.name)) for f in shape.validity]
    if shape.by_column:
        pairs += [(name, _kept(at)) for at, name in enumerate(_compared(shape))]
    return reduce(lambda a, b: a | b, (~column(new).eqNullSafe(column(old)) for new, old in pairs))
