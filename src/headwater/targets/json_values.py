"""JSON as a reader finds it in a target, back into values of the source's Arrow types."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

Convert = Callable[[Any], Any]


def parse(text: str | bytes) -> Any:
    """JSON with its numbers as they are written."""
    return json.loads(text, parse_float=Decimal)


def array_of_json(texts: Sequence[str | bytes | None], kind: pa.DataType) -> pa.Array:
    """Values from their JSON; a value that is none of the type raises."""
    convert = converter(kind)
    return pa.array([None if text is None else convert(parse(text)) for text in texts], kind)


def converter(kind: pa.DataType) -> Convert:
    """From what `parse` gives to what Arrow takes for a type."""
    if pa.types.is_struct(kind):
        inner = {field.name: converter(field.type) for field in kind}
        return _or_none(lambda value: {name: one(value.get(name)) for name, one in inner.items()})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = converter(kind.value_type)
        return _or_none(lambda value: [element(one) for one in value])
    if pa.types.is_map(kind):
        key, item = converter(kind.key_type), converter(kind.item_type)
        return _or_none(lambda value: [(key(k), item(v)) for k, v in in_order(value)])
    if pa.types.is_floating(kind):
        return _or_none(float)
    if pa.types.is_decimal(kind):
        return _or_none(lambda value: Decimal(value))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _or_none(base64.b64decode)
    if pa.types.is_date(kind):
        return _or_none(date.fromisoformat)
    if pa.types.is_timestamp(kind):
        return _or_none(_moment if kind.tz else datetime.fromisoformat)
    return lambda value: value


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def in_order(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The entries of a map by the bytes of their keys, which is Spark's order of texts."""
    return sorted(value.items(), key=lambda entry: entry[0].encode())
