"""Rows that programs hand in, as JSON objects: every value exactly, none through a float."""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.errors import Code, UsageError

Rows = Any
"""A mapping, an iterable of them, an Arrow table or batch, a pandas frame, or Records."""


@dataclass(frozen=True)
class Records:
    """JSON objects as text, each on one line."""

    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.lines:
            raise UsageError(Code.USAGE, "there are no rows to append")


def records(rows: Rows) -> Records:
    """The records of whatever rows were given in."""
    if isinstance(rows, Records):
        return rows
    return Records(tuple(_encoded(number, row) for number, row in enumerate(_each(rows), start=1)))


def _each(rows: Rows) -> Iterator[Any]:
    if isinstance(rows, Mapping):
        yield rows
    elif isinstance(rows, (pa.Table, pa.RecordBatch)):
        yield from _arrow_rows(rows)
    elif type(rows).__module__.partition(".")[0] == "pandas":
        yield from _arrow_rows(pa.Table.from_pandas(rows, preserve_index=False))
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)):
        yield from rows
    else:
        raise UsageError(
            Code.INVALID_VALUE,
            f"rows can't be of type {type(rows).__name__}",
            hint="give a dict, a list of dicts, an Arrow table or a pandas frame",
        )


def _arrow_rows(table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    if len(set(table.schema.names)) != len(table.schema.names):
        raise UsageError(Code.INVALID_VALUE, "two columns have the same name")
    for batch in table.to_batches() if isinstance(table, pa.Table) else [table]:
        for row in batch.to_pylist():
            yield {f.name: _unmapped(row[f.name], f.type) for f in batch.schema}


def _unmapped(value: Any, t: pa.DataType) -> Any:
    """A value with its maps as dicts: Arrow gives lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(t):
        return {key: _unmapped(inner, t.item_type) for key, inner in value}
    if pa.types.is_struct(t):
        return {f.name: _unmapped(value[f.name], f.type) for f in t}
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [_unmapped(inner, t.value_type) for inner in value]
    return value


def _encoded(number: int, row: Any) -> str:
    if not isinstance(row, Mapping):
        raise _unfit(number, "", f"a row is a dict, not a {type(row).__name__}")
    line = _json(row, number, "")
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _unfit(number, "", f"a text is not valid Unicode: {error}") from error
    return line


def _json(value: Any, number: int, at: str) -> str:
    """JSON of a value at a path of a row."""
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _unfit(number, at, f"JSON has no number {value}")
        return float.__repr__(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise _unfit(number, at, f"JSON has no number {value}")
        return format(value, "f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pair(key, inner, number, at) for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_json(inner, number, at) for inner in value) + "]"
    text = _text(value)
    if text is not None:
        return json.dumps(text)
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return _json(value.tolist(), number, at)
    if type(value).__name__ in ("NaTType", "NAType"):
        return "null"
    raise _unfit(number, at, f"a value of type {type(value).__name__} has no form in JSON")


def _pair(key: Any, value: Any, number: int, at: str) -> str:
    if not isinstance(key, str):
        raise _unfit(number, at, f"a key is a text, not {key!r}")
    return f"{json.dumps(key, ensure_ascii=False)}: {_json(value, number, f'{at}.{key}' if at else key)}"


def _text(value: Any) -> str | None:
    """Times in ISO 8601 and UTC, bytes in base 64."""
    if type(value).__name__ == "NaTType":
        return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    return str(value) if isinstance(value, uuid.UUID) else None


def _unfit(number: int, at: str, message: str) -> UsageError:
    place = f"row {number}" + (f", {at}" if at else "")
    return UsageError(Code.INVALID_VALUE, f"{place}: {message}", hint="nothing was appended")
