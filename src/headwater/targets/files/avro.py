"""Avro files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import NativeFile

from headwater.core.spec import Export
from headwater.targets.files.base import FileFormat

_ROWS = 20_000
_CODECS = {"none": "uncompressed", "zstd": "zstandard"}
"""Avro's own words for what others call otherwise."""


def _read(file: NativeFile, schema: pa.Schema, definition: Export) -> Iterator[pa.RecordBatch]:
    opened: Any = fastavro.reader(file)
    while some := list(islice(opened, _ROWS)):
        yield pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names} for row in some], schema)


def _options(definition: Export) -> Mapping[str, str]:
    codec = definition.compression or "deflate"
    return {"compression": _CODECS.get(codec, codec)}


AVRO_FILES = FileFormat("avro", ".avro", "avro", "fastavro", _read, _options)
