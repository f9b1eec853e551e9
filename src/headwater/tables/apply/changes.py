"""A topic's rows as changes of keys: each says what became of one key, and in which order."""

from __future__ import annotations

from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampType

from headwater.core.errors import Code, UsageError
from headwater.core.quotes import backticked
from headwater.core.spec import Apply
from headwater.schema.types import has_map
from headwater.spark.errors import reason, without_plan
from headwater.spark.frames import column
from headwater.tables.apply.shape import (
    AFTER,
    AT,
    BEFORE,
    FROM,
    GONE,
    OP,
    POSITION,
    SEQUENCE,
    TIE,
    UNCHANGED,
    UNSENT,
    Locate,
    Shape,
    no_names,
)

_ROW_BEFORE, _ROW_AFTER = "_hw_before", "_hw_after"
"""The rows of a change, alongside their columns: one of those may be called `before` too."""


def changes_of(rows: DataFrame, shape: Shape, locate: Locate) -> DataFrame:
    """The changes of keys: the row's columns, SEQUENCE, TIE, GONE, UNSENT, FROM, AT."""
    flat = _flat(rows.where(~_is_truncate()) if shape.captured else rows, shape)
    gone = _deletes(flat, shape, locate)
    order = [*_order(shape), _time(shape).alias(AT)]
    unsent = F.coalesce(column(UNCHANGED), no_names()) if _may_leave_out(shape) else no_names()
    kept = F.array(*map(F.lit, shape.values)) if shape.soft else no_names()
    moved_from = _before_keys(shape) if shape.captured else F.lit(None).cast(_key_struct(shape))
    flat = flat.withColumn(GONE, gone)
    if shape.captured:
        # Nobody has said that a delete is one: the row stays as it is.
        flat = flat.where(column(GONE) | column(_ROW_AFTER).isNotNull())
    values = [
        F.when(column(GONE), F.lit(None)).otherwise(column(name)).cast(shape.columns[name].dataType).alias(name)
        for name in shape.values
    ]
    changes = flat.select(
        *map(column, shape.keys),
        *values,
        *order,
        column(GONE),
        F.when(column(GONE), kept).otherwise(unsent).alias(UNSENT),
        F.when(~column(GONE) & _is_moved(shape), moved_from).alias(FROM),
    )
    if not shape.captured:
        return changes
    left = changes.where(column(FROM).isNotNull())
    return changes.unionByName(
        left.select(
            *(column(FROM).getField(key).alias(key) for key in shape.keys),
            *(F.lit(None).cast(shape.columns[name].dataType).alias(name) for name in shape.values),
            *map(column, (SEQUENCE, TIE, AT)),
            F.lit(True).alias(GONE),
            kept.alias(UNSENT),
            F.lit(None).cast(_key_struct(shape)).alias(FROM),
        )
    )


def truncations_of(rows: DataFrame, shape: Shape) -> DataFrame:
    """The moments at which all rows went: SEQUENCE, TIE, AT."""
    flat = _flat(rows.where(_is_truncate()), shape)
    return flat.select(*_order(shape), _time(shape).alias(AT))


def _flat(rows: DataFrame, shape: Shape) -> DataFrame:
    """The row's columns alongside the topic's own; where both have a name it is the row's."""
    others = [column(name) for name in shape.topic.names if name not in shape.columns.names]
    if not shape.captured:
        return rows.select(*map(column, shape.columns.names), *others)
    images = [column(BEFORE).alias(_ROW_BEFORE), column(AFTER).alias(_ROW_AFTER)]
    return rows.select(*(_resolved(shape, name).alias(name) for name in shape.columns.names), *others, *images)


def _resolved(shape: Shape, name: str) -> Column:
    """In `after`, else in `before`."""
    has = {side: name in _struct(shape.topic, side).names for side in (AFTER, BEFORE)}
    if not has[BEFORE]:
        return column(AFTER).getField(name)
    if not has[AFTER]:
        return column(BEFORE).getField(name)
    return F.when(column(AFTER).isNotNull(), column(AFTER).getField(name)).otherwise(column(BEFORE).getField(name))


def _deletes(flat: DataFrame, shape: Shape, locate: Locate) -> Column:
    """Whether a change is a delete."""
    rules: Apply = shape.rules
    if rules.delete_when is None or (OP not in shape.topic.names and "delete_when" not in rules.model_fields_set):
        return F.lit(False)
    condition = F.expr(rules.delete_when)
    try:
        flat.where(condition)
    except AnalysisException as error:
        message = f"delete_when: {without_plan(reason(error))}"
        raise UsageError(Code.INVALID_SQL, message, where=locate("apply.delete_when")) from error
    return F.coalesce(condition, F.lit(False))


def _order(shape: Shape) -> list[Column]:
    by = shape.rules.sequence_by
    if by == POSITION:
        tie = F.lit(None).cast(StringType())
    elif POSITION in shape.topic.names:
        tie = column(POSITION)
    else:
        tie = F.hex(F.xxhash64(*(column(f.name) for f in shape.topic.fields if not has_map(f.dataType))))
    return [column(by).alias(SEQUENCE), tie.alias(TIE)]


def _time(shape: Shape) -> Column:
    if isinstance(shape.sequence, TimestampType):
        return column(shape.rules.sequence_by)
    return F.coalesce(*map(column, shape.times), F.lit(None).cast(TimestampType()))


def _is_truncate() -> Column:
    return column(OP) == "t"


def _may_leave_out(shape: Shape) -> bool:
    return shape.captured and UNCHANGED in shape.topic.names


def _before_keys(shape: Shape) -> Column:
    known = _struct(shape.topic, BEFORE).names
    keys = [column(_ROW_BEFORE).getField(k) if k in known else F.lit(None) for k in shape.keys]
    pairs = zip(keys, shape.keys, strict=True)
    return F.struct(*(value.cast(shape.columns[key].dataType).alias(key) for value, key in pairs))


def _is_moved(shape: Shape) -> Column:
    """Whether the row had another key before."""
    known = _struct(shape.topic, BEFORE).names if shape.captured else []
    if not set(shape.keys) <= set(known):
        return F.lit(False)
    was = [column(_ROW_BEFORE).getField(key) for key in shape.keys]
    sent = reduce(lambda a, b: a & b, (key.isNotNull() for key in was))
    differs = reduce(lambda a, b: a | b, (~w.eqNullSafe(column(k)) for w, k in zip(was, shape.keys, strict=True)))
    return column(_ROW_AFTER).isNotNull() & sent & differs


def _key_struct(shape: Shape) -> StructType:
    return StructType([shape.columns[key] for key in shape.keys])


def _struct(topic: StructType, name: str) -> StructType:
    struct = topic[name].dataType
    assert isinstance(struct, StructType)
    return struct


def sequence_text(name: str = SEQUENCE) -> Column:
    """A sequence as a position holds it."""
    return F.expr(f"CAST({backticked(name)} AS STRING)")
