"""Arrow types as Spark has them, for every format's light side."""

from __future__ import annotations

import pyarrow as pa

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
}
"""Spark's plain types, as its JSON names them."""


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
