"""A file's bytes, unpacked piece by piece: a small file may unpack to any size. Also runs in Spark's Python workers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa

PIECE = 1 << 20
"""Unpacked bytes that are held at a time."""

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".deflate": "deflate", ".snappy": "snappy"}
_HIGHEST_RATIO = {"gzip": 1032, "deflate": 1032}
"""How many bytes one byte can unpack to, where there is a bound."""
_SNAPPY_BLOCK = 64 << 20
"""More than any writer puts into one block."""


class Readable(Protocol):
    """An open file."""

    def read(self, nbytes: int) -> bytes: ...


class BrokenFile(ValueError):
    """The bytes are not what the ending of the file's name says."""


def codec_of(name: str) -> str | None:
    """How a file is packed, by the ending of its name, as Hadoop tells it."""
    return next((codec for ending, codec in _CODECS.items() if name.endswith(ending)), None)


def may_exceed(name: str, size: int, limit: int) -> bool:
    """Whether a file of this size may have more bytes than a limit when it is unpacked."""
    codec = codec_of(name)
    ratio = 1 if codec is None else _HIGHEST_RATIO.get(codec)
    return ratio is None or size * ratio > limit


def unpacked(opened: Readable, name: str) -> Iterator[bytes]:
    """The content, in pieces of bounded size."""
    codec = codec_of(name)
    if codec is None:
        return _read(opened)
    if codec == "deflate":
        return _inflated(opened)
    if codec == "snappy":
        return _snappy(opened)
    return _read(pa.CompressedInputStream(opened, codec))


def beginning(opened: Readable, name: str, size: int) -> bytes:
    """The first unpacked bytes."""
    found = bytearray()
    for piece in unpacked(opened, name):
        found += piece
        if len(found) >= size:
            break
    return bytes(found[:size])


def _read(opened: Readable) -> Iterator[bytes]:
    while piece := opened.read(PIECE):
        yield piece


def _inflated(opened: Readable) -> Iterator[bytes]:
    """Zlib's format, one stream after the other."""
    packed = b""
    while packed := packed or opened.read(PIECE):
        stream = zlib.decompressobj()
        while not stream.eof:
            if not packed and not (packed := opened.read(PIECE)):
                raise BrokenFile("the file ends inside of a deflated stream")
            try:
                piece = stream.decompress(packed, PIECE)
            except zlib.error as error:
                raise BrokenFile(str(error)) from error
            packed = stream.unconsumed_tail or stream.unused_data
            if piece:
                yield piece


def _snappy(opened: Readable) -> Iterator[bytes]:
    """Hadoop's framing: the size of a block, then its packed parts, each after its own size."""
    codec: Any = pa.Codec("snappy")
    exactly = _exact_reader(opened)
    while head := exactly(4, True):
        left = _number(head)
        while left > 0:
            size = _number(exactly(4, False))
            if size > _SNAPPY_BLOCK:
                raise BrokenFile(f"a block of {size} packed bytes")
            packed = exactly(size, False)
            length = snappy_length(packed)
            if length > min(left, _SNAPPY_BLOCK):
                raise BrokenFile(f"a block of {length} bytes, where {left} were to come")
            yield codec.decompress(packed, length, asbytes=True)
            left -= length


def _exact_reader(opened: Readable) -> Callable[[int, bool], bytes]:
    def exactly(size: int, at_end: bool) -> bytes:
        found = opened.read(size)
        while 0 < len(found) < size and (more := opened.read(size - len(found))):
            found += more
        if len(found) < size and not (at_end and not found):
            raise BrokenFile("the file ends inside of a block")
        return found

    return exactly


def _number(four: bytes) -> int:
    return int(struct.unpack(">I", four)[0])


def snappy_length(packed: bytes) -> int:
    """How long a part is when it is unpacked: it says so itself, in its first bytes."""
    try:
        return varint(packed, 0)[0]
    except IndexError:
        raise BrokenFile("a block without its length") from None


def snappy_beginning(packed: bytes, size: int) -> bytes:
    """The first bytes of a part, of its first packed ones."""
    _, at = varint(packed, 0)
    found = bytearray()
    while at < len(packed) and len(found) < size:
        tag, at = packed[at], at + 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if length > 60:
                more = length - 60
                length = int.from_bytes(packed[at : at + more], "little") + 1
                at += more
            found += packed[at : at + min(length, size)]
            at += length
            continue
        width = (0, 1, 2, 4)[kind]
        distance = int.from_bytes(packed[at : at + width], "little")
        at += width
        if kind == 1:
            length, distance = ((tag >> 2) & 7) + 4, distance | (tag >> 5) << 8
        if not 0 < distance <= len(found):
            raise BrokenFile("a part that repeats what is not there")
        for _ in range(length):
            found.append(found[-distance])
    return bytes(found[:size])


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and what comes behind it; IndexError where it has no end."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
