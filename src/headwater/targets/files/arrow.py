"""Arrow IPC files, and Parquet files with a codec that Spark has not: pyarrow writes them in Spark's workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import NativeFile

from headwater.core.spec import Export
from headwater.targets.files.base import FileFormat


def _read(file: NativeFile, schema: pa.Schema, definition: Export) -> Iterator[pa.RecordBatch]:
    opened = pa.ipc.open_file(file)
    for number in range(opened.num_record_batches):
        yield opened.get_batch(number)


def arrow_writer(sink: NativeFile, schema: pa.Schema, definition: Export) -> Any:
    """Called in a worker for each file: what takes its batches."""
    codec = definition.compression or "none"
    return pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec))


def parquet_writer(sink: NativeFile, schema: pa.Schema, definition: Export) -> Any:
    """The same for a file of Parquet."""
    parquet = definition.parquet
    codec = definition.compression or parquet.compression or "snappy"
    return pq.ParquetWriter(
        sink, schema, compression=codec, use_dictionary=parquet.dictionary is not False, coerce_timestamps="us"
    )


ARROW_FILES = FileFormat("arrow", ".arrow", "arrow", "pyarrow", _read, writer=lambda definition: arrow_writer)
