"""Protobuf messages as Spark's types and values. Runs on the driver (types) and in Spark's Python workers (values)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.core.extras import require_extra
from headwater.schema.types import fits
from headwater.sources.kafka.proto import Files

_WELL_KNOWN = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
_TIMESTAMP = "google.protobuf.Timestamp"
_AS_JSON = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
_WRAPPER = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_ENUM, _MESSAGE = 14, 11
_SCALARS: dict[int, DataType] = {
    1: DoubleType(), 2: FloatType(), 3: LongType(), 4: DecimalType(20, 0), 5: IntegerType(), 6: DecimalType(20, 0),
    7: LongType(), 8: BooleanType(), 9: StringType(), 12: BinaryType(), 13: LongType(), 14: StringType(),
    15: IntegerType(), 16: LongType(), 17: IntegerType(), 18: LongType(),
}  # fmt: skip
"""By the number of the field's type. Unsigned numbers of 64 bits have more values than a bigint."""

Read = Callable[[Any, list[str]], Any]
"""A value of a message; what does not fit is told in the list, and is None."""


@dataclass(frozen=True)
class MessageType:
    """A message, and the files that say what is in it."""

    files: Files
    name: str

    @property
    def type(self) -> StructType:
        return _struct(message_class(self).DESCRIPTOR, ())


@lru_cache(maxsize=1000)
def message_class(message: MessageType) -> Any:
    pool = _pool(message.files)
    factory = require_extra("kafka", "google.protobuf.message_factory")
    return factory.GetMessageClass(pool.FindMessageTypeByName(message.name))


@lru_cache(maxsize=1000)
def message_at(files: Files, indexes: tuple[int, ...]) -> MessageType:
    """The message that the numbers after a schema's id lead to: a top-level one of the last file, then those in it."""
    descriptors = require_extra("kafka", "google.protobuf.descriptor_pb2")
    file = descriptors.FileDescriptorSet.FromString(files).file[-1]
    names = [file.package] if file.package else []
    inside = file.message_type
    for index in indexes:
        if index >= len(inside):
            raise ValueError(f"the schema has no message {list(indexes)}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return MessageType(files, ".".join(names))


def reader_of(message: MessageType, wanted: StructType) -> Read:
    """What makes a row of a message's bytes."""
    made = message_class(message)
    row = _row(made.DESCRIPTOR, wanted, "", ())

    def read(body: bytes, cast_failures: list[str]) -> Any:
        return row(made.FromString(body), cast_failures)

    return read


def json_of(message: MessageType, body: bytes) -> str:
    return _json(message_class(message).FromString(body))


def _pool(files: Files) -> Any:
    descriptors = require_extra("kafka", "google.protobuf.descriptor_pb2")
    pool = require_extra("kafka", "google.protobuf.descriptor_pool").DescriptorPool()
    given = descriptors.FileDescriptorSet.FromString(files).file
    names = {file.name for file in given}
    for name in _WELL_KNOWN:
        path = f"google/protobuf/{name}.proto"
        if path not in names:
            module = require_extra("kafka", f"google.protobuf.{name}_pb2")
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in given:
        pool.Add(file)
    return pool


# --- types


def _struct(descriptor: Any, above: tuple[str, ...]) -> StructType:
    inside = (*above, descriptor.full_name)
    return StructType([StructField(field.name, _type(field, inside)) for field in descriptor.fields])


def _type(field: Any, above: tuple[str, ...]) -> DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return MapType(_one_type(entry["key"], above), _one_type(entry["value"], above))
    one = _one_type(field, above)
    return ArrayType(one) if field.is_repeated else one


def _one_type(field: Any, above: tuple[str, ...]) -> DataType:
    if field.type != _MESSAGE:
        return _SCALARS[field.type]
    inner = field.message_type
    if inner.full_name == _TIMESTAMP:
        return TimestampType()
    if inner.full_name in _WRAPPER:
        return _SCALARS[inner.fields_by_name["value"].type]
    # A message inside itself has no end as a type; an empty one has no fields, which tables don't take.
    if inner.full_name in _AS_JSON or inner.full_name in above or not inner.fields:
        return StringType()
    return _struct(inner, above)


def _is_map(field: Any) -> bool:
    return field.type == _MESSAGE and bool(field.message_type.GetOptions().map_entry)


# --- values


def _row(descriptor: Any, wanted: StructType, at: str, above: tuple[str, ...]) -> Read:
    inside = (*above, descriptor.full_name)
    readers: list[tuple[str, Read]] = []
    for f in wanted.fields:
        field = descriptor.fields_by_name.get(f.name)
        if field is not None:
            readers.append((f.name, _field(field, f.dataType, f"{at}.{f.name}" if at else f.name, inside)))

    def read(message: Any, cast_failures: list[str]) -> dict[str, Any]:
        return {name: reader(message, cast_failures) for name, reader in readers}

    return read


def _field(field: Any, wanted: DataType, at: str, above: tuple[str, ...]) -> Read:
    name: str = field.name
    if _is_map(field):
        entry = field.message_type.fields_by_name
        if not isinstance(wanted, MapType):
            return _cast_failure(field, wanted, at, above)
        key = _one(entry["key"], wanted.keyType, at, above)
        value = _one(entry["value"], wanted.valueType, at, above)
        return lambda message, cast_failures: [
            (key(k, cast_failures), value(v, cast_failures)) for k, v in getattr(message, name).items()
        ]
    if field.is_repeated:
        if not isinstance(wanted, ArrayType):
            return _cast_failure(field, wanted, at, above)
        one = _one(field, wanted.elementType, at, above)
        return lambda message, cast_failures: [one(item, cast_failures) for item in getattr(message, name)]
    one = _one(field, wanted, at, above)
    if not field.has_presence:
        return lambda message, cast_failures: one(getattr(message, name), cast_failures)
    return lambda message, cast_failures: one(getattr(message, name), cast_failures) if message.HasField(name) else None


def _one(field: Any, wanted: DataType, at: str, above: tuple[str, ...]) -> Read:
    given = _one_type(field, above)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return _row(field.message_type, wanted, at, above)
    if not fits(given, wanted):
        return _cast_failure(field, wanted, at, above)
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda value, cast_failures: names.get(value, str(value))
    if field.type == _MESSAGE:
        inner = field.message_type.full_name
        if inner == _TIMESTAMP:
            return lambda value, cast_failures: value.ToMicroseconds()
        if inner in _WRAPPER:
            number = isinstance(wanted, DecimalType)
            return lambda value, cast_failures: Decimal(value.value) if number else value.value
        return lambda value, cast_failures: _json(value)
    if isinstance(wanted, DecimalType):
        return lambda value, cast_failures: Decimal(value)
    return lambda value, cast_failures: value


def _cast_failure(field: Any, wanted: DataType, at: str, above: tuple[str, ...]) -> Read:
    told = f"{at} is {_type(field, above).simpleString()} and does not fit {wanted.simpleString()}"

    def read(value: Any, cast_failures: list[str]) -> None:
        cast_failures.append(told)

    return read


def _json(message: Any) -> str:
    text: str = require_extra("kafka", "google.protobuf.json_format").MessageToJson(
        message, indent=None, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return text
