"""Rows sorted along a z-order curve, for formats that bring none which could be proved before its commit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.spark.frames import column

_BITS = 6
_SAMPLE = 4096
_CURVE = "_headwater_z"


def z_ordered(rows: DataFrame, columns: Sequence[str], files: int, count: int) -> DataFrame:
    """The rows in `files` partitions, sorted by the interleaved ranks of the columns; `count` is how many there are."""
    sampled = rows.select(*map(column, columns))
    if count > _SAMPLE:
        sampled = sampled.sample(min(1.0, 1.5 * _SAMPLE / count), seed=7)
    found = sampled.limit(2 * _SAMPLE).collect()
    ranks = [_rank(column(name), [row[i] for row in found]) for i, name in enumerate(columns)]
    curve = reduce(lambda a, b: a.bitwiseOR(b), _interleaved(ranks))
    placed = rows.withColumn(_CURVE, curve)
    return placed.repartitionByRange(files, _CURVE).sortWithinPartitions(_CURVE).drop(_CURVE)


def _rank(value: Column, sample: Sequence[Any]) -> Column:
    """Which of 64 shares of about as many rows a value lies in; NULL comes first."""
    shares = 2**_BITS
    every = sorted(one for one in sample if one is not None)
    known = sorted(set(every))
    bounds = [every[share * len(every) // shares] for share in range(1, shares)] if every else []
    # Of few values each has a share of its own.
    bounds = known[1:] if len(known) <= shares else sorted(set(bounds))
    if not bounds:
        return F.lit(0).cast("bigint")
    above = reduce(lambda a, b: a + b, (F.when(value >= F.lit(bound), 1).otherwise(0) for bound in bounds))
    return above.cast("bigint")


def _interleaved(ranks: Sequence[Column]) -> list[Column]:
    """Bit by bit in turn, the highest first."""
    each = min(_BITS, 63 // len(ranks))
    bits = []
    for bit in range(each):
        for place, rank in enumerate(ranks):
            one = F.shiftright(rank, _BITS - 1 - bit).bitwiseAND(F.lit(1).cast("bigint"))
            bits.append(F.shiftleft(one, (each - 1 - bit) * len(ranks) + (len(ranks) - 1 - place)))
    return bits
