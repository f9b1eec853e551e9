"""A file of the lake as records of text, whatever it was written as: each is a row, a line, a document or an entry."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.core.quotes import double_quoted
from headwater.formats.iceberg.avro import MAGIC, AvroFile

BATCH_ROWS = 20_000
_PROGRAMS = (".jar", ".jsa", ".class", ".pyc", ".whl", ".so")
_LOGS_OF_SQLITE = ("-wal", "-shm")
"""Read with the database that they belong to."""
_CHECKSUM = b"crc\x00"
_ORC = b"ORC"
_PARQUET = b"PAR1"
_SQLITE = b"SQLite format 3\x00"
_GZIP = b"\x1f\x8b"
_NOT_TEXT = frozenset(range(32)) - {9, 10, 12, 13}


class Undecoded(Exception):
    """What a file holds can't be told."""


def is_without_values(name: str, data: bytes) -> bool:
    """Checksums and programs hold nothing of anybody; locks and marks nothing at all."""
    return not data or data.startswith(_CHECKSUM) or name.endswith((*_PROGRAMS, *_LOGS_OF_SQLITE))


def tables_in(data: bytes) -> Iterator[pa.Table] | None:
    """The rows of a columnar file in parts; None if it is no such file."""
    if data.startswith(_PARQUET) and data.endswith(_PARQUET):
        file = pq.ParquetFile(BytesIO(data))
        return (readable(pa.Table.from_batches([batch])) for batch in file.iter_batches(BATCH_ROWS))
    if data.startswith(_ORC):
        from pyarrow import orc  # few lakes have any

        stripes = orc.ORCFile(BytesIO(data))
        return (readable(pa.Table.from_batches([stripes.read_stripe(n)])) for n in range(stripes.nstripes))
    return None


def notes_in(data: bytes) -> Iterator[str]:
    """What a columnar file says of itself besides its rows: properties, and the least and greatest values."""
    if not data.startswith(_PARQUET):
        return
    metadata = pq.ParquetFile(BytesIO(data)).metadata
    for key, value in (metadata.metadata or {}).items():
        yield f"{_text(key)}: {_text(value)}"
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            found = metadata.row_group(group).column(column)
            name = found.path_in_schema.rpartition(".")[2]
            with suppress(pa.ArrowNotImplementedError):  # of decimals and the like: its rows were looked at
                if found.is_stats_set and found.statistics.has_min_max:
                    yield json.dumps([{name: _plain(found.statistics.min)}, {name: _plain(found.statistics.max)}])


def documents_in(name: str, data: bytes, place: str | None = None) -> Iterator[str]:
    """The records of any other file; Undecoded where nobody can tell. `place`: where it lies, on a disk of ours."""
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise Undecoded(str(error)) from error
    if data.startswith(MAGIC):
        return _avro(name, data)
    if data.startswith(_SQLITE):
        return _sqlite(data, place)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Undecoded("it is no text") from error
    if _NOT_TEXT.intersection(data[:4096]):
        raise Undecoded("it is no text")
    return _lines(text)


def _lines(text: str) -> Iterator[str]:
    """A document as a whole, or line by line; what JSON has written by numbers of characters is written out."""
    try:
        yield json.dumps(json.loads(text), ensure_ascii=False)
        return
    except ValueError:
        pass
    for line in text.splitlines():
        try:
            yield json.dumps(json.loads(line), ensure_ascii=False)
        except ValueError:
            yield line


def _avro(name: str, data: bytes) -> Iterator[str]:
    try:
        found = AvroFile.read(data, name)
    except Exception as error:
        raise Undecoded(str(error)) from error
    return (json.dumps(_plain(record), ensure_ascii=False) for record in found.records)


def _sqlite(data: bytes, place: str | None) -> Iterator[str]:
    """Every row of every table, with what its write-ahead log has."""
    with tempfile.TemporaryDirectory() as folder:
        if place is None:
            place = str(Path(folder) / "copy.db")
            Path(place).write_bytes(data)
        connection = sqlite3.connect(f"{Path(place).as_uri()}?mode=ro", uri=True)
        try:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in names:
                cursor = connection.execute(f"SELECT * FROM {double_quoted(table)}")
                columns = [one[0] for one in cursor.description]
                for row in cursor:
                    yield json.dumps(
                        {name: _plain(one) for name, one in zip(columns, row, strict=True)}, ensure_ascii=False
                    )
        finally:
            connection.close()


def readable(table: pa.Table) -> pa.Table:
    """Bytes as the text that they are, so that a value in them can be looked for."""
    for at, field in enumerate(table.schema):
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            table = table.set_column(at, field.name, _decoded(table.column(at)))
    return table


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        texts = [None if one is None else _text(one) for one in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return _text(bytes(value))
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
