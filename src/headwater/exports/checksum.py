"""The checksum of an export: the same from Spark's rows and from those of a reader that is not Spark.

Each column of a row goes into a 64-bit hash of its own, begun with the column's number; the hashes of a row are joined
and hashed again, and those of all rows are added up. So neither the order of rows nor of files counts, and a value that
has changed, moved to another row or to another column does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.exports.row_hashes import SEED, Hashes, hash_array, hash_int, hash_long
from headwater.schema.types import has_map
from headwater.spark.frames import column, observed
from headwater.targets.base import Checksum

_BITS = 24
_PIECE = 16_384
"""Rows of a column that are hashed at a time."""
_NESTED = (ArrayType, MapType, StructType)


def measure(rows: DataFrame) -> Checksum:
    """Count the rows and sum them up, by a job of its own."""
    [found] = rows.agg(*_sums(rows)).collect()
    return _checksum(found.asDict())


def measured_on_the_way(rows: DataFrame) -> tuple[DataFrame, Callable[[], Checksum]]:
    """The same rows, summed up by the job that writes them; the result may be asked for once that is done."""
    rows, result = observed(rows, _sums(rows))
    return rows, lambda: _checksum(result())


def measure_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Checksum:
    """The same of Arrow batches, whose columns are brought to the types of `schema` first: a value that does not fit
    there raises."""
    rows, total = 0, 0
    for batch in batches:
        rows += batch.num_rows
        if batch.num_rows:
            total = (total + int(_row_hashes(batch, schema).sum(dtype=np.uint64))) % 2**64
    return Checksum(rows, f"{total:016x}")


def _sums(rows: DataFrame) -> list[Column]:
    hashes = [part for number, f in enumerate(rows.schema.fields) for part in _parts(number, f.name, f.dataType)]
    joined = F.lit(0).cast("bigint")
    for one in hashes:
        joined = joined.bitwiseXOR(one)
    row = F.xxhash64(joined)
    # In parts, so that no sum overflows before there are 2^39 rows.
    parts = [F.shiftrightunsigned(row, _BITS * i).bitwiseAND(2**_BITS - 1) for i in range(3)]
    return [F.count(F.lit(1)).alias("rows"), *(F.sum(part).alias(f"sum_{i}") for i, part in enumerate(parts))]


def _parts(number: int, name: str, kind: DataType) -> list[Column]:
    value = column(name)
    found = [F.xxhash64(F.lit(number), _without_maps(value, kind))]
    if isinstance(kind, _NESTED):  # an empty list and none at all have the same hash
        found.append(F.xxhash64(F.lit(-1 - number), value.isNull()))
    return found


def _without_maps(value: Column, kind: DataType) -> Column:
    """Spark hashes no maps: their entries stand for them, in the order that they are stored in."""
    if not has_map(kind):
        return value
    if isinstance(kind, MapType):
        entries = F.map_entries(value)
        if not has_map(kind.keyType) and not has_map(kind.valueType):
            return entries
        parts = ("key", kind.keyType), ("value", kind.valueType)
        return F.transform(entries, lambda one: F.struct(*(_without_maps(one[n], t).alias(n) for n, t in parts)))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda one: _without_maps(one, element))
    assert isinstance(kind, StructType)
    fields = (_without_maps(value[f.name], f.dataType).alias(f.name) for f in kind.fields)
    return F.when(value.isNotNull(), F.struct(*fields))


def _checksum(found: dict[str, int | None]) -> Checksum:
    total = sum((found[f"sum_{i}"] or 0) << (_BITS * i) for i in range(3))
    return Checksum(found["rows"] or 0, f"{total % 2**64:016x}")


def _row_hashes(batch: pa.RecordBatch, schema: pa.Schema) -> Hashes:
    joined = np.zeros(batch.num_rows, np.uint64)
    for number, field in enumerate(schema):
        array = _as(batch.column(batch.schema.get_field_index(field.name)), field.type)
        joined ^= _column_hashes(array, _seeds(number, batch.num_rows))
        if pa.types.is_nested(field.type):
            missing = pc.cast(pc.is_null(array), pa.uint8()).to_numpy(zero_copy_only=False).astype(np.uint64)
            joined ^= hash_int(missing, _seeds(-1 - number, batch.num_rows))
    return hash_long(joined, np.full(batch.num_rows, SEED, np.uint64))


def _column_hashes(array: pa.Array, seeds: Hashes) -> Hashes:
    """Piece by piece: what a processor's own memory holds is hashed several times as fast."""
    if isinstance(array, pa.DictionaryArray) or len(array) <= _PIECE:
        return hash_array(array, seeds)
    pieces = range(0, len(array), _PIECE)
    return np.concatenate([hash_array(array.slice(at, _PIECE), seeds[at : at + _PIECE]) for at in pieces])


def _seeds(number: int, rows: int) -> Hashes:
    seed = hash_int(np.array([number & 0xFFFFFFFF], np.uint64), np.array([SEED], np.uint64))
    return np.full(rows, seed[0], np.uint64)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values with the source's type; dictionaries stay as they are, since they are hashed once a value."""
    if isinstance(array, pa.DictionaryArray) and array.type.value_type == kind:
        return array
    return array if array.type == kind else array.cast(kind)
