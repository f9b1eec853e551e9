"""JSON files: an object a line."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import NativeFile

from headwater.core.spec import Export
from headwater.targets.files.base import FileFormat
from headwater.targets.files.text import TIMES, unpacked

_ROWS = 20_000


def _read(file: NativeFile, schema: pa.Schema, definition: Export) -> Iterator[pa.RecordBatch]:
    """By Python's own reader: numbers stay as exact as they are written."""
    if not file.size():
        return
    convert = _converter(pa.struct(list(schema)))
    lines = io.TextIOWrapper(unpacked(file, definition), "utf-8", newline="\n")
    while some := list(islice(lines, _ROWS)):
        rows = [convert(json.loads(line, parse_float=Decimal)) for line in some]
        yield pa.RecordBatch.from_pylist(rows, schema)


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """What makes a value of a type from what JSON has for it."""
    if pa.types.is_struct(kind):
        fields = [(field.name, _converter(field.type)) for field in kind]
        return lambda v: None if v is None else {name: convert(v.get(name)) for name, convert in fields}
    if pa.types.is_map(kind):
        key, item = _converter(kind.key_type), _converter(kind.item_type)
        return lambda v: None if v is None else [(key(k), item(one)) for k, one in v.items()]
    if pa.types.is_list(kind):
        element = _converter(kind.value_type)
        return lambda v: None if v is None else [element(one) for one in v]
    if pa.types.is_floating(kind):
        return lambda v: None if v is None else float(v)
    if pa.types.is_decimal(kind):
        return lambda v: None if v is None else Decimal(v)
    if pa.types.is_timestamp(kind):
        return lambda v: None if v is None else datetime.fromisoformat(v.replace("Z", "+00:00"))
    if pa.types.is_date(kind):
        return lambda v: None if v is None else date.fromisoformat(v)
    if pa.types.is_binary(kind):
        return lambda v: None if v is None else base64.b64decode(v)
    if pa.types.is_integer(kind):
        return lambda v: None if v is None else int(v)
    return lambda v: v


def _options(definition: Export) -> Mapping[str, str]:
    return {**TIMES, "ignoreNullFields": "false", "compression": definition.compression or "none"}


JSON_FILES = FileFormat("json", ".json", "json", "", _read, _options)
