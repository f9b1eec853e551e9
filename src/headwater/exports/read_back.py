"""The proof of an export: readers that are not Headwater's find the source's rows, value by value."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.core.errors import Code, HeadwaterError, IntegrityError
from headwater.core.record import Record
from headwater.exports.checksum import measure, measure_batches
from headwater.schema.arrow import arrow_type
from headwater.targets.base import Checksum, ForeignReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ReadBack(Record):
    """What one reader has found."""

    reader: str
    """Its name and version."""
    rows: int
    checksum: str
    seconds: float


def schema_of(schema: StructType) -> pa.Schema:
    """The columns as Arrow has them: what a reader's values are brought to."""
    return pa.schema([pa.field(f.name, arrow_type(f.dataType.jsonValue())) for f in schema.fields])


def read_back(
    readers: Iterable[ForeignReader],
    schema: StructType,
    expected: Checksum,
    location: str,
    before: Mapping[str, Checksum] | None = None,
) -> tuple[ReadBack, ...]:
    """Have each reader read the copy; EXPORT_MISMATCH names the first that finds something else. `before`: what each
    has found there already."""
    found = []
    for reader in readers:
        one = _read(reader, schema, location)
        there = (before or {}).get(one.reader)
        if there is not None:
            one = replace(one, rows=one.rows - there.rows, checksum=_less(one.checksum, there.value))
        found.append(one)
        if (one.rows, one.checksum) != (expected.rows, expected.value):
            raise IntegrityError(
                Code.EXPORT_MISMATCH,
                f"{one.reader} reads {one.rows} rows (checksum {one.checksum}) in {location}, and {expected.rows} "
                f"(checksum {expected.value}) were exported: the target is as before",
                hint="export to another format, or leave out the columns that the reader reads otherwise",
            )
    return tuple(found)


def found_before(readers: Iterable[ForeignReader], schema: StructType, location: str) -> dict[str, Checksum]:
    """What each reader finds in a target that rows are going to be appended to."""
    found = (_read(reader, schema, location) for reader in readers)
    return {one.reader: Checksum(one.rows, one.checksum) for one in found}


def _less(checksum: str, other: str) -> str:
    return f"{(int(checksum, 16) - int(other, 16)) % 2**64:016x}"


def _read(reader: ForeignReader, schema: StructType, location: str) -> ReadBack:
    begun = time.monotonic()
    try:
        if reader.frame is not None:
            found = measure(reader.frame().select(*(f"`{name}`" for name in schema.names)))
        else:
            assert reader.batches is not None
            wanted = schema_of(schema)
            found = measure_batches(reader.batches(wanted), wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError, TypeError) as error:
        raise IntegrityError(
            Code.EXPORT_MISMATCH,
            f"{reader} can't read {location} as it was exported: {error}",
            hint="export to another format, or give the column another type: `schema`",
        ) from error
    except HeadwaterError:
        raise
    return ReadBack(str(reader), found.rows, found.value, round(time.monotonic() - begun, 3))
