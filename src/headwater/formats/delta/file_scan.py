"""A Delta table as its live Parquet files, with what its log says of each."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable as Handle

from headwater.core.errors import Unsupported
from headwater.formats.arrow import spark_type
from headwater.formats.file_scan import ColumnBounds, ParquetScan, ScannedFile

BY_FILE = {"timestampNtz", "v2Checkpoint"}
"""Reader features under which every row of every live file is a row of the table."""

_MILLISECOND = timedelta(milliseconds=1)


def scan(handle: Handle, root: str) -> ParquetScan:
    if "://" in root and not root.startswith("file://"):
        raise Unsupported(f"{root} is not on the local file system")
    folder = Path(root.removeprefix("file://"))
    found = pa.schema(handle.schema().to_arrow())
    schema = pa.schema([pa.field(f.name, spark_type(f.type)) for f in found])
    partitioned = tuple(handle.metadata().partition_columns)
    bounded = [f.name for f in schema if f.name not in partitioned and "." not in f.name and not _nested(f.type)]
    files = []
    for action in _actions(handle):
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


def _bounds(action: dict[str, Any], name: str) -> ColumnBounds:
    high = action.get(f"max.{name}")
    if isinstance(high, datetime):
        high += _MILLISECOND  # the log cuts moments down to milliseconds
    return ColumnBounds(action.get(f"min.{name}"), high, action.get(f"null_count.{name}"))


def _nested(type: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type))


def _actions(handle: Handle) -> list[dict[str, Any]]:
    # By the stream interface: `pa.table` would look for pandas first, which takes longer than all the rest.
    found: Any = handle.get_add_actions(flatten=True)
    rows: list[dict[str, Any]] = pa.RecordBatchReader.from_stream(found).read_all().to_pylist()
    return rows
