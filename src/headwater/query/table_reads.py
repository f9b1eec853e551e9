"""What is known of a scan before it is run: its files, its columns, what conditions leave out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwater.query.duckdb.eligibility import Chosen
from headwater.query.duckdb.scans import DuckScan
from headwater.query.duckdb.translation.terms import Origin
from headwater.query.estimates import bytes_read, rows_left, share_left
from headwater.query.explanation import TableRead
from headwater.query.gathered import Statistics
from headwater.query.predicates import describe
from headwater.query.row_groups import distinct


def table_read(one: Chosen, statistics: Statistics) -> TableRead:
    """What is known of a scan before it is run."""
    reading, scan = one.scan.reading, one.scan
    gathered, fitted = statistics.found(reading), statistics.of(reading)
    found = TableRead(
        relation=reading.label,
        format=reading.format,
        version=reading.version,
        reader=reading.reader + (f" ({reading.why_rows})" if reading.why_rows else ""),
        columns=tuple(scan.columns),
        columns_all=len(reading.schema.names),
        conditions=tuple(conditions(scan)),
        statistics_version=None if gathered is None else gathered.version,
        statistics_unused="" if gathered is None else gathered.unfit,
    )
    if reading.files is None:
        if fitted is None:
            return found
        rows = round(fitted.rows * share_left(scan, fitted))
        return replace(found, rows_all=fitted.rows if fitted.exact else None, rows_estimated=rows)
    files = reading.files
    return replace(
        found,
        partitions_all=distinct(files.files) if files.partition_columns else None,
        partitions=distinct(one.files) if files.partition_columns else None,
        files_all=len(files.files),
        files=len(one.files),
        files_pruned_by_partition=one.by_partition,
        files_pruned_by_bounds=one.by_bounds,
        rows_all=files.rows,
        rows_estimated=rows_left(one, fitted),
        bytes_all=files.bytes,
        bytes_estimated=bytes_read(one, fitted),
    )


def conditions(scan: DuckScan) -> Iterator[str]:
    """The conditions that reach the storage, in words."""
    for predicate in scan.predicates:
        told = describe(predicate, lambda origin: origin.column if isinstance(origin, Origin) else "?")
        if "…" not in told:
            yield told
