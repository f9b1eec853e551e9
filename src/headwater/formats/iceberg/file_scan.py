"""An Iceberg table as the Parquet files of a snapshot, where no delete file takes rows away again."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from headwater.core.errors import Unsupported
from headwater.core.model import Version
from headwater.formats.file_scan import ColumnBounds, ParquetScan, ScannedFile
from headwater.schema.arrow import spark_type

_BOUNDED = (BooleanType, IntegerType, LongType, FloatType, DoubleType, DecimalType, StringType, DateType, TimestampType,
            TimestamptzType)  # fmt: skip
_EPOCH = datetime(1970, 1, 1)
_NAMES = "schema.name-mapping.default"
"""The property of tables whose files go by name: those were not written as Iceberg's."""


def scan(table: Table, version: Version | None) -> ParquetScan:
    """The files of a snapshot (None: the current one), with the bounds that its manifests keep."""
    planned = table.scan(snapshot_id=version)
    schema = planned.projection()
    snapshot = version if version is not None else table.metadata.current_snapshot_id
    names = pa.schema([pa.field(f.name, spark_type(f.type)) for f in schema_to_pyarrow(schema)])
    numbers = {field.name: field.field_id for field in schema.fields}
    if len(table.metadata.schemas) > 1 and any(pa.types.is_nested(field.type) for field in names):
        raise Unsupported("nested columns of a table whose schema has changed are not read file by file")
    if _NAMES in table.metadata.properties or any(field.initial_default is not None for field in schema.fields):
        raise Unsupported("its files may lack what their columns are known by")
    try:
        tasks = list(planned.plan_files()) if snapshot is not None else []
    except (ValueError, NotImplementedError) as error:
        raise Unsupported(f"pyiceberg does not plan this table exactly: {error}") from error
    files = []
    for task in tasks:
        if task.delete_files:
            raise Unsupported("rows are taken away by delete files")
        if task.file.file_format is not FileFormat.PARQUET:
            raise Unsupported("its files are not all Parquet")
        files.append(_file(task.file, schema))
    return ParquetScan(snapshot, names, tuple(files), field_ids=numbers)


def _file(file: DataFile, schema: Schema) -> ScannedFile:
    path = file.file_path
    if "://" in path and not path.startswith("file://"):
        raise Unsupported("its files are not on the local file system")
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    bounds = {field.name: _bounds(file, field) for field in schema.fields if isinstance(field.field_type, _BOUNDED)}
    return ScannedFile(path, file.file_size_in_bytes, file.record_count, bounds=bounds)


def _bounds(file: DataFile, field: NestedField) -> ColumnBounds:
    low = (file.lower_bounds or {}).get(field.field_id)
    high = (file.upper_bounds or {}).get(field.field_id)
    nulls = (file.null_value_counts or {}).get(field.field_id)
    return ColumnBounds(_value(low, field), _value(high, field), nulls)


def _value(found: bytes | None, field: NestedField) -> Any:
    kind = field.field_type
    if found is None or not isinstance(kind, PrimitiveType):
        return None
    if isinstance(kind, LongType) and len(found) == 4:
        return None  # written before the column was widened
    if isinstance(kind, DoubleType) and len(found) == 4:
        return None
    value: Any = from_bytes(kind, found)
    try:
        if isinstance(kind, DateType):
            return date(1970, 1, 1) + timedelta(days=value)
        if isinstance(kind, (TimestampType, TimestamptzType)):
            moment = _EPOCH + timedelta(microseconds=value)
            return moment.replace(tzinfo=timezone.utc) if isinstance(kind, TimestamptzType) else moment
    except OverflowError:  # Python has no value for it
        return None
    return value
