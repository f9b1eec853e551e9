"""ORC files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyarrow import NativeFile
from pyarrow.orc import ORCFile

from headwater.core.spec import Export
from headwater.targets.files.base import FileFormat


def _read(file: NativeFile, schema: pa.Schema, definition: Export) -> Iterator[pa.RecordBatch]:
    opened = ORCFile(file)
    for number in range(opened.nstripes):
        yield opened.read_stripe(number, columns=schema.names)


def _options(definition: Export) -> Mapping[str, str]:
    return {} if definition.compression is None else {"compression": definition.compression}


ORC_FILES = FileFormat("orc", ".orc", "orc", "pyarrow", _read, _options)
