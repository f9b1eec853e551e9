"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import NativeFile

from headwater.core.spec import Export
from headwater.targets.files.arrow import parquet_writer
from headwater.targets.files.base import FileFormat, OpenWriter

_BATCH = 131_072


def _read(file: NativeFile, schema: pa.Schema, definition: Export) -> Iterator[pa.RecordBatch]:
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    # Where a dictionary has grown too large, the rest of the values are plain.
    plain = {chunk.path_in_schema for chunk in chunks if "PLAIN" in chunk.encodings or not chunk.has_dictionary_page}
    file.seek(0)
    opened = pq.ParquetFile(file, read_dictionary=sorted(texts - plain))
    yield from opened.iter_batches(columns=schema.names, batch_size=_BATCH)


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
