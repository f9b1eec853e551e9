"""The messages of the `pgoutput` plugin, protocol version 1: a transaction's changes between its begin and commit."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""Postgres counts microseconds from here."""


class Unsent:
    """Stands for a value that was not sent: it is stored out of line, and has not changed."""


UNSENT = Unsent()

Values = list[bytes | Unsent | None]
"""A row as it was sent: text, and None for NULL."""

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_U32 = struct.Struct(">I")
_U16 = struct.Struct(">H")
_TYPE = struct.Struct(">Ii")
_TRUNCATE = struct.Struct(">IB")


@dataclass(frozen=True)
class Begin:
    """A transaction begins that was committed by the record at `lsn`."""

    lsn: int
    committed_at: datetime
    xid: int


@dataclass(frozen=True)
class SentColumn:
    """A column as a relation message tells it."""

    name: str
    oid: int
    modifier: int
    key: bool


@dataclass(frozen=True)
class SentRelation:
    """A table as it was when the changes that follow were made."""

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[SentColumn, ...]


@dataclass(frozen=True)
class Change:
    """An insert, update or delete: rows by position of the relation's columns."""

    relation: int
    op: str
    before: Values | None = None
    before_is_key: bool = False
    """Of the row before only the key was sent; the rest of it is NULL here and means nothing."""
    after: Values | None = None


@dataclass(frozen=True)
class Truncate:
    relations: tuple[int, ...]


Message = Begin | SentRelation | Change | Truncate


def parse(data: bytes) -> Message | None:
    """One message; None for those that tell nothing of interest (commit, origin, type)."""
    kind = data[:1]
    if kind == b"I":
        return Change(_U32.unpack_from(data, 1)[0], "i", after=_row(data, 6)[0])
    if kind == b"U":
        return _update(data)
    if kind == b"D":
        before, _ = _row(data, 6)
        return Change(_U32.unpack_from(data, 1)[0], "d", before, data[5:6] == b"K")
    if kind == b"B":
        lsn, at, xid = _BEGIN.unpack_from(data, 1)
        return Begin(lsn, EPOCH + timedelta(microseconds=at), xid)
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        count, _ = _TRUNCATE.unpack_from(data, 1)
        return Truncate(struct.unpack_from(f">{count}I", data, 6))
    return None


def _update(data: bytes) -> Change:
    relation = _U32.unpack_from(data, 1)[0]
    commit_tag = data[5:6]
    if commit_tag == b"N":
        return Change(relation, "u", after=_row(data, 6)[0])
    before, at = _row(data, 6)
    return Change(relation, "u", before, commit_tag == b"K", _row(data, at + 1)[0])


def _row(data: bytes, at: int) -> tuple[Values, int]:
    """The values from here on, and where they end."""
    (count,) = _U16.unpack_from(data, at)
    at += 2
    values: Values = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t: text
            (length,) = _U32.unpack_from(data, at)
            at += 4
            values.append(data[at : at + length])
            at += length
        else:
            values.append(None if kind == 0x6E else UNSENT)
    return values, at


def _relation(data: bytes) -> SentRelation:
    (oid,) = _U32.unpack_from(data, 1)
    schema, at = _text(data, 5)
    table, at = _text(data, at)
    identity = data[at : at + 1].decode()
    (count,) = _U16.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        key = data[at] == 1
        name, at = _text(data, at + 1)
        type, modifier = _TYPE.unpack_from(data, at)
        at += 8
        columns.append(SentColumn(name, type, modifier, key))
    return SentRelation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\x00", at)
    return data[at:end].decode("utf-8"), end + 1
