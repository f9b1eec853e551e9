"""Debezium's envelope, as JSON (with or without its schema) or Avro, as the columns of a CDC topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

from headwater.schema.merge import widened
from headwater.sources.decoders.base import CAST_FAILURES, DECODE, EVENT, PROBLEM, Decoder
from headwater.sources.decoders.typed import problem

OP = "_op"
UNCHANGED = "_unchanged"
PLACEHOLDER = "__debezium_unavailable_value"
ENCODED_PLACEHOLDER = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
"""The same in Base64, as bytes are written in JSON."""

_WRAPPED = r'(?s)^\s*\{\s*"schema"\s*:.*?,\s*"payload"\s*:\s*(.*)\}\s*$'
_IS_WRAPPED = r'(?s)^\s*\{\s*"schema"\s*:\s*(\{|null)'
_IMAGES = ("before", "after")
_NEW = "_headwater_new_in_envelope"


def payload_of(raw: Column) -> Column:
    """The envelope itself, where it comes with its schema. Cut out as it is: parsing it would round its numbers."""
    text = raw.cast("string")
    return F.when(text.rlike(_IS_WRAPPED), F.regexp_extract(text, _WRAPPED, 1).cast("binary")).otherwise(raw)


class DebeziumDecoder(Decoder):
    """Over a decoder of the envelope: `op` becomes `_op` with `i` for Debezium's `c`, and columns that the database did
    not send (unchanged and stored out of line) are NULL and named in `_unchanged`. The rest stays as it is."""

    def __init__(self, inner: Decoder) -> None:
        self._inner = inner
        self.textual = inner.textual

    @property
    def inferred(self) -> int:
        return self._inner.inferred

    def detect(self, records: DataFrame) -> StructType:
        found = {f.name: f.dataType for f in self._inner.detect(records).fields}
        if "op" not in found:
            return StructType()
        # The images are of one table: a column that only one of them has had so far belongs to both.
        images = [found[name] for name in _IMAGES if isinstance(found.get(name), StructType)]
        image: DataType | None = None
        for one in images:
            image = one if image is None else widened(image, one)
        fields = [StructField(OP, StringType())]
        if image is not None:
            fields += [StructField(name, image) for name in _IMAGES]
        fields.append(StructField(UNCHANGED, ArrayType(StringType())))
        used = {"op", *(_IMAGES if image is not None else ())}
        return StructType(fields + [StructField(name, one) for name, one in found.items() if name not in used])

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        envelope = _envelope(schema)
        inner = self._inner.decode(records, envelope)
        new = self._inner.unknown(envelope)
        known = F.lit(False) if new is None else F.coalesce(new, F.lit(False))
        event = F.col(EVENT)
        is_envelope = event.isNotNull() & (event["op"].isNotNull() if "op" in envelope.names else F.lit(False))
        no_envelope = problem(DECODE, "no Debezium envelope: it has no `op` (was it flattened on the way?)")
        told = F.when(event.isNotNull() & ~is_envelope, no_envelope).otherwise(F.col(PROBLEM))
        changed = F.when(is_envelope, _event(event, envelope, schema)).cast(schema)
        columns = [F.col(name) for name in records.columns]
        cast_failures = [F.col(CAST_FAILURES)] if CAST_FAILURES in inner.columns else []
        return inner.select(*columns, changed.alias(EVENT), told.alias(PROBLEM), *cast_failures, known.alias(_NEW))

    def beyond(self, schema: StructType, raw: Column) -> Column | None:
        return self._inner.beyond(_envelope(schema), raw)

    @property
    def width(self) -> Column | None:
        return self._inner.width

    def unknown(self, schema: StructType) -> Column | None:
        return F.col(_NEW)


def _envelope(schema: StructType) -> StructType:
    """What the inner decoder has to look for."""
    fields = [f for f in schema.fields if f.name not in (OP, UNCHANGED)]
    return StructType([StructField("op", StringType()), *fields])


def _event(event: Column, envelope: StructType, schema: StructType) -> Column:
    op = F.when(event["op"] == "c", "i").otherwise(event["op"])
    fields = []
    for f in schema.fields:
        value: Column
        if f.name == OP:
            value = op
        elif f.name == UNCHANGED:
            value = _unchanged(event, schema)
        elif f.name in _IMAGES and isinstance(f.dataType, StructType):
            value = _without_placeholders(event[f.name], f.dataType)
        else:
            value = event[f.name]
        fields.append(value.cast(f.dataType).alias(f.name))
    return F.struct(*fields)


def _unchanged(event: Column, schema: StructType) -> Column:
    image = schema["after"].dataType if "after" in schema.names else None
    if not isinstance(image, StructType):
        return F.array().cast(ArrayType(StringType()))
    marked = [
        F.when(is_left_out, F.lit(f.name))
        for f in image.fields
        if (is_left_out := _is_placeholder(event["after"].getField(f.name), f.dataType)) is not None
    ]
    return F.array_compact(F.array(*marked)) if marked else F.array().cast(ArrayType(StringType()))


def _without_placeholders(image: Column, type: StructType) -> Column:
    fields = []
    for f in type.fields:
        value = image.getField(f.name)
        left_out = _is_placeholder(value, f.dataType)
        fields.append((value if left_out is None else F.when(~left_out, value)).alias(f.name))
    return F.when(image.isNotNull(), F.struct(*fields))


def _is_placeholder(value: Column, type: DataType) -> Column | None:
    """Whether a value stands for one that was not sent; None where its type has no room for a placeholder."""
    if isinstance(type, StringType):
        return F.coalesce(value.isin(PLACEHOLDER, ENCODED_PLACEHOLDER), F.lit(False))
    if isinstance(type, BinaryType):
        return F.coalesce(value == F.lit(PLACEHOLDER.encode()), F.lit(False))
    if isinstance(type, ArrayType) and isinstance(type.elementType, StringType):
        return F.coalesce((F.size(value) == 1) & (value[0] == PLACEHOLDER), F.lit(False))
    return None
