"""Rows as records: keys and values in JSON or Avro, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.model import DELETED
from headwater.core.storage import Files
from headwater.sources.kafka.registry import SchemaRegistry
from headwater.spark.frames import column
from headwater.targets.json_columns import as_json, require_json
from headwater.targets.json_values import converter, parse
from headwater.targets.kafka.address import KafkaAddress
from headwater.targets.kafka.avro import avro_schema, decoded, encoded, register

KEY, VALUE = "key", "value"
_BATCH = 10_000


class JsonValues:
    """Each value a JSON object; times with their zone, binary values in base64."""

    def check(self, schema: StructType) -> None:
        for field in schema.fields:
            require_json(field.dataType, field.name)

    def encode(self, struct: Column, schema: StructType, part: str) -> Column:
        return F.encode(as_json(struct), "utf-8")

    def decode(self, values: Iterable[bytes], kind: pa.StructType) -> Iterator[object]:
        convert = converter(kind)
        return (convert(parse(value)) for value in values)


class AvroValues:
    """Each value an Avro record under a schema in the registry."""

    def __init__(self, address: KafkaAddress, home: str) -> None:
        cluster = address.cluster
        assert cluster.schema_registry is not None
        self._topic = address.topic
        self._registry = SchemaRegistry(
            cluster.schema_registry, cluster.schema_registry_auth, Files(f"{home}/exports"), address.where
        )
        self._written = ""
        """The schema that values were last written with."""

    def check(self, schema: StructType) -> None:
        avro_schema(schema, self._topic, VALUE)

    def encode(self, struct: Column, schema: StructType, part: str) -> Column:
        text = avro_schema(schema, self._topic, part)
        id = register(self._registry, f"{self._topic}-{part}", text)
        if part == VALUE:
            self._written = text
        return encoded(struct, text, id)

    def decode(self, values: Iterable[bytes], kind: pa.StructType) -> Iterator[object]:
        return decoded(values, self._written, kind)


Values = JsonValues | AvroValues


def records(rows: DataFrame, key: Sequence[str], values: Values) -> DataFrame:
    """The key and the value of each row; a deleted one has no value, which is a tombstone."""
    fields = [field for field in rows.schema.fields if field.name != DELETED]
    schema = StructType(fields)
    value = values.encode(F.struct(*(column(field.name) for field in fields)), schema, VALUE)
    if DELETED in rows.columns:
        value = F.when(~column(DELETED), value)
    of_key = F.lit(None).cast("binary")
    if key:
        own = StructType([schema[name] for name in key])
        of_key = values.encode(F.struct(*(column(name) for name in key)), own, KEY)
    return rows.select(of_key.alias(KEY), value.alias(VALUE))


def batches_of(values: Iterable[bytes], schema: pa.Schema, codec: Values) -> Iterator[pa.RecordBatch]:
    """Values as a consumer has read them, in the source's columns."""
    kind = pa.struct(list(schema))
    held: list[object] = []
    for row in codec.decode(values, kind):
        held.append(row)
        if len(held) == _BATCH:
            yield _batch(held, kind, schema)
            held = []
    if held:
        yield _batch(held, kind, schema)


def _batch(rows: list[object], kind: pa.StructType, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(pa.array(rows, kind).flatten(), names=schema.names)
