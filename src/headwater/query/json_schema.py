"""The JSON Schema of rows as `query --output json` prints them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from headwater.schema.columns import TableColumn, columns_of, short_type

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")

SchemaView = Literal["spark", "parquet", "json-schema"]
"""How a schema is shown: as Spark has it, as a Parquet file does, or as JSON Schema."""

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


def json_schema(columns: Sequence[TableColumn], title: str) -> dict[str, Any]:
    """A row: an object that has every column."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **_object(columns)}


def _object(columns: Sequence[TableColumn]) -> dict[str, Any]:
    properties = {column.name: _of(column.type, nullable=column.nullable) for column in columns}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _of(type: Any, *, nullable: bool) -> dict[str, Any]:
    if isinstance(type, str):
        found = _plain(type)
    elif type["type"] == "struct":
        found = _object(columns_of(type))
    elif type["type"] == "array":
        found = {"type": "array", "items": _of(type["elementType"], nullable=type["containsNull"])}
    else:
        values = _of(type["valueType"], nullable=type["valueContainsNull"])
        found = {"type": "object", "additionalProperties": values}
    return {**found, "type": [found["type"], "null"]} if nullable else found


def _plain(type: str) -> dict[str, Any]:
    decimal = _DECIMAL.fullmatch(type)
    if decimal is None:
        return dict(_PLAIN.get(short_type(type), {"type": "string"}))
    precision, scale = int(decimal[1]), int(decimal[2])
    fraction = f"(\\.[0-9]{{1,{scale}}})?" if scale else ""
    return {"type": "string", "pattern": f"^-?[0-9]{{1,{max(precision - scale, 1)}}}{fraction}$"}
