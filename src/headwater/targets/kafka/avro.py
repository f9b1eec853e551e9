"""Avro values: the schema of an export's columns, registered, and rows under it."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headwater.core.errors import Code, TerminalError, UsageError
from headwater.sources.kafka.registry import SchemaRegistry
from headwater.sources.kafka.wire_format import HEAD
from headwater.targets.json_values import in_order

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN: dict[type[DataType], Any] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_schema(type_: StructType, topic: str, part: str) -> str:
    """The schema of a record with these columns. A column that comes later has a default, so registries take it."""
    name = re.sub(r"\W", "_", f"{topic}_{part}")
    return json.dumps(_record(type_, name if _NAME.fullmatch(name) else f"_{name}"))


def _record(type_: StructType, name: str) -> dict[str, Any]:
    fields = []
    for field in type_.fields:
        if _NAME.fullmatch(field.name) is None:
            message = f"Avro can't hold a field of the name '{field.name}'"
            raise UsageError(Code.UNSUPPORTED, message, hint="give it another name: `schema`")
        kind = _avro_type(field.dataType, f"{name}_{field.name}", field.name)
        fields.append({"name": field.name, "type": ["null", kind], "default": None})
    return {"type": "record", "name": name, "namespace": "headwater", "fields": fields}


def _avro_type(type_: DataType, path: str, column: str) -> Any:
    if isinstance(type_, StructType):
        return _record(type_, path)
    if isinstance(type_, ArrayType):
        return {"type": "array", "items": ["null", _avro_type(type_.elementType, path, column)]}
    if isinstance(type_, MapType):
        if not isinstance(type_.keyType, StringType):
            message = f"the column '{column}' has a map with keys of {type_.keyType.simpleString()}: Avro's are texts"
            raise UsageError(Code.UNSUPPORTED, message, hint="leave it out, or cast its keys to string")
        return {"type": "map", "values": ["null", _avro_type(type_.valueType, path, column)]}
    if isinstance(type_, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    found = _PLAIN.get(type(type_))
    if found is None:
        message = f"the column '{column}' is {type_.simpleString()}, and Avro has no type for it"
        raise UsageError(Code.UNSUPPORTED, message, hint=f"give it another type: schema: '{column} string'")
    return found


def register(registry: SchemaRegistry, subject: str, schema: str) -> int:
    """The schema's id. A registry that has it already gives the same one."""
    body = json.dumps({"schema": schema, "schemaType": "AVRO"}).encode()
    request = registry.request(f"subjects/{subject}/versions", body)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            found: int = json.load(answer)["id"]
            return found
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode(errors="replace")[:500]
        if error.code in (409, 422):
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"the registry {registry.address} refuses the schema of {subject}: {said}",
                hint="cast the columns that have changed: schema, or export to another topic",
            ) from error
        raise registry.failure(f"answers {error.code}", refused=error.code in (401, 403)) from error
    except OSError as error:
        raise registry.failure(f"can't be reached: {getattr(error, 'reason', error)}") from error


def encoded(value: Column, schema: str, id: int) -> Column:
    """A struct as registries want it: a zero byte, the schema's id, the Avro; NULL stays NULL."""
    from pyspark.sql.avro.functions import to_avro

    head = F.lit(b"\x00" + id.to_bytes(HEAD - 1, "big"))
    return F.when(value.isNotNull(), F.concat(head, to_avro(value, schema)))


def decoded(values: Iterable[bytes], schema: str, kind: pa.StructType) -> Iterator[dict[str, Any]]:
    """Values as fastavro reads them."""
    import io

    import fastavro

    parsed = fastavro.parse_schema(json.loads(schema))
    convert = _converter(kind)
    for value in values:
        yield convert(fastavro.schemaless_reader(io.BytesIO(value[HEAD:]), parsed, None))


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """Maps become pairs in the order of their keys, as the source has them."""
    if pa.types.is_struct(kind):
        inner = {field.name: _converter(field.type) for field in kind}
        return lambda value: None if value is None else {name: one(value[name]) for name, one in inner.items()}
    if pa.types.is_list(kind):
        element = _converter(kind.value_type)
        return lambda value: None if value is None else [element(one) for one in value]
    if pa.types.is_map(kind):
        item = _converter(kind.item_type)
        return lambda value: None if value is None else [(key, item(one)) for key, one in in_order(value)]
    return lambda value: value
