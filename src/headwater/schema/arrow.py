"""Arrow types as Spark has them, and arrays cast to them. Never imports pyspark."""

from __future__ import annotations

import re
import sys
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import Code, TerminalError, Unsupported, did_you_mean

PLAIN_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
"""Spark's plain types, as its JSON names them."""
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SIZED_TEXT = re.compile(r"(var)?char\(\d+\)")


def arrow_type(t: Any) -> pa.DataType:
    """The Arrow type of one of Spark's in its JSON; a type that Arrow has no equal of is refused."""
    if isinstance(t, dict) and t["type"] == "struct":
        return pa.struct([pa.field(f["name"], arrow_type(f["type"])) for f in t["fields"]])
    if isinstance(t, dict) and t["type"] == "array":
        return pa.list_(pa.field("element", arrow_type(t["elementType"])))
    if isinstance(t, dict) and t["type"] == "map":
        return pa.map_(arrow_type(t["keyType"]), arrow_type(t["valueType"]))
    if isinstance(t, str) and t in PLAIN_TYPES:
        return PLAIN_TYPES[t]
    if isinstance(t, str) and _SIZED_TEXT.fullmatch(t):
        return pa.string()
    decimal = _DECIMAL.fullmatch(t) if isinstance(t, str) else None
    if decimal is None:
        raise Unsupported(f"there is no Arrow type for {t}")
    return pa.decimal128(int(decimal.group(1)), int(decimal.group(2)))


def as_spark(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The types that Spark would give: plain strings, lists and binaries, timestamps in UTC microseconds."""
    schema = pa.schema([pa.field(f.name, spark_type(f.type), f.nullable) for f in reader.schema])
    batches = (
        pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(b.columns, schema, strict=True)], schema=schema)
        for b in reader
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def spark_type(t: pa.DataType) -> pa.DataType:
    """One Arrow type per Spark type."""
    if pa.types.is_string_view(t) or pa.types.is_large_string(t):
        return pa.string()
    if pa.types.is_binary_view(t) or pa.types.is_large_binary(t):
        return pa.binary()
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", tz="UTC" if t.tz else None)
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, spark_type(f.type), f.nullable) for f in t])
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.list_(pa.field("element", spark_type(t.value_type), t.value_field.nullable))
    if pa.types.is_map(t):
        return pa.map_(spark_type(t.key_type), spark_type(t.item_type))
    if pa.types.is_dictionary(t):
        return spark_type(t.value_type)
    return t


_DAYS = (date.min.toordinal() - date(1970, 1, 1).toordinal(), date.max.toordinal() - date(1970, 1, 1).toordinal())
"""The first and last day of Python, since 1970."""
_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def within_python(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The array with NULL for days and times that Python has no value for: its years are 1 to 9999."""
    kind, (first, last) = array.type, _DAYS
    if pa.types.is_timestamp(kind) and kind.unit in _A_DAY:
        first, last = first * _A_DAY[kind.unit], (last + 1) * _A_DAY[kind.unit] - 1
    elif not pa.types.is_date32(kind):
        return array
    within = pc.and_(pc.greater_equal(array, _scalar(first, kind)), pc.less_equal(array, _scalar(last, kind)))
    return pc.if_else(within, array, pa.nulls(1, kind)[0])


def _scalar(number: int, kind: pa.DataType) -> pa.Scalar:
    """A day or time by its number. `pa.scalar` would load pandas, which takes half a second."""
    bits = number.to_bytes(kind.bit_width // 8, sys.byteorder, signed=True)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bits)])[0]


def fitted(rows: pa.Table, schema: pa.Schema, address: object) -> pa.Table:
    """The columns of `schema` in its order, missing ones as nulls; what has no place in it is an error."""
    _refuse_unknown(rows.schema, schema, address)
    arrays = []
    for wanted in schema:
        if wanted.name in rows.schema.names:
            array = _fitted(rows[wanted.name].combine_chunks(), wanted, address)
        else:
            array = pa.nulls(rows.num_rows, wanted.type)
        if array.null_count and not wanted.nullable:
            raise TerminalError(Code.SCHEMA_MISMATCH, f"column '{wanted.name}' of {address} must have a value")
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema)


def _fitted(array: pa.Array, wanted: pa.Field, address: object) -> pa.Array:
    try:
        return conformed(array, wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TerminalError(
            Code.SCHEMA_MISMATCH,
            f"column '{wanted.name}' of {address} is {wanted.type}, and a value does not fit: {error}",
        ) from error


def _refuse_unknown(fields: pa.Schema | pa.StructType, known: pa.Schema | pa.StructType, address: object) -> None:
    """Arrow's structs would lose a field that the table does not have."""
    names = [f.name for f in known]
    for f in fields:
        if f.name not in names:
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"{address} has no column '{f.name}'",
                hint=did_you_mean(f.name, names) + " (evolve the table first)",
            )
        wanted = known.field(f.name).type
        inner = f.type
        while inner.id == wanted.id and (pa.types.is_list(inner) or pa.types.is_map(inner)):
            inner, wanted = _element(inner), _element(wanted)
        if pa.types.is_struct(inner) and pa.types.is_struct(wanted):
            _refuse_unknown(inner, wanted, address)


def _element(t: pa.DataType) -> pa.DataType:
    return t.item_type if pa.types.is_map(t) else t.value_type


def conformed(array: pa.Array, t: pa.DataType) -> pa.Array:
    """The array in the type, at every depth by name: fields it lacks are null, narrower types are cast.

    Arrow's own cast of structs goes by position in places, so that it is not asked to.
    """
    if array.type.equals(t):
        return array
    if pa.types.is_struct(t):
        have = {array.type.field(i).name: i for i in range(array.type.num_fields)}
        children = [
            conformed(_child(array, have[f.name]), f.type) if f.name in have else pa.nulls(len(array), f.type)
            for f in t
        ]
        return pa.StructArray.from_arrays(children, fields=list(t), mask=array.is_null())
    if pa.types.is_list(t):
        array = _compact(array)
        values = conformed(array.values, t.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=t, mask=_mask(array))
    if pa.types.is_map(t):
        array = _compact(array)
        entries = (array.keys, array.items) if pa.types.is_map(array.type) else array.values.flatten()
        keys, items = (conformed(one, part) for one, part in zip(entries, (t.key_type, t.item_type), strict=True))
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=t, mask=_mask(array))
    return array.cast(t)


def _child(array: pa.StructArray, index: int) -> pa.Array:
    # `field` shows what lies under a null struct; `flatten` does not, and minds slices.
    return array.flatten()[index]


def _compact(array: pa.Array) -> pa.Array:
    """The same values from offset 0, as building from offsets wants it."""
    return pc.take(array, pa.array(range(len(array)), pa.int64())) if array.offset else array


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
