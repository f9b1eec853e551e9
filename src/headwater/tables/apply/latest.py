"""The current state of every key (SCD 1): changes of a step and stored rows of the touched keys → rows to write.

A key that was deleted stays as a hidden row without values, so that a late older change finds that it is older. Where a
change may leave columns out, each column has its own order: it holds the newest value that was sent, and a late change
fills in what newer ones did not send.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.core.model import DELETED
from headwater.spark.frames import column
from headwater.tables.apply.shape import GONE, GONE_AT, SENT, SEQUENCE, TIE, UNSENT, Shape, order

COUNT, UNORDERED = "_hw_changes", "_hw_unordered"
_IS_STORED = "_hw_stored"
_NEWEST = "_hw_newest"
_KNOWN = "_hw_known"
_LAST = "_hw_last"


def latest(changes: DataFrame, stored: DataFrame | None, shape: Shape, now: datetime) -> DataFrame:
    """What differs from the stored rows, as an upsert takes it; `now` is when deletes were learned of."""
    rows = _by_column(changes, stored, shape, now) if shape.by_column else _by_row(changes, stored, shape, now)
    if shape.soft or shape.rules.tombstones:
        return rows
    return rows.withColumn(DELETED, column(GONE_AT).isNotNull())


def newest_of(changes: DataFrame, shape: Shape, now: datetime) -> DataFrame:
    """The newest change of each key as it is stored, for a table that compares it with the stored row itself.

    COUNT is summed up by key; UNORDERED is how many of its changes had no order.
    """
    counts = F.sum(column(COUNT)).alias(COUNT), F.count_if(column(SEQUENCE).isNull()).alias(UNORDERED)
    newest = _newest(changes, shape, *counts)
    rows = newest.select(*_stored(shape, now), column(COUNT), column(UNORDERED))
    return rows if shape.rules.tombstones else rows.withColumn(DELETED, column(GONE_AT).isNotNull())


def expired(stored: DataFrame, shape: Shape, now: datetime) -> DataFrame:
    """Deletes that need not be remembered any more."""
    old = stored.where(column(GONE_AT) < F.lit(now - shape.rules.tombstones))
    return old.withColumn(DELETED, F.lit(True))


def _by_row(changes: DataFrame, stored: DataFrame | None, shape: Shape, now: datetime) -> DataFrame:
    """The newest change of each key, where it is newer than what is stored."""
    newest = _newest(changes, shape)
    if stored is not None:
        known = stored.select(*map(column, shape.keys), order().alias(_KNOWN))
        newest = newest.join(known, list(shape.keys), "left").where(
            column(_KNOWN).isNull() | (order() > column(_KNOWN))
        )
    return newest.select(*_stored(shape, now))


def _newest(changes: DataFrame, shape: Shape, *counts: Column) -> DataFrame:
    whole = F.struct(*map(column, shape.values), column(SEQUENCE), column(TIE), column(GONE))
    newest = changes.groupBy(*map(column, shape.keys)).agg(F.max_by(whole, order()).alias(_NEWEST), *counts)
    return newest.select(*(column(name) for name in newest.columns if name != _NEWEST), f"{_NEWEST}.*")


def _stored(shape: Shape, now: datetime) -> list[Column]:
    gone_at = F.when(column(GONE), F.lit(now)).cast("timestamp").alias(GONE_AT)
    return [*map(column, (*shape.columns.names, SEQUENCE, TIE)), gone_at]


def _by_column(changes: DataFrame, stored: DataFrame | None, shape: Shape, now: datetime) -> DataFrame:
    candidates = changes.select(
        *map(column, (*shape.columns.names, SEQUENCE, TIE)),
        F.when(column(GONE), F.lit(now)).cast("timestamp").alias(GONE_AT),
        F.lit(False).alias(_IS_STORED),
        *(
            F.when(~F.array_contains(UNSENT, name), order(F.lit(False).alias(_IS_STORED))).alias(_sent(at))
            for at, name in enumerate(shape.values)
        ),
    )
    if stored is not None:
        candidates = candidates.unionByName(
            stored.select(
                *map(column, (*shape.columns.names, SEQUENCE, TIE, GONE_AT)),
                F.lit(True).alias(_IS_STORED),
                *(_sent_before(name).alias(_sent(at)) for at, name in enumerate(shape.values)),
            )
        )
    last = order(column(_IS_STORED))
    sent = {name: column(_sent(at)) for at, name in enumerate(shape.values)}
    newest = candidates.groupBy(*map(column, shape.keys)).agg(
        F.max(last).alias(_LAST),
        F.max_by(column(GONE_AT), last).alias(GONE_AT),
        *(F.max_by(column(name), by).alias(name) for name, by in sent.items()),
        *(F.max(by).alias(_sent(at)) for at, by in enumerate(sent.values())),
    )
    winners = [column(_LAST), *(F.coalesce(one, column(_LAST)) for one in sent.values())]
    changed = reduce(lambda a, b: a | b, (~one.getField(_IS_STORED) for one in winners))
    return newest.where(changed).select(
        *map(column, shape.columns.names),
        column(_LAST).getField(SEQUENCE).alias(SEQUENCE),
        column(_LAST).getField(TIE).alias(TIE),
        column(GONE_AT),
        _older_than_the_row(sent).cast(shape.stored[SENT].dataType).alias(SENT),
    )


def _sent(at: int) -> str:
    """The name of a column's order; any name may be a user's, a number is not."""
    return f"_hw_sent_{at}"


def _sent_before(name: str) -> Column:
    """When the stored value of a column was sent: with its row, unless SENT says otherwise."""
    stored = F.lit(True).alias(_IS_STORED)
    at = F.element_at(column(SENT), name)
    own = F.struct(at.alias(SEQUENCE), F.lit(None).cast("string").alias(TIE), stored)
    listed = F.coalesce(F.map_contains_key(column(SENT), name), F.lit(False))
    return F.when(~listed, order(stored)).when(at.isNotNull(), own)


def _older_than_the_row(sent: dict[str, Column]) -> Column:
    if not sent:
        return F.lit(None)
    by_name = F.map_from_arrays(F.array(*map(F.lit, sent)), F.array(*(one.getField(SEQUENCE) for one in sent.values())))
    last = column(_LAST).getField(SEQUENCE)
    older = F.map_filter(by_name, lambda _, at: at.isNull() | (at < last))
    return F.when(F.size(older) > 0, older)
