"""How a value is written that was given in another form: `retain: 30d` → `retain: {versions: 30d}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError

from headwater.core.spec import Definition

_PLAIN = re.compile(r"[A-Za-z0-9_./()' <>=*+-]*[A-Za-z0-9)]")
"""Texts that need no quotes inside of { }."""


def form_of(key: str, kind: Any, given: Any) -> str | None:
    """What to write for a mapping or a list where something else was given; None for other values. `given` is None
    where the value must not be repeated."""
    if get_origin(kind) is dict:
        return f"write `{key}: {{name: value}}`"
    if get_origin(kind) in (tuple, list):
        item = f"'{given}'" if isinstance(given, (int, float)) else _written(given, "a")
        return f"write `{key}: [{item}]`"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        entries = _entries(kind, given)
        return None if entries is None else f"write `{key}: {{{entries}}}`"
    return None


def _entries(model: type[BaseModel], given: Any) -> str | None:
    """The key that the value was meant for, if it fits one; else the keys that have to be given, or the first."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    needed = [key for key, field in fields.items() if field.is_required()]
    if not needed and issubclass(model, Definition):
        return None
    for key in needed or fields if isinstance(given, (str, int, float)) else ():
        try:
            model.model_validate({key: given})
        except ValidationError:
            continue
        return f"{key}: {_written(given, '…')}"
    schema = model.model_json_schema(by_alias=True)
    return ", ".join(f"{key}: {_example(schema['properties'][key], schema)}" for key in needed or [next(iter(fields))])


def _example(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """A value of a JSON Schema."""
    found = _first(schema.get("anyOf", [schema]), whole)
    if "examples" in found or "enum" in found:
        return str(found.get("examples", found.get("enum"))[0])
    if found.get("type") == "object":
        return "{…}"
    return {"integer": "1", "boolean": "true", "array": "[…]"}.get(str(found.get("type")), "…")


def _first(choices: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    first = choices[0]
    if "$ref" in first:
        found: Mapping[str, Any] = whole["$defs"][first["$ref"].rpartition("/")[2]]
        return found
    return first


def _written(value: Any, otherwise: str) -> str:
    if value is None or isinstance(value, bool):
        return otherwise
    text = str(value)
    return text if _PLAIN.fullmatch(text) else "'" + text.replace("'", "''") + "'"
