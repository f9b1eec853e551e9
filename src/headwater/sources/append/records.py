"""Rows that programs hand in, as JSON objects: every value exactly, none through a float.

JSON has one kind of number. Which ones were decimals is told alongside the text, so that they come to columns of
decimals.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.core.errors import Code, UsageError

PATH, ELEMENT = "\u001f", "[]"
"""Between the keys of a path, and what stands for the elements of an array."""

Rows = Any
"""A mapping, an iterable of them, an Arrow table or batch, a pandas frame, or Records."""


@dataclass(frozen=True)
class JsonRecords:
    """JSON objects as text, each on one line."""

    lines: tuple[str, ...]
    decimals: tuple[str, ...] = ()
    """What the decimals of each line are like, nothing where it has none: JSON of their paths, with the digits before
    and after the point, the text, and whether a double keeps it."""

    def __post_init__(self) -> None:
        if not self.lines:
            raise UsageError(Code.USAGE, "there are no rows to append")


def records(rows: Rows) -> JsonRecords:
    """The records of whatever rows were given in."""
    if isinstance(rows, JsonRecords):
        return rows
    encoded = [_encoded(number, row) for number, row in enumerate(_each(rows), start=1)]
    return JsonRecords(tuple(line for line, _ in encoded), tuple(told for _, told in encoded))


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


@dataclass(frozen=True)
class _JsonPath:
    """Where a value stands, and the decimals found in its row so far."""

    number: int
    path: tuple[str, ...] = ()
    decimals: dict[str, tuple[int, int, str, bool]] = field(default_factory=dict)

    def inside(self, key: str) -> _JsonPath:
        return _JsonPath(self.number, (*self.path, key), self.decimals)

    def note(self, value: Decimal, text: str) -> None:
        whole, _, fraction = text.lstrip("-").partition(".")
        digits = (len(whole.lstrip("0")), len(fraction.rstrip("0")))
        path = PATH.join(self.path)
        before, after, *_ = self.decimals.get(path, (0, 0))
        as_double = Decimal(repr(float(value))) == value
        self.decimals[path] = (max(before, digits[0]), max(after, digits[1]), text, as_double)


def _encoded(number: int, row: Any) -> tuple[str, str]:
    """The row as a line, and what is told of its decimals."""
    place = _JsonPath(number)
    if not isinstance(row, Mapping):
        raise _unfit(place, f"a row is a dict, not a {type(row).__name__}")
    line = _json(row, place)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _unfit(place, f"a text is not valid Unicode: {error}") from error
    return line, json.dumps(place.decimals, separators=(",", ":")) if place.decimals else ""


def _json(value: Any, place: _JsonPath) -> str:
    """JSON of a value at a place of a row."""
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _unfit(place, f"JSON has no number {value}")
        return float.__repr__(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise _unfit(place, f"JSON has no number {value}")
        text = format(value, "f")
        place.note(value, text)
        return text
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pair(key, inner, place) for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_json(inner, place.inside(ELEMENT)) for inner in value) + "]"
    text_of = _text(value)
    if text_of is not None:
        return json.dumps(text_of)
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return _json(value.tolist(), place)
    if type(value).__name__ in ("NaTType", "NAType"):
        return "null"
    raise _unfit(place, f"a value of type {type(value).__name__} has no form in JSON")


def _pair(key: Any, value: Any, place: _JsonPath) -> str:
    if not isinstance(key, str):
        raise _unfit(place, f"a key is a text, not {key!r}")
    return f"{json.dumps(key, ensure_ascii=False)}: {_json(value, place.inside(key))}"


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


def _unfit(place: _JsonPath, message: str) -> UsageError:
    at = ".".join(key for key in place.path if key != ELEMENT)
    where = f"row {place.number}" + (f", {at}" if at else "")
    return UsageError(Code.INVALID_VALUE, f"{where}: {message}", hint="nothing was appended")
