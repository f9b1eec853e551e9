"""The ranges that the keys of a step lie in: by them a MERGE leaves out files that have none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StringType, TimestampType

from headwater.core.quotes import backticked
from headwater.formats.key_filter import RANGES
from headwater.incremental.keys import as_literal, literal
from headwater.spark.arrow_bridge import gathered
from headwater.spark.frames import column

MANY = 1_000_000
"""Of more keys than this only the first and the last are asked for."""
GRID = 6
"""The ends of ranges are rounded to about this power of two less than the way from the first key to the last."""
WIDE = 1 / 200
"""A gap between two keys parts two ranges if it is this part of the way from the first key to the last."""


def spans(rows: DataFrame, keys: Sequence[str], count: int, of: str) -> str | None:
    """What every row of a table called `of` meets that has the key of one of some `rows`; None where it can't be told.

    The rows are read for it; there are at most `count`.
    """
    types = {key: rows.schema[key].dataType for key in keys if _has_ranges(rows.schema[key].dataType)}
    if not types:
        return None
    asked = [as_literal(column(key), data_type).alias(key) for key, data_type in types.items()]
    all_of_them = count <= MANY
    bounds = gathered(rows.select(*asked) if all_of_them else _ends(rows.select(*asked)))
    if not bounds.num_rows or any(bounds[key].null_count for key in types):
        return None
    within = []
    for key, data_type in types.items():
        ranges = _ranges(bounds[key]) if all_of_them else [tuple(bounds[key].to_pylist())]
        within.append(f"({_within(f'{of}.{backticked(key)}', data_type, ranges)})")
    return " AND ".join(within)


def _has_ranges(data_type: DataType) -> bool:
    return isinstance(data_type, (IntegralType, StringType, DateType, DecimalType, TimestampType))


def _ends(keys: DataFrame) -> DataFrame:
    """Two rows: the first of each key, and the last."""
    first, last = (keys.agg(*(of(column(name)).alias(name) for name in keys.columns)) for of in (F.min, F.max))
    return first.union(last)


def _within(value: str, data_type: DataType, ranges: Sequence[tuple[Any, Any]]) -> str:
    ends = [(literal(first, data_type), literal(last, data_type)) for first, last in ranges]
    return " OR ".join(f"({value} >= {first} AND {value} <= {last})" for first, last in ends)


def _ranges(values: pa.ChunkedArray) -> list[tuple[Any, Any]]:
    """A few ranges that hold all values, parted where the gaps between two are widest."""
    ordered = pc.take(values, pc.array_sort_indices(values)).combine_chunks()
    count = len(ordered)
    if pa.types.is_integer(ordered.type):
        numbers = ordered.cast(pa.float64(), safe=False)
        gaps = pc.pairwise_diff(numbers)
        wide = max(1, (numbers[-1].as_py() - numbers[0].as_py()) * WIDE)
        wide_gaps = pc.indices_nonzero(pc.greater(gaps, wide)).to_pylist()
        parted = sorted(sorted(wide_gaps, key=lambda at: gaps[at].as_py())[1 - RANGES :])
    else:  # what has no distance is parted evenly
        parts = min(RANGES, count)
        parted = [count * part // parts for part in range(1, parts)]
    firsts, lasts = [0, *parted], [*(at - 1 for at in parted), count - 1]
    ranges = list(
        zip(ordered.take(pa.array(firsts)).to_pylist(), ordered.take(pa.array(lasts)).to_pylist(), strict=True)
    )
    return _rounded(ranges, ordered.type.bit_width) if pa.types.is_integer(ordered.type) else ranges


def _rounded(ranges: list[tuple[int, int]], bits: int) -> list[tuple[int, int]]:
    """A little wider, to ends that are the same in many steps, of numbers of so many bits.

    Spark writes numbers into the code that it makes of a MERGE: with others in every step it would compile that code,
    and warm it up, each time.
    """
    grid = 1 << max(0, ((ranges[-1][1] - ranges[0][0]) >> GRID).bit_length() - 1)
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1
    return [(max(a // grid * grid, lowest), min((b // grid + 1) * grid - 1, highest)) for a, b in ranges]
