"""Arrow types of a schema in Spark's JSON. Never imports pyspark."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from headwater.core.errors import Unsupported
from headwater.formats.parquet.log import Schema
from headwater.schema.arrow import PLAIN_TYPES

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FAR_YEAR = re.compile(r"[+-]|0000|\d{5}")
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
    if _FAR_YEAR.match(text) and (pa.types.is_timestamp(t) or pa.types.is_date(t)):
        raise Unsupported(f"the partition {text} is of a year beyond 1 to 9999")
    if pa.types.is_timestamp(t) and t.tz:
        return pa.scalar(text).cast(pa.timestamp("us")).cast(t)  # folders are named in UTC
    return pa.scalar(text).cast(t)
