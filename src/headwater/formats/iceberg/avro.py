"""Avro files with some of their values changed; all else stays as it was written, the header's schema to the letter.

A library would turn values into Python's and back (dates, decimals, maps with keys that are no texts), and write a
schema of its own making. Here a union is (branch, value), and a map is a list of pairs: nothing is lost on the way.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from headwater.core.errors import Code, IntegrityError

MAGIC = b"Obj\x01"


@dataclass
class AvroFile:
    """The records of one file."""

    header: dict[str, bytes]
    sync: bytes
    records: list[Any]

    @property
    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.header["avro.schema"])
        return found

    @property
    def fields(self) -> set[str]:
        return {field["name"] for field in self.schema["fields"]}

    @staticmethod
    def read(data: bytes, name: str) -> AvroFile:
        import pyarrow as pa  # not with the module: commands that only look load that too

        try:
            return _read(data)
        except (KeyError, ValueError, IndexError, EOFError, zlib.error, pa.ArrowException) as error:
            raise IntegrityError(Code.TABLE_CORRUPT, f"{name} is not a whole Avro file: {error}") from error

    def to_bytes(self) -> bytes:
        codec = _Codec(self.schema)
        out = BytesIO()
        for record in self.records:
            codec.write(out, record)
        packing = zlib.compressobj(wbits=-15)
        packed = packing.compress(out.getvalue()) + packing.flush()
        whole = BytesIO()
        whole.write(MAGIC)
        _write_header(whole, {**self.header, "avro.codec": b"deflate"})
        whole.write(self.sync)
        if self.records:
            _write_long(whole, len(self.records))
            _write_bytes(whole, packed)
            whole.write(self.sync)
        return whole.getvalue()


class _Codec:
    """Reads and writes the values of one schema."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._note(schema)

    def read(self, data: BytesIO, schema: Any = None) -> Any:
        schema = self._schema if schema is None else schema
        kind = self._kind(schema)
        if isinstance(kind, list):
            branch = _read_long(data)
            return branch, self.read(data, kind[branch])
        if isinstance(kind, dict):
            return self._read_complex(data, kind)
        return _READERS[kind](data)

    def _read_complex(self, data: BytesIO, schema: dict[str, Any]) -> Any:
        kind = schema["type"]
        if kind == "record":
            return {field["name"]: self.read(data, field["type"]) for field in schema["fields"]}
        if kind == "array":
            return _read_blocks(data, lambda: self.read(data, schema["items"]))
        if kind == "map":
            return _read_blocks(data, lambda: (_read_bytes(data), self.read(data, schema["values"])))
        if kind == "fixed":
            return _take(data, schema["size"])
        if kind == "enum":
            return _read_long(data)
        return self.read(data, kind)

    def write(self, out: BytesIO, value: Any, schema: Any = None) -> None:
        schema = self._schema if schema is None else schema
        kind = self._kind(schema)
        if isinstance(kind, list):
            branch, inner = value
            _write_long(out, branch)
            self.write(out, inner, kind[branch])
        elif isinstance(kind, dict):
            self._write_complex(out, value, kind)
        else:
            _WRITERS[kind](out, value)

    def _write_complex(self, out: BytesIO, value: Any, schema: dict[str, Any]) -> None:
        kind = schema["type"]
        if kind == "record":
            for field in schema["fields"]:
                self.write(out, value[field["name"]], field["type"])
        elif kind in ("array", "map"):
            if value:
                _write_long(out, len(value))
            for each in value:
                if kind == "map":
                    _write_bytes(out, each[0])
                self.write(out, each if kind == "array" else each[1], schema["items" if kind == "array" else "values"])
            _write_long(out, 0)
        elif kind == "fixed":
            out.write(value)
        elif kind == "enum":
            _write_long(out, value)
        else:
            self.write(out, value, kind)

    def _kind(self, schema: Any) -> Any:
        """A union's branches, a complex type, or a primitive's name."""
        if isinstance(schema, str):
            return self._named.get(schema, schema)
        if isinstance(schema, dict) and isinstance(schema["type"], str) and schema["type"] in _READERS:
            return schema["type"]
        return schema

    def _note(self, schema: Any) -> None:
        """Remember the types that have names: others may refer to them."""
        if isinstance(schema, list):
            for each in schema:
                self._note(each)
        elif isinstance(schema, dict):
            if schema.get("type") in ("record", "fixed", "enum"):
                space = schema.get("namespace")
                self._named[schema["name"]] = schema
                if space:
                    self._named[f"{space}.{schema['name']}"] = schema
            for each in schema.get("fields", ()):
                self._note(each["type"])
            for key in ("type", "items", "values"):
                if isinstance(schema.get(key), (dict, list)):
                    self._note(schema[key])


def _read(data: bytes) -> AvroFile:
    file = BytesIO(data)
    if _take(file, 4) != MAGIC:
        raise ValueError("it begins with something else")
    header = {key.decode(): value for key, value in _read_blocks(file, lambda: (_read_bytes(file), _read_bytes(file)))}
    sync = _take(file, 16)
    codec = _Codec(json.loads(header["avro.schema"]))
    records: list[Any] = []
    while file.tell() < len(data):
        count = _read_long(file)
        block = BytesIO(_unpacked(_read_bytes(file), header.get("avro.codec", b"null").decode()))
        records += [codec.read(block) for _ in range(count)]
        if _take(file, 16) != sync:
            raise ValueError("a block does not end where it should")
    return AvroFile(header, sync, records)


def _unpacked(packed: bytes, codec: str) -> bytes:
    if codec == "null":
        return packed
    if codec == "deflate":
        return zlib.decompress(packed, wbits=-15)
    import pyarrow as pa

    if codec == "zstandard":
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            return bytes(stream.read())
    if codec == "snappy":  # a checksum of four bytes follows
        return bytes(pa.decompress(packed[:-4], decompressed_size=_snappy_size(packed), codec="snappy", asbytes=True))
    raise ValueError(f"it is packed with {codec}")


def _snappy_size(packed: bytes) -> int:
    size = shift = 0
    for byte in packed:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return size


def _take(data: BytesIO, count: int) -> bytes:
    found = data.read(count)
    if len(found) != count:
        raise EOFError("it ends too early")
    return found


def _read_long(data: BytesIO) -> int:
    value = shift = 0
    while True:
        byte = _take(data, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1)


def _write_long(out: BytesIO, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value & ~0x7F:
        out.write(bytes((value & 0x7F | 0x80,)))
        value >>= 7
    out.write(bytes((value,)))


def _read_bytes(data: BytesIO) -> bytes:
    return _take(data, _read_long(data))


def _write_bytes(out: BytesIO, value: bytes) -> None:
    _write_long(out, len(value))
    out.write(value)


def _read_blocks(data: BytesIO, item: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    while count := _read_long(data):
        if count < 0:
            count = -count
            _read_long(data)  # the block's size
        found += [item() for _ in range(count)]
    return found


def _write_header(out: BytesIO, header: dict[str, bytes]) -> None:
    _write_long(out, len(header))
    for key, value in header.items():
        _write_bytes(out, key.encode())
        _write_bytes(out, value)
    _write_long(out, 0)


_READERS: dict[Any, Callable[[BytesIO], Any]] = {
    "null": lambda data: None,
    "boolean": lambda data: _take(data, 1),
    "int": _read_long,
    "long": _read_long,
    "float": lambda data: _take(data, 4),
    "double": lambda data: _take(data, 8),
    "bytes": _read_bytes,
    "string": _read_bytes,
}
_WRITERS: dict[Any, Callable[[BytesIO, Any], Any]] = {
    "null": lambda out, value: None,
    "boolean": lambda out, value: out.write(value),
    "int": _write_long,
    "long": _write_long,
    "float": lambda out, value: out.write(value),
    "double": lambda out, value: out.write(value),
    "bytes": _write_bytes,
    "string": _write_bytes,
}
