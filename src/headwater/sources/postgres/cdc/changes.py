"""From the slot's messages to records: one JSON object a change, with every value as Postgres writes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.sources.postgres.cdc.pgoutput import Begin, Change, SentRelation, Truncate, Unsent, Values, parse
from headwater.sources.postgres.cdc.relations import AFTER, BEFORE, UNCHANGED, TableShape, TypeCatalog
from headwater.sources.postgres.cdc.spool import Spool
from headwater.sources.postgres.cdc.types import items

if TYPE_CHECKING:
    import psycopg

ODD = "odd"
"""Values that have no place in a record's form, by their path, as text."""


def position(lsn: int, number: int) -> str:
    """Sorts in order of commit, and of the changes within one transaction."""
    return f"{lsn:016X}/{number:020d}"


class Capture:
    """Takes the messages of one look at the slot, and puts records into the spools of the tables that are followed."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        types: TypeCatalog,
        floors: Mapping[str, int],
        spool: Callable[[str], Spool],
        inferred: Callable[[TableShape], None],
    ) -> None:
        """`floors`: followed table → what was committed before this is not wanted any more."""
        self._connection = connection
        self._types = types
        self._floors = floors
        self._spool = spool
        self._inferred = inferred
        self._relations: dict[int, TableShape | None] = {}
        self._begin: Begin | None = None
        self._number = 0

    def take(self, messages: Iterable[bytes]) -> None:
        for data in messages:
            message = parse(data)
            if isinstance(message, Change):
                self._number += 1
                relation = self._wanted(message.relation)
                if relation is not None:
                    self._put(relation, _change(relation, message))
            elif isinstance(message, Begin):
                self._begin, self._number = message, 0
            elif isinstance(message, SentRelation):
                self._relations[message.oid] = self._relation(message)
            elif isinstance(message, Truncate):
                for oid in message.relations:
                    self._number += 1
                    relation = self._wanted(oid)
                    if relation is not None:
                        self._put(relation, {"relation": relation.id, "op": "t"})

    def _relation(self, sent: SentRelation) -> TableShape | None:
        if f"{sent.schema}.{sent.table}" not in self._floors:
            return None
        relation = self._types.relation(self._connection, sent)
        self._inferred(relation)
        return relation

    def _wanted(self, oid: int) -> TableShape | None:
        relation = self._relations[oid]
        assert self._begin is not None
        return None if relation is None or self._begin.lsn < self._floors[relation.table] else relation

    def _put(self, relation: TableShape, record: dict[str, Any]) -> None:
        begin = self._begin
        assert begin is not None
        raw = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        at: datetime = begin.committed_at
        self._spool(relation.table).add(position(begin.lsn, self._number), raw, relation.id, begin.xid, at, begin.lsn)


def _change(relation: TableShape, change: Change) -> dict[str, Any]:
    record: dict[str, Any] = {"relation": relation.id, "op": change.op}
    odd: dict[str, str] = {}
    before, after = change.before, change.after
    if before is not None:
        record[BEFORE] = _image(relation, before, BEFORE, odd, key_only=change.before_is_key)
    if after is not None:
        if before is not None and not change.before_is_key:
            # The whole row before was sent: what is not sent again is there.
            after = [old if isinstance(new, Unsent) else new for old, new in zip(before, after, strict=True)]
        unsent = [c.name for c, value in zip(relation.columns, after, strict=True) if isinstance(value, Unsent)]
        record[AFTER] = _image(relation, after, AFTER, odd)
        if unsent:
            record[UNCHANGED] = unsent
    if odd:
        record[ODD] = odd
    return record


def _image(
    relation: TableShape, values: Values, of: str, odd: dict[str, str], *, key_only: bool = False
) -> dict[str, Any]:
    image: dict[str, Any] = {}
    for column, sent in zip(relation.columns, values, strict=True):
        if sent is None or isinstance(sent, Unsent) or (key_only and not column.key):
            continue
        try:
            text = sent.decode("utf-8")
        except UnicodeDecodeError:  # a database without an encoding takes any bytes
            odd[f"{of}.{column.name}"] = "\\x" + sent.hex()
            continue
        if column.type.element is None:
            image[column.name] = text
            continue
        listed = items(text)
        if listed is None:
            odd[f"{of}.{column.name}"] = text
        else:
            image[column.name] = listed
    return image
