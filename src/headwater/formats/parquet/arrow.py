"""Arrow types of a schema in Spark's JSON. Never imports pyspark."""

from __future__ import annotations

import re

import pyarrow as pa

from headwater.core.errors import Unsupported
from headwater.formats.parquet.log import Schema
from headwater.schema.arrow import arrow_type

_FAR_YEAR = re.compile(r"[+-]|0000|\d{5}")


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(f["name"], arrow_type(f["type"])) for f in schema["fields"]])


def from_text(text: str | None, t: pa.DataType) -> pa.Scalar:
    """A partition's value from its folder's name."""
    if text is None:
        return pa.scalar(None, t)
    if _FAR_YEAR.match(text) and (pa.types.is_timestamp(t) or pa.types.is_date(t)):
        raise Unsupported(f"the partition {text} is of a year beyond 1 to 9999")
    if pa.types.is_timestamp(t) and t.tz:
        return pa.scalar(text).cast(pa.timestamp("us")).cast(t)  # folders are named in UTC
    return pa.scalar(text).cast(t)
