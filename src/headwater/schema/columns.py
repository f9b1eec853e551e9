"""Columns of a table by Spark's types, without Spark: its JSON, and the short names that people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SHORT = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "null": "void"}


@dataclass(frozen=True)
class TableColumn:
    """A column, or a field of a struct."""

    name: str
    type: Any
    """As Spark's JSON has it: a text, or a struct, array or map with what is inside."""
    nullable: bool = True

    @property
    def short_type(self) -> str:
        return short_type(self.type)

    def described(self) -> dict[str, str]:
        return {"name": self.name, "type": self.short_type}


def columns_of(schema: Mapping[str, Any]) -> tuple[TableColumn, ...]:
    """The columns of a struct in Spark's JSON."""
    return tuple(TableColumn(f["name"], f["type"], bool(f.get("nullable", True))) for f in schema["fields"])


def short_type(type: Any) -> str:
    """What Spark calls `simpleString`: `array<struct<a:int,b:string>>`."""
    if isinstance(type, str):
        return _SHORT.get(type, type)
    if type["type"] == "struct":
        return f"struct<{','.join(f'{f.name}:{f.short_type}' for f in columns_of(type))}>"
    if type["type"] == "array":
        return f"array<{short_type(type['elementType'])}>"
    return f"map<{short_type(type['keyType'])},{short_type(type['valueType'])}>"
