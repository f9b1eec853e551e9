"""Paimon's manifests without a JVM: which files a snapshot has, added or took away. Never imports pyspark."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from io import BytesIO
from typing import Any

from headwater.core.errors import Unsupported
from headwater.core.storage import Files

NO_VALUE = "__DEFAULT_PARTITION__"
"""What a folder is named for NULL, where the table's options do not say otherwise."""
_ADD = 0
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
_INLINE = 1 << 63
"""Marks a text of at most seven bytes, which lies in its field itself."""
_WHOLE = {"TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "BIGINT": "<q", "DATE": "<i", "BOOLEAN": "<?"}


@dataclass(frozen=True)
class ManifestEntry:
    """A data file that a snapshot added or took away."""

    is_added: bool
    partition: bytes
    bucket: int
    name: str
    bytes: int
    rows: int
    level: int
    deletes: int
    """Rows that say that another one is gone."""

    @property
    def file(self) -> tuple[object, ...]:
        """What tells it from other files."""
        return self.partition, self.bucket, self.level, self.name


def entries(files: Files, lists: Iterable[str | None]) -> list[ManifestEntry]:
    """What remains of the manifests of some lists, in their order: what came and went again is left out."""
    found: dict[object, ManifestEntry] = {}
    for name in lists:
        for manifest in _records(files, name) if name else ():
            for record in _records(files, manifest["_FILE_NAME"]):
                entry = _entry(record)
                if not entry.is_added and entry.file in found:
                    del found[entry.file]
                else:
                    found[entry.file] = entry
    return list(found.values())


def _entry(record: Any) -> ManifestEntry:
    file = record["_FILE"]
    if file.get("_EXTERNAL_PATH"):
        raise Unsupported(f"{file['_FILE_NAME']} lies outside of its table's folder")
    return ManifestEntry(
        is_added=record["_KIND"] == _ADD,
        partition=bytes(record["_PARTITION"]),
        bucket=record["_BUCKET"],
        name=file["_FILE_NAME"],
        bytes=file["_FILE_SIZE"],
        rows=file["_ROW_COUNT"],
        level=file["_LEVEL"],
        deletes=file.get("_DELETE_ROW_COUNT") or 0,
    )


def _records(files: Files, name: str) -> list[Any]:
    from fastavro import reader

    found = files.find(f"manifest/{name}")
    if found is None:
        raise Unsupported(f"manifest {name} is gone: it was expired meanwhile")
    try:
        return list(reader(BytesIO(found)))
    except (ValueError, EOFError, KeyError) as error:
        raise Unsupported(f"manifest {name} can't be read without Paimon: {error}") from error


# --- partitions


def partition_values(row: bytes, columns: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A partition's row in Paimon's binary form, by (column, Paimon's type without NOT NULL)."""
    fields = row[4:]  # after their number
    nulls = (len(columns) + 63 + 8) // 64 * 8
    values: dict[str, Any] = {}
    for at, (name, kind) in enumerate(columns):
        bit = at + 8
        is_null = bool(fields[bit // 8] & (1 << bit % 8))
        values[name] = None if is_null else _value(fields, nulls + at * 8, kind)
    return values


def _value(fields: bytes, at: int, kind: str) -> Any:
    if kind == "STRING":
        (where,) = struct.unpack_from("<Q", fields, at)
        if where & _INLINE:
            return fields[at : at + (where >> 56 & 0x7F)].decode()
        begin, length = where >> 32, where & 0xFFFFFFFF
        return fields[begin : begin + length].decode()
    if kind not in _WHOLE:
        raise Unsupported(f"partitions by {kind} are told by Paimon alone")
    (value,) = struct.unpack_from(_WHOLE[kind], fields, at)
    return value


def partition_text(value: Any, kind: str) -> str | None:
    """A partition's value as Spark shows it."""
    if value is None:
        return None
    if kind == "DATE":
        try:
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        except OverflowError:
            raise Unsupported("partitions of years beyond 1 to 9999 are told by Spark alone") from None
    return _plain(value)


def folder_of(values: dict[str, Any]) -> str:
    """The folder of a partition below its table's: days stand there as numbers."""
    return "/".join(f"{_escaped(name)}={_escaped(_named(value))}" for name, value in values.items())


def _named(value: Any) -> str:
    text = None if value is None else _plain(value)
    return text if text is not None and text.strip() else NO_VALUE


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
