"""What is known of tables without reading them: rows, bytes, bounds; and what that says of a query's size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.query.predicates import And, Bounds, Compare, IsNull, Not, OneOf, Or, Predicate, Prefix, may_hold

EQUAL = 0.05
"""The share of rows that an equality keeps where nothing more is known."""
RANGE = 0.33
"""The share that a comparison keeps where the bounds are not known."""


@dataclass(frozen=True)
class RowGroup:
    """One row group of a Parquet file: its rows, and of each column its bounds and bytes on disk."""

    rows: int
    bounds: dict[str, Bounds]
    bytes: dict[str, int]


def row_groups(path: str) -> tuple[RowGroup, ...]:
    """From a file's footer; a file that is never written again is looked at once."""
    found = Path(path).stat()
    return _row_groups(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4096)
def _row_groups(path: str, modified: int, size: int) -> tuple[RowGroup, ...]:
    metadata = pq.read_metadata(path)
    found = []
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        bounds: dict[str, Bounds] = {}
        sizes: dict[str, int] = {}
        for number in range(group.num_columns):
            chunk = group.column(number)
            top = chunk.path_in_schema.split(".", 1)[0]
            sizes[top] = sizes.get(top, 0) + chunk.total_compressed_size
            kept = chunk.statistics
            if kept is None or "." in chunk.path_in_schema:
                continue
            low, high = _limits(kept)
            bounds[top] = Bounds(low, high, kept.null_count if kept.has_null_count else None, group.num_rows)
        found.append(RowGroup(group.num_rows, bounds, sizes))
    return tuple(found)


def _limits(kept: pq.Statistics) -> tuple[Any, Any]:
    try:
        return (kept.min, kept.max) if kept.has_min_max else (None, None)
    except pa.ArrowNotImplementedError:  # decimals, among others
        return None, None


def skipped(
    groups: Iterable[RowGroup], predicates: Sequence[Predicate], name: Callable[[Any], str | None]
) -> list[bool]:
    """For each row group whether its bounds rule it out; `name` gives the column of this table, or None."""
    found = []
    for group in groups:

        def known(column: Any, group: RowGroup = group) -> Bounds | None:
            wanted = name(column)
            return None if wanted is None else group.bounds.get(wanted)

        found.append(not all(may_hold(predicate, known) for predicate in predicates))
    return found


def selectivity(predicate: Predicate, known: Callable[[Any], Bounds | None]) -> float:
    """The share of rows that a condition is thought to keep: values are taken to be spread evenly."""
    if isinstance(predicate, And):
        share = 1.0
        for part in predicate.parts:
            share *= selectivity(part, known)
        return share
    if isinstance(predicate, Or):
        missed = 1.0
        for part in predicate.parts:
            missed *= 1 - selectivity(part, known)
        return 1 - missed
    if isinstance(predicate, Not):
        inner = predicate.inner
        every = _present(known(inner.column)) if isinstance(inner, (Compare, OneOf, Prefix)) else 1.0
        return max(0.0, every - selectivity(inner, known))
    if isinstance(predicate, IsNull):
        bounds = known(predicate.column)
        if bounds is None or bounds.nulls is None or not bounds.rows:
            return EQUAL
        return bounds.nulls / bounds.rows
    if isinstance(predicate, OneOf):
        bounds = known(predicate.column)
        return min(_present(bounds), len(predicate.values) * _equal(bounds))
    if isinstance(predicate, Prefix):
        return EQUAL
    if isinstance(predicate, Compare):
        return _compared(predicate, known(predicate.column))
    return 1.0


def _compared(predicate: Compare, bounds: Bounds | None) -> float:
    if predicate.op == "=":
        return _equal(bounds)
    if predicate.op == "!=":
        return max(0.0, _present(bounds) - _equal(bounds))
    at = None if bounds is None else _place(predicate.value, bounds)
    if at is None:
        return RANGE
    return _present(bounds) * (at if predicate.op in ("<", "<=") else 1 - at)


def _present(bounds: Bounds | None) -> float:
    """The share of rows that have a value: a comparison keeps no other."""
    if bounds is None or bounds.nulls is None or not bounds.rows:
        return 1.0
    return 1 - bounds.nulls / bounds.rows


def _equal(bounds: Bounds | None) -> float:
    """One of as many values as there are: as they were counted, but no more than lie between the bounds."""
    counts = [] if bounds is None else [count for count in (bounds.distinct, between(bounds)) if count is not None]
    return _present(bounds) / max(1, min(counts)) if counts else EQUAL


def between(bounds: Bounds) -> int | None:
    """How many whole numbers or days lie between bounds; None of anything else."""
    low, high = bounds.min, bounds.max
    if isinstance(low, (datetime, bool)):
        return None
    if isinstance(low, int) and isinstance(high, int):
        return high - low + 1
    if isinstance(low, date) and isinstance(high, date):
        return (high - low).days + 1
    return None


def _place(value: Any, bounds: Bounds) -> float | None:
    """How far up between the bounds a value lies, from 0 to 1."""
    low, high = bounds.min, bounds.max
    try:
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            width, above = float(high) - float(low), float(value) - float(low)
        elif isinstance(value, (date, datetime)):
            width, above = (high - low).total_seconds(), (value - low).total_seconds()
        else:
            return None
    except (TypeError, ValueError, OverflowError):
        return None
    return min(1.0, max(0.0, above / width)) if width > 0 else None


def merged(parts: Iterable[Bounds | None]) -> Bounds | None:
    """The bounds of several parts together; None where one of them is not known."""
    low: Any = None
    high: Any = None
    nulls: int | None = 0
    rows: int | None = 0
    for part in parts:
        if part is None:
            return None
        nulls = None if nulls is None or part.nulls is None else nulls + part.nulls
        rows = None if rows is None or part.rows is None else rows + part.rows
        if part.all_null:
            continue
        if part.min is None or part.max is None:
            return Bounds(None, None, nulls, rows)
        low = part.min if low is None else min(low, part.min)
        high = part.max if high is None else max(high, part.max)
    return Bounds(low, high, nulls, rows)
