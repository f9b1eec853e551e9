"""The JSON Schema of rows as `query --output json` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PLAIN: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string", "format": "date-time"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "tinyint": {"type": "integer", "minimum": -(1 << 7), "maximum": (1 << 7) - 1},
    "smallint": {"type": "integer", "minimum": -(1 << 15), "maximum": (1 << 15) - 1},
    "int": {"type": "integer", "minimum": -(1 << 31), "maximum": (1 << 31) - 1},
    "bigint": {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1},
}


def json_schema(schema: StructType, title: str) -> dict[str, Any]:
    """A row: an object that has every column."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **_object(schema)}


def _object(schema: StructType) -> dict[str, Any]:
    properties = {field.name: _of(field.dataType, nullable=field.nullable) for field in schema.fields}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _of(type: DataType, *, nullable: bool) -> dict[str, Any]:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(type, StructType):
        found = _object(type)
    elif isinstance(type, ArrayType):
        found = {"type": "array", "items": _of(type.elementType, nullable=type.containsNull)}
    elif isinstance(type, MapType):
        found = {"type": "object", "additionalProperties": _of(type.valueType, nullable=type.valueContainsNull)}
    elif isinstance(type, DecimalType):
        digits = type.precision - type.scale
        fraction = f"(\\.[0-9]{{1,{type.scale}}})?" if type.scale else ""
        found = {"type": "string", "pattern": f"^-?[0-9]{{1,{max(digits, 1)}}}{fraction}$"}
    else:
        found = dict(_PLAIN.get(type.simpleString(), {"type": "string"}))
    return {**found, "type": [found["type"], "null"]} if nullable else found
