"""How much the blocks of Avro files and the pages of Parquet files unpack to: Spark unpacks one of them at a time, and
a value that is far too large makes one that Spark can't hold."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import NativeFile, parquet

from headwater.sources.decoders.base import HEAD
from headwater.sources.files.pieces.compression import PIECE, BrokenFile, snappy_beginning, snappy_length, varint
from headwater.sources.files.pieces.records import Large, PartialRecord

LEAST_BOUND = 256 << 20
"""Writers that look at the size of a page only after each thousand values make pages of some hundred MB."""
_MARKER = 16
_STREAMS: dict[str, Callable[[], Any]] = {
    "deflate": lambda: zlib.decompressobj(-15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
}
_NAMES = {"GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli"}
_HEADER = 1 << 16


@dataclass(frozen=True)
class LargeBlock:
    """A block that unpacks to too much, and where it begins in the file."""

    place: int
    content: Large


def bound_of(limit: int) -> int:
    """What a block may unpack to: a few records that are just small enough, and what ordinary writers make."""
    return max(4 * limit, LEAST_BOUND)


# --- Avro


def large_avro_block(opened: NativeFile, at: int, codec: str, bound: int) -> LargeBlock | None:
    """The first one behind the header, which ends at `at`; None also where the file is broken, which Spark tells."""
    size = opened.size()
    while at < size:
        opened.seek(at)
        head = opened.read(20)
        try:
            _, here = varint(head, 0)  # how many rows: a zigzag number, as the next one
            packed, here = varint(head, here)
        except IndexError:
            return None
        packed, data = packed >> 1, at + here
        if data + packed + _MARKER > size:
            return None
        content = _large_content(opened, data, packed, codec, bound)
        if content is not None:
            return LargeBlock(at, content)
        at = data + packed + _MARKER
    return None


def _large_content(opened: NativeFile, at: int, packed: int, codec: str, bound: int) -> Large | None:
    opened.seek(at)
    if codec == "snappy":
        head = opened.read(min(packed, 2 * HEAD))
        size = snappy_length(head)
        return Large(size, snappy_beginning(head, HEAD)) if size > bound else None
    if (codec == "null" and packed <= bound) or (codec == "deflate" and packed * 1032 <= bound):
        return None
    gathered = PartialRecord(bound)
    try:
        for piece in _unpacked(_pieces(opened, packed), codec):
            gathered.add(piece)
    except (BrokenFile, zlib.error, OSError, EOFError, lzma.LZMAError, pa.ArrowException):
        pass  # Spark tells of it
    found = gathered.take()
    return found if isinstance(found, Large) else None


def _pieces(opened: NativeFile, size: int) -> Iterator[bytes]:
    while size > 0 and (piece := opened.read(min(PIECE, size))):
        size -= len(piece)
        yield piece


def _unpacked(pieces: Iterator[bytes], codec: str) -> Iterator[bytes]:
    if codec == "zstandard":
        stream = pa.CompressedInputStream(pa.BufferReader(b"".join(pieces)), "zstd")
        while piece := stream.read(PIECE):
            yield piece
    elif codec in _STREAMS:
        stream = _STREAMS[codec]()
        for packed in pieces:
            waiting = packed
            while not stream.eof:
                piece = stream.decompress(waiting, PIECE)
                waiting = getattr(stream, "unconsumed_tail", b"")
                if piece:
                    yield piece
                elif not waiting:
                    break
    else:
        yield from pieces


# --- Parquet


def large_parquet_page(opened: NativeFile, metadata: parquet.FileMetaData, bound: int) -> LargeBlock | None:
    """The first page that unpacks to too much, of columns that may have one."""
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if column.total_uncompressed_size > bound:
                start = min(at for at in (column.dictionary_page_offset, column.data_page_offset) if at)
                found = _large_page(opened, start, start + column.total_compressed_size, column.compression, bound)
                if found is not None:
                    return found
    return None


def _large_page(opened: NativeFile, at: int, end: int, codec: str, bound: int) -> LargeBlock | None:
    while at < end:
        opened.seek(at)
        header = opened.read(min(end - at, _HEADER))
        numbers: dict[int, int] = {}
        try:
            length = _struct(header, 0, numbers)
            unpacked, packed = numbers[2], numbers[3]
        except (IndexError, KeyError):
            return None
        if unpacked > bound:
            opened.seek(at + length)
            return LargeBlock(at, Large(unpacked, _page_beginning(opened.read(min(packed, 2 * HEAD)), codec)))
        at += length + packed
    return None


def _page_beginning(packed: bytes, codec: str) -> bytes:
    """The first bytes of a page, of its first packed bytes; nothing of a codec that can't be read in parts."""
    if codec == "UNCOMPRESSED":
        return packed[:HEAD]
    try:
        if codec == "SNAPPY":
            return snappy_beginning(packed, HEAD)
        if codec in _NAMES:
            head: bytes = pa.CompressedInputStream(pa.BufferReader(packed), _NAMES[codec]).read(HEAD)
            return head
    except (BrokenFile, OSError, pa.ArrowException):
        pass
    return b""


def _struct(data: bytes, at: int, numbers: dict[int, int] | None = None) -> int:
    """Where a struct in Thrift's compact form ends; its whole numbers by their ids."""
    id = 0
    while (first := data[at]) != 0:
        at += 1
        if first >> 4:
            id += first >> 4
        else:
            told, at = varint(data, at)
            id = (told >> 1) ^ -(told & 1)
        kind = first & 15
        if kind in (4, 5, 6):
            told, at = varint(data, at)
            if numbers is not None:
                numbers[id] = (told >> 1) ^ -(told & 1)
        elif kind == 8:
            size, at = varint(data, at)
            at += size
        elif kind == 12:
            at = _struct(data, at)
        elif kind not in (1, 2):  # a page's header has nothing else
            raise IndexError(kind)
    return at + 1
