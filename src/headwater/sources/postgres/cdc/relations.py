"""Captured tables as they were at some moment: their columns and types, kept with the flow under an id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files
from headwater.sources.postgres.cdc.pgoutput import SentRelation
from headwater.sources.postgres.cdc.types import PgType

if TYPE_CHECKING:
    import psycopg

OP, UNCHANGED, BEFORE, AFTER = "_op", "_unchanged", "before", "after"
FOLDER = "relations"

_TYPES = """
    WITH RECURSIVE under AS (
        SELECT oid AS asked, oid, typtype, typbasetype, typtypmod AS modifier
        FROM pg_type WHERE oid = ANY(%s)
        UNION ALL
        SELECT u.asked, t.oid, t.typtype, t.typbasetype,
               CASE WHEN u.modifier >= 0 THEN u.modifier ELSE t.typtypmod END
        FROM under u JOIN pg_type t ON t.oid = u.typbasetype WHERE u.typtype = 'd'
    )
    SELECT u.asked::int8, b.typname, u.modifier,
           CASE WHEN e.typarray = b.oid AND e.typdelim = ',' THEN e.oid::int8 END, u.asked <> u.oid
    FROM under u JOIN pg_type b ON b.oid = u.oid LEFT JOIN pg_type e ON e.oid = b.typelem
    WHERE u.typtype <> 'd'
"""
"""For each type: what it is below domains, and what is in it if it is an array."""


@dataclass(frozen=True)
class PgColumn:
    """A column of a captured table."""

    name: str
    type: PgType
    key: bool = False


@dataclass(frozen=True)
class TableShape:
    """One shape of a captured table."""

    table: str
    columns: tuple[PgColumn, ...]

    @cached_property
    def id(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    @cached_property
    def event(self) -> StructType:
        """The event that a change becomes."""
        image = StructType([StructField(c.name, c.type.spark) for c in self.columns])
        return _event(image)

    @cached_property
    def record(self) -> StructType:
        """How a change stands in its record."""
        image = StructType([StructField(c.name, c.type.as_sent) for c in self.columns])
        return StructType([StructField("op", StringType()), *_event(image).fields[1:]])

    def to_json(self) -> str:
        columns = [{"name": c.name, "type": c.type.to_json(), "key": c.key} for c in self.columns]
        return json.dumps({"table": self.table, "columns": columns}, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> TableShape:
        told = json.loads(text)
        columns = (PgColumn(c["name"], PgType.from_json(c["type"]), bool(c["key"])) for c in told["columns"])
        return TableShape(told["table"], tuple(columns))


def _event(image: StructType) -> StructType:
    return StructType(
        [
            StructField(OP, StringType()),
            StructField(BEFORE, image),
            StructField(AFTER, image),
            StructField(UNCHANGED, ArrayType(StringType())),
        ]
    )


class RelationLog:
    """The shapes that a topic's table has had, in the flow's folder: what a record's bytes are read by."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, TableShape] | None = None

    def add(self, relation: TableShape) -> None:
        known = self._all()
        if relation.id not in known:
            self._files.write_new(_path(relation.id), relation.to_json())
            known[relation.id] = relation

    def all(self) -> list[TableShape]:
        """Every shape, oldest first."""
        return list(self._all().values())

    def _all(self) -> dict[str, TableShape]:
        if self._known is None:
            entries = sorted(self._files.list(FOLDER), key=lambda entry: entry.modified)
            found = (self._read(entry.name.removesuffix(".json")) for entry in entries)
            self._known = {relation.id: relation for relation in found}
        return self._known

    def _read(self, id: str) -> TableShape:
        try:
            return TableShape.from_json(self._files.read_text(_path(id)))
        except (ValueError, KeyError, TypeError) as error:
            path = self._files.join(_path(id))
            raise IntegrityError(Code.LEDGER_CORRUPT, f"{path} can't be read: {error}") from error


def _path(id: str) -> str:
    return f"{FOLDER}/{id}.json"


class TypeCatalog:
    """What a server's type ids stand for, asked once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, int, int | None, bool]] = {}

    def types(self, connection: psycopg.Connection[Any], asked: Iterable[tuple[int, int]]) -> list[PgType]:
        """The types of these ids and modifiers; what is gone meanwhile is text."""
        wanted = list(asked)
        missing = {oid for oid, _ in wanted} - self._known.keys()
        while missing:
            for oid, *told in connection.execute(_TYPES, [list(missing)]).fetchall():
                self._known[oid] = tuple(told)
            for oid in missing:
                self._known.setdefault(oid, ("text", -1, None, False))
            missing = {element for _, _, element, _ in self._known.values() if element} - self._known.keys()
        return [self._type(oid, modifier) for oid, modifier in wanted]

    def _type(self, oid: int, modifier: int) -> PgType:
        name, own, element, is_domain = self._known[oid]
        modifier = own if is_domain else modifier
        if element is None:
            return PgType(name, modifier if name == "numeric" else -1)
        return PgType(name, -1, self._type(element, modifier))

    def relation(self, connection: psycopg.Connection[Any], sent: SentRelation) -> TableShape:
        types = self.types(connection, ((c.oid, c.modifier) for c in sent.columns))
        columns = (PgColumn(c.name, type, c.key) for c, type in zip(sent.columns, types, strict=True))
        return TableShape(f"{sent.schema}.{sent.table}", tuple(columns))
