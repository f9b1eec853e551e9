"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import NativeFile

from headwater.core.spec import Export
from headwater.targets.files.arrow import parquet_writer
from headwater.targets.files.base import FileFormat, OpenWriter


def _read(file: NativeFile, schema: pa.Schema, definition: Export) -> Iterator[pa.RecordBatch]:
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    yield from pq.ParquetFile(file, read_dictionary=texts).iter_batches(columns=schema.names)


def _options(definition: Export) -> Mapping[str, str]:
    parquet = definition.parquet
    found: dict[str, str | None] = {
        "compression": definition.compression or parquet.compression,
        "parquet.block.size": None if parquet.row_group_size is None else str(parquet.row_group_size),
        "parquet.enable.dictionary": None if parquet.dictionary is None else str(parquet.dictionary).lower(),
    }
    found |= {f"parquet.bloom.filter.enabled#{name}": "true" for name in parquet.bloom_filter}
    return {key: value for key, value in found.items() if value is not None}


def _writer(definition: Export) -> OpenWriter | None:
    """Spark has no codec for brotli."""
    return parquet_writer if "brotli" in (definition.compression, definition.parquet.compression) else None


PARQUET_FILES = FileFormat("parquet", ".parquet", "parquet", "pyarrow", _read, _options, writer=_writer)
