"""Values between Arrow and the project's Python functions; imported by Spark's workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


class Fields(dict[str, Any]):
    """An object's keys that have a value; any other reads as None, whether a record has had it or not."""

    def __missing__(self, key: str) -> None:
        return None


def to_python(value: Any, of: pa.DataType) -> Any:
    """What a function is given for a value that came out of Arrow."""
    if value is None:
        return None
    if pa.types.is_struct(of):
        return Fields({f.name: to_python(value[f.name], f.type) for f in of if value[f.name] is not None})
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return [to_python(one, of.value_type) for one in value]
    if pa.types.is_map(of):
        return {key: to_python(one, of.item_type) for key, one in value}
    return value


def to_arrow(value: Any, of: pa.DataType, at: str = "") -> Any:
    """What a function gave, as Arrow takes it; a field that the type does not have is an error."""
    if value is None:
        return None
    if pa.types.is_struct(of):
        fields = fields_of(value)
        if fields is None:
            raise TypeError(f"{at or 'the row'} should be an object, not {type(value).__name__}")
        types = {f.name: f.type for f in of}
        for name in fields:
            if name not in types:
                raise ValueError(f"'{_path(at, name)}' is not in the schema: declare it")
        return {name: to_arrow(fields.get(name), inner, _path(at, name)) for name, inner in types.items()}
    if pa.types.is_list(of) and not isinstance(value, (str, bytes, Mapping)):
        return [to_arrow(one, of.value_type, at) for one in value]
    if pa.types.is_map(of) and isinstance(value, Mapping):
        return [(key, to_arrow(one, of.item_type, at)) for key, one in value.items()]
    if pa.types.is_nested(of) or _is_bent(value, of):
        raise TypeError(f"'{at}' does not fit {of}: it is {value!r:.50}")
    return value


def _is_bent(value: Any, of: pa.DataType) -> bool:
    """Whether Arrow would take the value, and not as it is."""
    if pa.types.is_integer(of):
        broken = isinstance(value, float) and not value.is_integer()
        return broken or (isinstance(value, Decimal) and value != value.to_integral_value())
    if pa.types.is_string(of):
        return isinstance(value, bytes)
    if pa.types.is_binary(of):
        return isinstance(value, str)
    return pa.types.is_date(of) and isinstance(value, datetime)


def kind_of(of: pa.DataType) -> str:
    """Types of one kind are cast to each other where no value is lost, others are not cast at all."""
    kinds = {
        "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        "bytes": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
        "date": (pa.types.is_date,),
        "timestamp": (pa.types.is_timestamp,),
        "list": (pa.types.is_list, pa.types.is_large_list),
    }
    if pa.types.is_dictionary(of):
        return kind_of(of.value_type)
    return next((kind for kind, tests in kinds.items() if any(test(of) for test in tests)), str(of.id))


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """An object's fields by name: of a mapping, a dataclass or a named tuple."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Not dataclasses.fields(): it knows none of a class that travelled here by value.
        fields: dict[str, Any] = type(value).__dataclass_fields__
        return {name: getattr(value, name) for name, f in fields.items() if f._field_type.name == "_FIELD"}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        named: dict[str, Any] = value._asdict()
        return named
    return None


def array_of(values: list[Any], of: pa.DataType) -> tuple[pa.Array, dict[int, Exception]]:
    """The values as an array, with NULL for those that don't fit, and why they don't."""
    try:
        return pa.array(values, of), {}
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _one_by_one(values, of)


def _one_by_one(values: list[Any], of: pa.DataType) -> tuple[pa.Array, dict[int, Exception]]:
    kept: list[Any] = []
    cast_failures: dict[int, Exception] = {}
    for index, value in enumerate(values):
        try:
            pa.array([value], of)
            kept.append(value)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            kept.append(None)
            cast_failures[index] = _with_field(error, value, of)
    return pa.array(kept, of), cast_failures


def _with_field(error: Exception, value: Any, of: pa.DataType) -> Exception:
    """The error with the name of the field that brought it."""
    if not isinstance(value, dict) or not pa.types.is_struct(of):
        return error
    for f in of:
        try:
            pa.array([value.get(f.name)], f.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as found:
            return type(found)(f"'{f.name}' does not fit {f.type}: {found}")
    return error


def _path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name
