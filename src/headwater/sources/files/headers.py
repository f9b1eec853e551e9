"""A look at files before Spark reads them: the header of a CSV file, the schema in a footer. Cheap, and in parallel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import orc, parquet

from headwater.core.disk_errors import is_passing
from headwater.core.errors import HeadwaterError
from headwater.core.storage import Files
from headwater.sources.decoders.json_layout import BEGINNING, is_by_line
from headwater.sources.files.log import InputFile
from headwater.sources.files.pieces.blocks import LargeBlock, bound_of, large_avro_block, large_parquet_page
from headwater.sources.files.pieces.compression import beginning
from headwater.sources.files.pieces.splitter import Splitter
from headwater.sources.files.unreadable import read_through
from headwater.spark.errors import tells_transient

THREADS = 16
HEAD = 1 << 20
"""A CSV header or an Avro schema is not longer than this."""

BY_LINE, SPANNING = "by line", "spanning"
"""How a JSON file is laid out: an object a line, or values that go over line ends."""

AVRO_MAGIC = b"Obj\x01"
AVRO_MARKER = 16


@dataclass(frozen=True)
class Peek:
    """What a file says of itself: files that say the same are read together. Or why it can't be read."""

    says: str = ""
    cause: str | None = None
    nanoseconds: tuple[str, ...] = ()
    """Columns of a Parquet file in a unit that Spark has no type for."""
    names: frozenset[str] = frozenset()
    """Its columns and the fields in them, with dots between."""
    large: LargeBlock | None = None
    """What of it unpacks to more than Spark should hold."""


class Broken(Exception):
    """The file is not what it should be."""


_BROKEN = (Broken, pa.ArrowException, EOFError, ValueError)


def peek(files: Files, taken: Sequence[InputFile], look: Callable[[Files, InputFile], Peek]) -> dict[str, Peek]:
    """A look at each file, by its path."""

    def safely(file: InputFile) -> Peek:
        try:
            return look(files, file)
        except (HeadwaterError, *_BROKEN):
            if files.entry(file.path) is not None:
                read_through(files, file)
        # The storage can read it. What happened because it could not for a moment does not happen again.
        try:
            return look(files, file)
        except HeadwaterError as error:
            # The file system's word for `the bytes are not what they should be`: pyarrow's errors are OSErrors.
            cause = error.__cause__
            passing = isinstance(cause, OSError) and (is_passing(cause) or tells_transient(str(cause)))
            if passing or files.entry(file.path) is None or isinstance(cause, PermissionError):
                raise
            return Peek(cause=str(cause or error))
        except _BROKEN as error:
            return Peek(cause=str(error))

    with ThreadPoolExecutor(min(THREADS, max(1, len(taken)))) as pool:
        return dict(zip((file.path for file in taken), pool.map(safely, taken), strict=True))


def csv_header(splitter: Splitter) -> Callable[[Files, InputFile], Peek]:
    def look(files: Files, file: InputFile) -> Peek:
        with files.reading(file.path) as opened:
            head = beginning(opened, file.path, HEAD)
        return Peek(splitter.header_in(head) or "")

    return look


def json_layout(files: Files, file: InputFile) -> Peek:
    """Of a JSON file; it says BY_LINE or SPANNING."""
    with files.reading(file.path) as opened:
        head = beginning(opened, file.path, BEGINNING)
    return Peek(BY_LINE if is_by_line(head) else SPANNING)


def parquet_schema(files: Files, file: InputFile, limit: int) -> Peek:
    with files.reading(file.path) as opened:
        found = parquet.ParquetFile(opened)
        schema = found.schema_arrow
        large = large_parquet_page(opened, found.metadata, bound_of(limit))
    nanoseconds = tuple(f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.unit == "ns")
    says = schema.remove_metadata().to_string(show_field_metadata=False)
    return Peek(says, nanoseconds=nanoseconds, names=frozenset(_arrow_names(schema)), large=large)


def orc_schema(files: Files, file: InputFile, limit: int) -> Peek:
    with files.reading(file.path) as opened:
        schema = orc.ORCFile(opened).schema
    return Peek(str(schema), names=frozenset(_arrow_names(schema)))


def avro_schema(files: Files, file: InputFile, limit: int) -> Peek:
    """The schema in the header of an Avro file: a map of byte strings after four magic bytes, and a marker.

    The marker ends the file too. Where it does not, the file was cut off, and Spark would leave out its last rows
    without a word.
    """
    with files.reading(file.path) as opened:
        head = opened.read(HEAD)
        opened.seek(max(0, opened.size() - AVRO_MARKER))
        tail = opened.read(AVRO_MARKER)
    if not head.startswith(AVRO_MAGIC):
        raise Broken("not an Avro file")
    entries, at = {}, len(AVRO_MAGIC)
    try:
        count, at = _long(head, at)
        while count:
            if count < 0:
                _, at = _long(head, at)
            for _ in range(abs(count)):
                key, at = _bytes(head, at)
                value, at = _bytes(head, at)
                entries[key] = value
            count, at = _long(head, at)
        schema = json.loads(entries[b"avro.schema"])
    except (IndexError, KeyError) as error:
        raise Broken("an Avro file with a broken header") from error
    if head[at : at + AVRO_MARKER] != tail:
        raise Broken("an Avro file without its end")
    codec = entries.get(b"avro.codec", b"null").decode("utf-8", "replace")
    with files.reading(file.path) as opened:
        large = large_avro_block(opened, at + AVRO_MARKER, codec, bound_of(limit))
    return Peek(json.dumps(schema, sort_keys=True), names=frozenset(_avro_names(schema)), large=large)


def have_twins(peeks: Iterable[Peek]) -> bool:
    """Whether there are columns, or fields in one column, whose names differ only in case."""
    names = {name for one in peeks for name in one.names}
    return len({name.lower() for name in names}) < len(names)


def _arrow_names(fields: Iterable[pa.Field], at: str = "") -> Iterator[str]:
    for f in fields:
        yield at + f.name
        yield from _arrow_names((f.type.field(i) for i in range(f.type.num_fields)), f"{at}{f.name}.")


def _avro_names(schema: Any, at: str = "") -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _avro_names(one, at)
    elif isinstance(schema, dict):
        for f in schema.get("fields", ()):
            yield at + f["name"]
            yield from _avro_names(f["type"], f"{at}{f['name']}.")
        for part in ("type", "items", "values"):
            if not isinstance(schema.get(part), str):
                yield from _avro_names(schema.get(part), at)


def _long(data: bytes, at: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _long(data, at)
    if length < 0 or at + length > len(data):
        raise IndexError
    return data[at : at + length], at + length
