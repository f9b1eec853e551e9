"""What Spark sends to every worker because of what a query's conditions leave of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.query.estimates import share_by_statistics

if TYPE_CHECKING:
    from headwater.core.model import Kind, Version
    from headwater.query.duckdb.scans import DuckScan
    from headwater.query.gathered import Statistics

SMALL = 10 * 1024 * 1024
"""Bytes of Parquet up to which Spark sends a table to every worker instead of shuffling both sides of a join."""
AT_WORST = 8
"""By statistics, which know nothing of values that are more frequent than others, only tables of up to as many times
that size are sent: all of such a table could be."""


@dataclass(frozen=True)
class Small:
    """A relation that is large, and what is left of it."""

    bytes_all: int
    bytes: int
    statistics: Version | None = None
    """The version whose statistics say so; None: partitions and bounds prove it."""


def small_parts(scans: Iterable[DuckScan], statistics: Statistics, most: int = SMALL) -> dict[tuple[Kind, str], Small]:
    """Relations too large to be sent to every worker, of which so little is left by the query's conditions that they
    can be. Spark reckons with the whole table in some formats."""
    left: dict[tuple[Kind, str], Small] = {}
    for scan in scans:
        if scan.reading.files is None or scan.reading.kind is None:
            continue
        found = _left(scan, statistics, most)
        key = (scan.reading.kind, scan.reading.name)
        left[key] = max(found, left.get(key, found), key=lambda one: one.bytes)
    return {key: one for key, one in left.items() if one.bytes_all > most >= one.bytes}


def _left(scan: DuckScan, statistics: Statistics, most: int) -> Small:
    reading = scan.reading
    assert reading.files is not None
    kept, *_ = scan.chosen()
    size = sum(file.bytes for file in kept)
    if most < size <= AT_WORST * most:
        fitted = statistics.of(reading)
        share = None if fitted is None else share_by_statistics(scan, fitted)
        if fitted is not None and share is not None and size * share <= most:
            return Small(reading.files.bytes, round(size * share), fitted.version)
    return Small(reading.files.bytes, size)
