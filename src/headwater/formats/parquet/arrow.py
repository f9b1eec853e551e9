"""Arrow types of a schema in Spark's JSON, and arrays brought to them. Never imports pyspark."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Unsupported
from headwater.formats.arrow import PLAIN_TYPES
from headwater.formats.parquet.log import Schema

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SIZED_TEXT = re.compile(r"(var)?char\(\d+\)")


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(f["name"], arrow_type(f["type"])) for f in schema["fields"]])


def arrow_type(t: Any) -> pa.DataType:
    """One Arrow type per Spark type; a type that Arrow has no equal of is refused."""
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
        raise Unsupported(f"the light reader knows no Arrow type for {t}")
    return pa.decimal128(int(decimal.group(1)), int(decimal.group(2)))


def from_text(text: str | None, t: pa.DataType) -> pa.Scalar:
    """A partition's value from its folder's name."""
    if text is None:
        return pa.scalar(None, t)
    if pa.types.is_timestamp(t) and t.tz:
        return pa.scalar(text).cast(pa.timestamp("us")).cast(t)  # folders are named in UTC
    return pa.scalar(text).cast(t)


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
        keys, items = conformed(array.keys, t.key_type), conformed(array.items, t.item_type)
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
