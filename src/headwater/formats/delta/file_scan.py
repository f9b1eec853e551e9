"""A Delta table as its live Parquet files, with what its log says of each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable as Handle

from headwater.core.errors import Unsupported
from headwater.core.model import DataFile
from headwater.formats.delta.commits import whole_path
from headwater.formats.file_scan import ColumnBounds, ParquetScan, ScannedFile
from headwater.schema.arrow import spark_type, within_python

BY_FILE = {"timestampNtz", "v2Checkpoint"}
"""Reader features under which every row of every live file is a row of the table."""

_MILLISECOND = timedelta(milliseconds=1)
_LAST = datetime.max - _MILLISECOND


def scan(handle: Handle, root: str) -> ParquetScan:
    if "://" in root and not root.startswith("file://"):
        raise Unsupported(f"{root} is not on the local file system")
    folder = Path(root.removeprefix("file://"))
    found = pa.schema(handle.schema().to_arrow())
    schema = pa.schema([pa.field(f.name, spark_type(f.type)) for f in found])
    partitioned = tuple(handle.metadata().partition_columns)
    bounded = [f.name for f in schema if f.name not in partitioned and "." not in f.name and not _nested(f.type)]
    files = []
    for action in _actions(handle, partitioned):
        files.append(
            ScannedFile(
                path=str(folder / unquote(action["path"])),
                bytes=action["size_bytes"],
                rows=action["num_records"],
                partition={name: action[f"partition.{name}"] for name in partitioned},
                bounds={name: _bounds(action, name) for name in bounded},
            )
        )
    return ParquetScan(handle.version(), schema, tuple(files), partitioned)


def live_files(handle: Handle, root: str) -> list[DataFile]:
    """The live files of a version, paths made whole, partition values as texts."""
    partitioned = tuple(handle.metadata().partition_columns)
    return [
        DataFile(
            path=whole_path(root, action["path"]),
            bytes=action["size_bytes"],
            rows=action["num_records"],
            partition={name: _text(action[f"partition.{name}"]) for name in partitioned},
        )
        for action in _actions(handle, partitioned)
    ]


def _text(value: Any) -> str | None:
    """A partition's value as the log has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, Decimal)):
        return f"{value}"
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise Unsupported(f"a partition's value of type {type(value).__name__} can only be read by Spark")


def _bounds(action: dict[str, Any], name: str) -> ColumnBounds:
    high = action.get(f"max.{name}")
    if isinstance(high, datetime):  # the log cuts moments down to milliseconds
        high = high + _MILLISECOND if high.replace(tzinfo=None) <= _LAST else None
    return ColumnBounds(action.get(f"min.{name}"), high, action.get(f"null_count.{name}"))


def _nested(type: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type))


def _actions(handle: Handle, partitioned: Sequence[str]) -> list[dict[str, Any]]:
    # By the stream interface: `pa.table` would look for pandas first, which takes longer than all the rest.
    found: Any = handle.get_add_actions(flatten=True)
    table = pa.RecordBatchReader.from_stream(found).read_all()
    columns = [within_python(column) for column in table.columns]
    for name in partitioned:
        at = table.schema.get_field_index(f"partition.{name}")
        if columns[at].null_count > table.columns[at].null_count:
            raise Unsupported(f"partitions of '{name}' have years beyond 1 to 9999")
    rows: list[dict[str, Any]] = pa.Table.from_arrays(columns, names=table.schema.names).to_pylist()
    return rows
