"""What files of text have in common: how times are written, and how packed files are read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import NativeFile

from headwater.core.spec import Export

TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "dateFormat": "yyyy-MM-dd",
    "lineSep": "\n",
}
TEXT_CODECS = frozenset({"none", "gzip", "bzip2"})
_ARROW = {"gzip": "gzip", "bzip2": "bz2"}


def unpacked(file: NativeFile, definition: Export) -> Any:
    """A file's text, whatever it is packed with."""
    codec = _ARROW.get(definition.compression or "none")
    return file if codec is None else pa.CompressedInputStream(file, codec)
