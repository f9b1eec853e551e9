"""How much a scan is thought to give, before it is run: rows, bytes, and how many values a column has."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from headwater.formats.scanning import ScannedFile
from headwater.query.duckdb.terms import Origin
from headwater.query.predicates import Bounds, Predicate, columns
from headwater.query.statistics import merged, selectivity

if TYPE_CHECKING:
    from headwater.query.duckdb.choosing import Chosen
    from headwater.query.duckdb.scans import Scan


def rows_left(one: Chosen) -> int | None:
    """Rows that the conditions are thought to keep, by the bounds of the files that are read."""
    counts = [file.rows for file in one.files]
    if None in counts:
        return None
    share = 1.0
    for predicate in _own(one.scan):
        share *= selectivity(predicate, lambda origin: _bounds(one, origin))
    return round(sum(count or 0 for count in counts) * share)


def share_left(scan: Scan) -> float:
    """The share of rows that the conditions are thought to keep where nothing is known of the columns."""
    share = 1.0
    for predicate in _own(scan):
        share *= selectivity(predicate, lambda _: None)
    return share


def bytes_read(one: Chosen) -> int:
    """Bytes that a scan is thought to read: of the files that are left, the share that its columns are."""
    every = len(one.scan.reading.schema.names)
    return round(sum(file.bytes for file in one.files) * len(one.scan.columns) / every) if every else 0


def values(scan: Scan, column: str) -> int | None:
    """How many values a column has at most in the whole table: by its partitions, or by what lies between its bounds;
    None where nothing says so."""
    files = scan.reading.files
    if files is None or files.rows is None:
        return None
    named = {name.lower(): name for name in files.schema.names}.get(column.lower())
    if named is None:
        return None
    if named in files.partition_columns:
        return len({file.partition.get(named) for file in files.files})
    bounds = merged(_file_bounds(file, named) for file in files.files)
    if bounds is None or bounds.min is None or bounds.max is None or isinstance(bounds.min, datetime):
        return None
    if isinstance(bounds.min, int) and isinstance(bounds.max, int):
        return min(files.rows, bounds.max - bounds.min + 1)
    if isinstance(bounds.min, date) and isinstance(bounds.max, date):
        return min(files.rows, (bounds.max - bounds.min).days + 1)
    return None


def _own(scan: Scan) -> list[Predicate]:
    """Conditions on this scan's columns alone: what also speaks of another's leaves any of its rows."""
    return [one for one in scan.predicates if all(origin.scan is scan for origin in columns(one))]


def _bounds(one: Chosen, origin: Any) -> Bounds | None:
    if not isinstance(origin, Origin) or origin.scan is not one.scan:
        return None
    return merged(_file_bounds(file, origin.column) for file in one.files)


def _file_bounds(file: ScannedFile, column: str) -> Bounds | None:
    if column in file.partition:
        value = file.partition[column]
        return Bounds(value, value, file.rows if value is None else 0, file.rows)
    found = file.bounds.get(column)
    return None if found is None else Bounds(found.min, found.max, found.nulls, file.rows)
