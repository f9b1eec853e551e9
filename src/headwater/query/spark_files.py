"""The files of relations that no native reader hands over, as Spark's side of their format lists them: for figures
only.

Their rows are not read from here: a format may merge files as it reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from headwater.core.errors import HeadwaterError
from headwater.core.model import DataFile
from headwater.formats.file_scan import ColumnBounds, ParquetScan, ScannedFile
from headwater.query.duckdb.scans import DuckScan
from headwater.query.duckdb.translation.terms import Origin
from headwater.query.predicates import columns
from headwater.query.statistics import merged, row_groups
from headwater.warehouse import Warehouse


def listed(warehouse: Warehouse, scan: DuckScan) -> ParquetScan | None:
    """The files of a scan's version, with the bounds of the columns that its conditions speak of; None where they are
    not to be had."""
    reading = scan.reading
    if reading.kind is None:
        return None
    try:
        found = warehouse.table(reading.kind, reading.name).files(reading.version)
        files = tuple(_scanned(file, reading.schema, set(_columns(scan))) for file in found)
    except (HeadwaterError, OSError, pa.ArrowException):  # not local, or not Parquet
        return None
    partitioned = tuple(found[0].partition) if found else ()
    return ParquetScan(reading.version, reading.schema, files, partitioned)


def _columns(scan: DuckScan) -> Iterable[str]:
    for predicate in scan.predicates:
        for origin in columns(predicate):
            if isinstance(origin, Origin) and origin.scan is scan:
                yield origin.column


def _scanned(file: DataFile, schema: pa.Schema, wanted: Iterable[str]) -> ScannedFile:
    groups = row_groups(file.path)
    bounds = {}
    for column in wanted:
        known = merged(group.bounds.get(column) for group in groups)
        if known is not None:
            bounds[column] = ColumnBounds(known.min, known.max, known.nulls)
    return ScannedFile(file.path, file.bytes, file.rows, _values(file.partition, schema), bounds)


def _values(partition: Mapping[str, str | None], schema: pa.Schema) -> dict[str, Any]:
    """A file's partition in the columns' own types."""
    return {
        name: None if text is None else pa.scalar(text).cast(schema.field(name).type).as_py()
        for name, text in partition.items()
        if name in schema.names
    }
