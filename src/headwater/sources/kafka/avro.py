"""Avro: under the schema that each record names in its registry, or under one from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from headwater.core.errors import Code, UsageError
from headwater.schema.merge import widened
from headwater.schema.types import covers
from headwater.sources.decoders.base import DECODE, EVENT, PROBLEM, RAW, Decoder
from headwater.sources.decoders.typed import PROBLEM_TYPE, conform, problem
from headwater.sources.kafka.registry import Schema, SchemaRegistry
from headwater.sources.kafka.wire_format import body, schema_id

FIELD = "value"
"""The field that a payload which is no record stands in."""
_PARSED = "_headwater_avro"
_WRAPPER = "HeadwaterWrapper"
_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True)
class WriterSchema:
    """A schema that records are written with, in a record of one field: its bytes are the same, and the field is NULL
    exactly where the bytes don't fit. (Spark gives a struct of NULLs for them otherwise.)"""

    wrapped: str
    type: DataType | None
    """As Spark has it; None where Spark can't."""
    why: str = ""

    @property
    def event_type(self) -> StructType:
        if self.type is None:
            return StructType()
        return self.type if isinstance(self.type, StructType) else StructType([StructField(FIELD, self.type)])

    def parsed(self, bytes: Column) -> Column:
        from pyspark.sql.avro.functions import from_avro

        return from_avro(bytes, self.wrapped, {"mode": "PERMISSIVE"}).getField(FIELD)

    def event(self, parsed: Column) -> Column:
        return (
            parsed if isinstance(self.type, StructType) else F.when(parsed.isNotNull(), F.struct(parsed.alias(FIELD)))
        )


class AvroDecoder(Decoder):
    """Every writer's schema is tried on its own records only; which ones there are is learned when a new id shows
    up."""

    def __init__(self, spark: SparkSession, registry: SchemaRegistry | None, fixed: str | None) -> None:
        self._spark = spark
        self._registry = registry
        self._fixed = None if fixed is None else self._writer(Schema("AVRO", fixed))
        self._writers: dict[int, WriterSchema] = {}

    @staticmethod
    def of_file(spark: SparkSession, path: str, text: str) -> AvroDecoder:
        found = AvroDecoder(spark, None, text)
        fixed = found._fixed
        if fixed is None or fixed.type is None:
            raise UsageError(Code.INVALID_VALUE, f"{path} is no Avro schema that can be read: {fixed and fixed.why}")
        return found

    @property
    def inferred(self) -> int:
        return 0 if self._registry is None else len(self._registry.known)

    def detect(self, records: DataFrame) -> StructType:
        if self._fixed is not None:
            return self._fixed.event_type
        found = StructType()
        for id in self._learn(records, F.col(RAW)):
            if id in self.writers:
                joined = widened(found, self.writers[id].event_type)
                assert isinstance(joined, StructType)
                found = joined
        return found

    def _learn(self, records: DataFrame, raw: Column) -> list[int]:
        """Ask the registry for the schemas of these records; returns their ids."""
        if self._registry is None:
            return []
        rows = records.select(schema_id(raw).alias("id")).where("id IS NOT NULL").distinct().collect()
        ids = sorted(row.id for row in rows)
        self._registry.learn(ids)
        return ids

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        decoded = records
        events: list[Column] = []
        cast_failures: list[Column] = []
        for id, writer in self.usable.items():
            column = f"{_PARSED}_{id}"
            decoded = decoded.withColumn(column, self._parsed(id, writer, F.col(RAW)))
            event = conform(writer.event(F.col(column)), writer.event_type, schema, "", cast_failures)
            events.append(F.when(F.col(column).isNotNull(), event).cast(schema))
        event = F.coalesce(*events, F.lit(None).cast(schema))
        told = F.coalesce(
            F.when(event.isNull(), self._unreadable(F.col(RAW))), *cast_failures, F.lit(None).cast(PROBLEM_TYPE)
        )
        return decoded.select(*records.columns, event.alias(EVENT), told.alias(PROBLEM))

    def unknown(self, schema: StructType) -> Column | None:
        if self._fixed is not None:
            return None if covers(schema, self._fixed.event_type) else F.lit(True)
        return self._is_new(F.col(RAW), [id for id, one in self.writers.items() if covers(schema, one.event_type)])

    # --- keys

    def learn_keys(self, records: DataFrame, column: str) -> None:
        self._learn(records, F.col(column))

    def new_key(self, column: str) -> Column:
        return self._is_new(F.col(column))

    def with_key_texts(self, records: DataFrame, column: str, text: str, why: str) -> DataFrame:
        """A record as JSON, anything else as it is."""
        raw = F.col(column)
        texts = []
        for id, writer in self.usable.items():
            parsed = self._parsed(id, writer, raw)
            as_json = F.to_json(parsed, {"ignoreNullFields": "false"})
            texts.append(as_json if isinstance(writer.type, StructType) else parsed.cast("string"))
        found = records.withColumn(text, F.coalesce(*texts, F.lit(None).cast("string")))
        return found.withColumn(why, F.when(raw.isNotNull() & F.col(text).isNull(), self._unreadable(raw)))

    # --- inside

    def _is_new(self, raw: Column, known: list[int] | None = None) -> Column:
        """Whether the registry has to be asked."""
        if self._registry is None:
            return F.lit(False)
        ids = list(self.writers) if known is None else known
        id = schema_id(raw)
        return id.isNotNull() & ~id.isin(ids) if ids else id.isNotNull()

    def _unreadable(self, raw: Column) -> Column:
        """Why bytes could not be decoded."""
        if self._registry is None:
            return problem(DECODE, "the bytes do not fit the Avro schema")
        id = schema_id(raw)
        missing = F.concat(F.lit("schema id "), id, F.lit(f" is not in the registry {self._registry.address}"))
        why = F.when(id.isNull(), problem(DECODE, "no registry framing: the first byte is not 0"))
        for number, writer in self.writers.items():
            if writer.type is None:
                why = why.when(id == number, problem(DECODE, f"schema id {number} can't be used: {writer.why}"))
        bad = F.concat(F.lit("the bytes do not fit schema id "), id)
        why = why.when(id.isin(list(self.writers)), problem(DECODE, bad)) if self.writers else why
        return why.otherwise(problem(DECODE, missing))

    @property
    def writers(self) -> Mapping[int, WriterSchema]:
        """By id; the one of a file goes by -1."""
        if self._fixed is not None:
            return {-1: self._fixed}
        known = self._registry.known if self._registry is not None else {}
        for id, schema in known.items():
            if id not in self._writers:
                self._writers[id] = self._writer(schema)
        return self._writers

    @property
    def usable(self) -> Mapping[int, WriterSchema]:
        return {id: writer for id, writer in self.writers.items() if writer.type is not None}

    def _parsed(self, id: int, writer: WriterSchema, raw: Column) -> Column:
        return writer.parsed(raw) if self._fixed is not None else F.when(schema_id(raw) == id, writer.parsed(body(raw)))

    def _writer(self, schema: Schema) -> WriterSchema:
        if schema.kind != "AVRO":
            return WriterSchema("", None, f"it is {schema.kind} and not Avro")
        try:
            wrapped = wrapped_schema(schema)
        except ValueError as error:
            return WriterSchema("", None, str(error))
        writer = WriterSchema(wrapped, StructType())
        try:
            found = self._spark.range(0).select(writer.parsed(F.lit(b"")).alias(FIELD)).schema[FIELD].dataType
        except (PySparkException, Py4JJavaError) as error:
            return WriterSchema("", None, str(error).splitlines()[0])
        return WriterSchema(wrapped, found)


def wrapped_schema(schema: Schema) -> str:
    """The schema, with those that it refers to put in where they are first used, as the one field of a record."""
    named = {name: json.loads(text) for name, text in schema.references}
    whole = _inlined(json.loads(schema.text), named, "")
    return json.dumps({"type": "record", "name": _WRAPPER, "fields": [{"name": FIELD, "type": whole}]})


def _inlined(schema: Any, named: dict[str, Any], space: str) -> Any:
    if isinstance(schema, str):
        full = schema if "." in schema or not space else f"{space}.{schema}"
        name = next((name for name in (full, schema) if name in named), None)
        return schema if schema in _PRIMITIVE or name is None else _inlined(named.pop(name), named, space)
    if isinstance(schema, list):
        return [_inlined(arm, named, space) for arm in schema]
    space = schema.get("namespace", space)
    found = dict(schema)
    for inner in ("items", "values"):
        if inner in found:
            found[inner] = _inlined(found[inner], named, space)
    if "fields" in found:
        found["fields"] = [{**field, "type": _inlined(field["type"], named, space)} for field in found["fields"]]
    elif isinstance(found.get("type"), (dict, list)):
        found["type"] = _inlined(found["type"], named, space)
    return found
