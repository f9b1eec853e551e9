"""Rows that come as text: JSON, NDJSON, CSV. What is JSON already is kept to the letter."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Generator, Iterator
from typing import Any, Literal, NoReturn

from headwater.core.errors import Code, UsageError
from headwater.sources.append.records import JsonRecords
from headwater.sources.decoders.json_layout import is_by_line

TextFormat = Literal["json", "ndjson", "csv"]
ENDINGS: dict[str, TextFormat] = {".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv"}

_NUMBER = re.compile(r"(0|-?[1-9]\d*)|-?(0|[1-9]\d*)\.\d+")
_SPACE = re.compile(r"[ \t\n\r]*")


def parse(content: bytes, format: TextFormat = "json") -> JsonRecords:
    """The records in a text. JSON is what it is in files: an object a line, an array of objects, or objects that go
    over several lines."""
    text = _decoded(content)
    if format == "json" and is_by_line(content):
        format = "ndjson"
    parsers: dict[TextFormat, Callable[[str], Iterator[str]]] = {"json": _json, "ndjson": _ndjson, "csv": _csv}
    return JsonRecords(tuple(parsers[format](text)))


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _wrong(content.count(b"\n", 0, error.start) + 1, "not UTF-8") from error


def _ndjson(text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value, end = _value(line, _SPACE.match(line).end(), number)  # type: ignore[union-attr]
            if line[end:].strip():
                raise _wrong(number, "there is something after the JSON object")
            if not isinstance(value, dict):
                raise _no_object(value, number)
            yield _on_one_line(line.strip())


def _json(text: str) -> Iterator[str]:
    """Objects, and arrays of them, one after the other."""
    at = _after_space(text, 0)
    while at < len(text):
        if text[at] == "[":
            at = yield from _array(text, at)
        else:
            value, end = _value(text, at, 0)
            if not isinstance(value, dict):
                raise _no_object(value, _line(text, at))
            yield _on_one_line(text[at:end])
            at = end
        at = _after_space(text, at)


def _array(text: str, at: int) -> Generator[str, None, int]:
    """The objects of the array that begins here; returns where it ends."""
    at = _after_space(text, at + 1)
    while text[at : at + 1] != "]":
        value, end = _value(text, at, 0)
        if not isinstance(value, dict):
            raise _no_object(value, _line(text, at))
        yield _on_one_line(text[at:end])
        at = _after_space(text, end)
        if text[at : at + 1] == ",":
            at = _after_space(text, at + 1)
            if text[at : at + 1] == "]":
                raise _wrong(_line(text, at), "a value is missing after the comma")
        elif text[at : at + 1] != "]":
            raise _wrong(_line(text, at), "expected a comma or the end of the array")
    return at + 1


def _csv(text: str) -> Iterator[str]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        repeated = sorted({name for name in header if header.count(name) > 1 or not name})
        if repeated:
            raise _wrong(
                1, f"the header has the column '{repeated[0]}' twice" if repeated[0] else "a column has no name"
            )
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise _wrong(reader.line_num, f"{len(cells)} values under {len(header)} columns")
            pairs = (f"{_quoted(name)}: {_cell(cell)}" for name, cell in zip(header, cells, strict=True))
            yield "{" + ", ".join(pairs) + "}"
    except csv.Error as error:
        raise _wrong(reader.line_num, f"not valid CSV: {error}") from error


def _cell(text: str) -> str:
    """A value as it is if it is a number in JSON's own form, true or false; null if it is empty; else a text."""
    if not text:
        return "null"
    return text if text in ("true", "false") or _NUMBER.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# --- JSON


def _value(text: str, at: int, line: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise _wrong(line or error.lineno, f"not valid JSON: {error.msg} at character {error.colno}") from error
    except RecursionError as error:
        raise _wrong(line or _line(text, at), "nested too deeply") from error


def _no_object(value: Any, line: int) -> UsageError:
    return _wrong(line, f"a row is a JSON object, not {_named(value)}")


def _on_one_line(text: str) -> str:
    # Valid JSON has line ends between its tokens only.
    return text.replace("\r", " ").replace("\n", " ")


def _named(value: Any) -> str:
    return "an array" if isinstance(value, list) else "null" if value is None else "a plain value"


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _wrong(line: int, message: str) -> UsageError:
    return UsageError(Code.INVALID_VALUE, f"line {line}: {message}", hint="nothing was appended")


def _no_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no JSON number", "", 0)


# Numbers are only looked at, never made: one may have more digits than Python likes to convert.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_no_constant)
