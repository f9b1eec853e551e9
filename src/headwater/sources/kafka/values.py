"""What a Kafka record's value and key are decoded with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from headwater.core.errors import Code, UsageError
from headwater.schema.types import parse_ddl
from headwater.sources.decoders.base import CAST_FAILURES, DECODE, EVENT, PROBLEM, RAW, Decoder
from headwater.sources.decoders.csv import CsvDecoder, not_utf8
from headwater.sources.decoders.json import JsonDecoder
from headwater.sources.decoders.typed import PROBLEM_TYPE, problem
from headwater.sources.kafka.avro import AvroDecoder
from headwater.sources.kafka.config import Encoding, KafkaSource
from headwater.sources.kafka.debezium import DebeziumDecoder, payload_of
from headwater.sources.kafka.messages import ProtobufDecoder
from headwater.sources.kafka.registry import SchemaRegistry
from headwater.sources.kafka.wire_format import unframed

if TYPE_CHECKING:
    from headwater.sources.reader import ReaderContext

KEY = "_key"
KEY_RAW = "_headwater_key"
"""A key's bytes, where its schema has to be known to read it."""
VALUE = "value"
"""The column of payloads that are one value."""
_WHOLE = "_headwater_whole"
_NEW = "_headwater_new"
_KEY_WHY = "_headwater_key_why"

Unwrap = Callable[[Column], Column]
"""From a value's bytes to those that its decoder is shown."""


class KeyDecoder(Protocol):
    """What makes text of keys whose schemas stand in a registry or file."""

    @property
    def inferred(self) -> int: ...

    def learn_keys(self, records: DataFrame, column: str) -> None: ...

    def with_key_texts(self, records: DataFrame, column: str, text: str, why: str) -> DataFrame: ...

    def new_key(self, column: str) -> Column: ...


class WholeValueDecoder(Decoder):
    """The whole value in one column, as text or as bytes."""

    def __init__(self, is_text: bool) -> None:
        self._is_text = is_text
        self._type: DataType = StringType() if is_text else BinaryType()

    def detect(self, records: DataFrame) -> StructType:
        return StructType([StructField(VALUE, self._type)])

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        raw = F.col(RAW)
        broken = not_utf8(raw) if self._is_text else F.lit(False)
        fields = [
            (raw.cast(self._type) if f.name == VALUE else F.lit(None)).cast(f.dataType).alias(f.name)
            for f in schema.fields
        ]
        event = F.when(raw.isNotNull() & ~broken, F.struct(*fields)).cast(schema)
        told = F.when(broken, problem(DECODE, "not valid UTF-8"))
        return records.withColumn(EVENT, event).withColumn(PROBLEM, told.cast(PROBLEM_TYPE))

    def unknown(self, schema: StructType) -> Column | None:
        return None if VALUE in schema.names else F.lit(True)


class RecordDecoder(Decoder):
    """A value by its encoding, and its key where that takes a schema.

    A record without a value (a tombstone) is an event without a payload.
    """

    def __init__(self, value: Decoder, *, shown: Unwrap = lambda raw: raw, keys: KeyDecoder | None = None) -> None:
        self._value = value
        self._shown = shown
        self._keys = keys
        self.textual = value.textual
        self._with_keys: DataFrame | None = None

    @property
    def inferred(self) -> int:
        return self._value.inferred + (self._keys.inferred if self._keys is not None else 0)

    def detect(self, records: DataFrame) -> StructType:
        # Records that have been decoded come without their keys' bytes: those of the same step have them.
        with_keys = records if KEY_RAW in records.columns else self._with_keys
        if self._keys is not None and with_keys is not None:
            self._keys.learn_keys(with_keys, KEY_RAW)
        return self._value.detect(self._readable(records))

    def agreed(self, records: DataFrame, found: StructType) -> tuple[StructType, tuple[str, ...]]:
        return self._value.agreed(self._readable(records), found)

    def _readable(self, records: DataFrame) -> DataFrame:
        readable = records.where(F.col(RAW).isNotNull())
        return readable.withColumn(RAW, self._shown(F.col(RAW)))

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        if KEY_RAW in records.columns:
            self._with_keys = records
        whole = F.col(_WHOLE)
        skipped = whole.isNull()
        shown = records.withColumn(_WHOLE, F.col(RAW)).withColumn(RAW, F.when(~skipped, self._shown(whole)))
        decoded = self._value.decode(shown, schema)
        # Asked here, where the value's decoder finds what it has decoded under the names it knows.
        new = self._value.unknown(schema)
        is_new = F.lit(False) if new is None else F.coalesce(new & ~skipped, F.lit(False))
        told = F.when(~skipped, F.col(PROBLEM)).cast(PROBLEM_TYPE)
        columns = [F.col(_WHOLE if name == RAW else name).alias(name) for name in records.columns]
        event = F.when(~skipped, F.col(EVENT)).cast(schema)
        cast_failures = [F.col(CAST_FAILURES)] if CAST_FAILURES in decoded.columns else []
        found = decoded.select(*columns, event.alias(EVENT), told.alias(PROBLEM), *cast_failures, is_new.alias(_NEW))
        if self._keys is None or KEY_RAW not in records.columns:
            return found
        found = self._keys.with_key_texts(found, KEY_RAW, KEY, _KEY_WHY)
        why = F.col(_KEY_WHY)
        bad_key = F.when(why.isNotNull(), problem(DECODE, F.concat(F.lit("key: "), why["message"])))
        unreadable = F.coalesce(F.col(PROBLEM), bad_key)
        new_key = F.col(_NEW) | F.coalesce(self._keys.new_key(KEY_RAW), F.lit(False))
        return found.withColumns({PROBLEM: unreadable, _NEW: new_key}).drop(_KEY_WHY)

    def unknown(self, schema: StructType) -> Column | None:
        return F.col(_NEW)

    def beyond(self, schema: StructType, raw: Column) -> Column | None:
        return self._value.beyond(schema, self._shown(raw))

    @property
    def width(self) -> Column | None:
        return self._value.width


def decoder_of(spec: KafkaSource, context: ReaderContext) -> Decoder:
    """What decodes the records of a source."""
    registry = None
    if spec.schema_registry is not None:
        registry = SchemaRegistry(spec.schema_registry, spec.schema_registry_auth, context.notes, spec.where)
    keys = _keys(spec, context, registry)
    value, shown = _value(spec, context, registry)
    if isinstance(value, JsonDecoder) and registry is None and keys is None:
        return value  # it takes a record without a value for what it is, and nothing else is left to do
    return RecordDecoder(value, shown=shown, keys=keys)


def key_column(encoding: Encoding) -> Column:
    """A key as `_key` has it, as far as no schema is needed for that."""
    key = F.col("key")
    if encoding == "bytes":
        return key
    if encoding in ("avro", "protobuf"):
        return F.lit(None).cast(StringType())
    if encoding == "debezium":
        return _text(payload_of(unframed(key)))
    return _text(unframed(key) if encoding == "json" else key)


def _text(key: Column) -> Column:
    """A key as text; one that is none, such as a number in its bytes, as those: a column with anything else in it could
    not be read any more."""
    text = key.cast(StringType())
    return F.when(F.decode(key, "UTF-8") == text, text).otherwise(F.concat(F.lit("\\x"), F.lower(F.hex(key))))


def _value(spec: KafkaSource, context: ReaderContext, registry: SchemaRegistry | None) -> tuple[Decoder, Unwrap]:
    encoding = spec.value
    if encoding == "json":
        return JsonDecoder(), unframed
    if encoding == "csv":
        return CsvDecoder(spec.csv, _declared_names(context.spark, spec.schema_)), lambda raw: raw
    if encoding == "avro":
        return _avro(context, registry, spec.schema_file), lambda raw: raw
    if encoding == "protobuf":
        return _protobuf(context, registry, spec.schema_file, spec.message), lambda raw: raw
    if encoding == "debezium" and registry is not None:
        return DebeziumDecoder(AvroDecoder(context.spark, registry, None)), lambda raw: raw
    if encoding == "debezium":
        return DebeziumDecoder(JsonDecoder()), payload_of
    return WholeValueDecoder(encoding == "string"), lambda raw: raw


def _keys(spec: KafkaSource, context: ReaderContext, registry: SchemaRegistry | None) -> KeyDecoder | None:
    if spec.key == "avro":
        return _avro(context, registry, spec.key_schema_file)
    if spec.key == "protobuf":
        return _protobuf(context, registry, spec.key_schema_file, spec.key_message)
    return None


def _avro(context: ReaderContext, registry: SchemaRegistry | None, file: str | None) -> AvroDecoder:
    if file is None:
        return AvroDecoder(context.spark, registry, None)
    return AvroDecoder.of_file(context.spark, file, _content(context, file).decode("utf-8", "replace"))


def _protobuf(
    context: ReaderContext, registry: SchemaRegistry | None, file: str | None, message: str | None
) -> ProtobufDecoder:
    if file is None or message is None:
        return ProtobufDecoder(registry)
    path = Path(context.locate(file))
    return ProtobufDecoder.of_file(path, _content(context, file), message)


def _content(context: ReaderContext, file: str) -> bytes:
    try:
        return Path(context.locate(file)).read_bytes()
    except OSError as error:
        raise UsageError(Code.INVALID_VALUE, f"the schema file {file} can't be read: {error.strerror}") from error


def _declared_names(spark: SparkSession, ddl: str | None) -> list[str] | None:
    declared = parse_ddl(spark, ddl)
    return None if declared is None else declared.names
