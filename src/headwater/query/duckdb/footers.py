"""Whether files hold a table's columns as the table has them: then DuckDB needs no word about them, and is quicker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.formats.file_scan import ScannedFile
from headwater.schema.arrow import spark_type

MOST_FILES = 64
"""Of more files not every footer is looked at."""

_ID = b"PARQUET:field_id"


def hold_as_they_are(
    files: Sequence[ScannedFile], schema: pa.Schema, columns: Sequence[str], field_ids: Mapping[str, int] | None
) -> bool:
    """Whether every file has these columns, in the table's types and under its names."""
    if len(files) > MOST_FILES:
        return False
    for file in files:
        found, _ = _footer(file.path, file.bytes)
        for name in columns:
            if name not in found or not found[name][0].equals(schema.field(name).type):
                return False
            if field_ids is not None and found[name][1] != str(field_ids[name]):
                return False
    return True


def bound_nan(files: Sequence[ScannedFile]) -> bool:
    """Whether the bounds of these files mind NaN for certain.

    Spark's writer leaves the bounds of a column with NaN out. Others leave NaN out of the bounds, and DuckDB trusts
    them: it would miss that NaN is above every number.
    """
    return len(files) <= MOST_FILES and all(_footer(file.path, file.bytes)[1] for file in files)


@lru_cache(maxsize=4096)
def _footer(path: str, size: int) -> tuple[dict[str, tuple[pa.DataType, str | None]], bool]:
    """Name → (type, id) of a file's columns, and whether Spark's library wrote it. Files are written once: the path
    tells them apart."""
    with pq.ParquetFile(path) as file:
        schema, writer = file.schema_arrow, str(file.metadata.created_by or "")
    found: dict[str, tuple[pa.DataType, str | None]] = {}
    for field in schema:
        number = (field.metadata or {}).get(_ID)
        # Moments in another unit (INT96) are left to the slower way, which converts them.
        exact = not pa.types.is_timestamp(field.type) or field.type.unit == "us"
        if exact:
            found[field.name] = (spark_type(field.type), None if number is None else number.decode())
    return found, writer.startswith("parquet-mr")
