"""What an export keeps next to its table, in the same transactions: how far it is, and the rows that were refused.

`_headwater_exports` has a row for each table that an export writes to:

| column | |
|---|---|
| `target` | the table |
| `flow` | whose copy it is: the flow of a stream, or `snapshot` |
| `epoch`, `step` | the last step that is in the table; NULL for a snapshot |
| `source` | JSON: up to where its inputs were read, or which versions the snapshot is of |
| `made` | whether the export has made the table |
| `oid` | which table it was: another one of the same name is not taken for it |
| `written_at` | when the last step was written |

`_headwater_export_rejects` has a row for each one that the table has refused: `target`, `key`, `reason`, `sqlstate`,
the whole `row` (NULL where Postgres can't hold it), `deleted`, `step`, `since` and `tried_at`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from headwater.core.model import CommitTag
from headwater.targets.base import RejectedRow
from headwater.targets.postgres.tables import TargetTable

if TYPE_CHECKING:
    from psycopg import Connection

POSITIONS, REJECTS = "_headwater_exports", "_headwater_export_rejects"
SNAPSHOT = "snapshot"
_LOCK = 0x4865_6164
"""So that two exports do not make these tables at the same moment."""
_MAKE = """
CREATE TABLE IF NOT EXISTS {positions} (
  target text PRIMARY KEY, flow text NOT NULL, epoch bigint, step bigint, source jsonb NOT NULL, made boolean NOT NULL,
  oid bigint NOT NULL, written_at timestamp with time zone NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS {rejects} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, target text NOT NULL, key jsonb NOT NULL, reason text NOT NULL,
  sqlstate text, "row" jsonb, deleted boolean NOT NULL, step text NOT NULL,
  since timestamp with time zone NOT NULL DEFAULT now(), tried_at timestamp with time zone NOT NULL DEFAULT now());
CREATE INDEX IF NOT EXISTS _headwater_export_rejects_key ON {rejects} (target, key)
"""


@dataclass(frozen=True)
class StoredPosition:
    """How far the copy in a table is."""

    flow: str
    epoch: int | None
    step: int | None
    source: Mapping[str, Any]
    made: bool
    oid: int

    def has(self, tag: CommitTag) -> bool:
        """Whether a step of its flow is in the table."""
        return self.epoch is not None and self.step is not None and (self.epoch, self.step) >= (tag.epoch, tag.step)


class Records:
    """The records of one table, in its own schema."""

    def __init__(self, connection: Connection[Any], table: TargetTable) -> None:
        self._connection = connection
        self._table = table
        self.positions = table.sibling(POSITIONS)
        self.rejects = table.sibling(REJECTS)

    def are_there(self) -> bool:
        found = self._connection.execute("SELECT to_regclass(%s)", [self._name(self.positions)]).fetchone()
        return found is not None and found[0] is not None

    def make(self) -> None:
        """Make both tables, if they are not there. In a transaction."""
        if not self.are_there():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            for statement in _MAKE.split(";"):
                made = sql.SQL(statement).format(positions=self.positions.quoted, rejects=self.rejects.quoted)
                self._connection.execute(made)

    def position(self, *, lock: bool = False) -> StoredPosition | None:
        """How far the copy is; `lock`: whoever else writes to it waits for this transaction's end."""
        if not self.are_there():
            return None
        query = sql.SQL("SELECT flow, epoch, step, source, made, oid FROM {} WHERE target = %s {}").format(
            self.positions.quoted, sql.SQL("FOR UPDATE" if lock else "")
        )
        row = self._connection.execute(query, [self._table.name]).fetchone()
        return None if row is None else StoredPosition(*row)

    def write(self, flow: str, tag: CommitTag | None, source: Mapping[str, object], *, made: bool, oid: int) -> None:
        statement = sql.SQL(
            "INSERT INTO {} (target, flow, epoch, step, source, made, oid) VALUES (%s, %s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (target) DO UPDATE SET (flow, epoch, step, source, made, oid, written_at) ="
            " (EXCLUDED.flow, EXCLUDED.epoch, EXCLUDED.step, EXCLUDED.source, EXCLUDED.made, EXCLUDED.oid, now())"
        ).format(self.positions.quoted)
        epoch, step = (None, None) if tag is None else (tag.epoch, tag.step)
        values = [self._table.name, flow, epoch, step, json.dumps(dict(source), sort_keys=True), made, oid]
        self._connection.execute(statement, values)

    # --- rows that were refused

    def refuse(self, refusals: Iterable[tuple[str, str]], step: str) -> int:
        """Keep rows that Postgres can't hold, by their keys as JSON; returns how many."""
        statement = sql.SQL(
            "INSERT INTO {} (target, key, reason, deleted, step) VALUES (%s, %s, %s, false, %s)"
        ).format(self.rejects.quoted)
        values = [(self._table.name, _held(key), reason, step) for key, reason in refusals]
        if values:
            self.forget([key for _, key, _, _ in values])
            with self._connection.cursor() as cursor:
                cursor.executemany(statement, values)
        return len(values)

    def forget(self, keys: Sequence[str]) -> None:
        self._connection.execute(
            sql.SQL("DELETE FROM {} WHERE target = %s AND key = ANY (%s::jsonb[])").format(self.rejects.quoted),
            [self._table.name, list(keys)],
        )

    def clear(self) -> None:
        """The table begins empty, and has refused nothing."""
        self._connection.execute(
            sql.SQL("DELETE FROM {} WHERE target = %s").format(self.rejects.quoted), [self._table.name]
        )

    def count(self) -> int:
        row = self._connection.execute(
            sql.SQL("SELECT count(*) FROM {} WHERE target = %s").format(self.rejects.quoted), [self._table.name]
        ).fetchone()
        return 0 if row is None else int(row[0])

    def refuse_any(self) -> bool:
        return self.are_there() and self.count() > 0

    def without_refused(self, key: Sequence[str]) -> sql.Composed:
        """The table's rows, but for those of keys that it refuses newer ones of."""
        pairs = sql.SQL(", ").join(sql.SQL("{}, t.{}").format(sql.Literal(k), sql.Identifier(k)) for k in key)
        return sql.SQL(
            "(SELECT * FROM {} t WHERE NOT EXISTS (SELECT 1 FROM {} r WHERE r.target = {}"
            " AND r.key = jsonb_build_object({}))) AS t"
        ).format(self._table.quoted, self.rejects.quoted, sql.Literal(self._table.name), pairs)

    def rejected(self) -> list[RejectedRow]:
        """The rows that the table refuses now."""
        if not self.are_there():
            return []
        query = sql.SQL(
            'SELECT key, reason, step, since, tried_at, "row" IS NOT NULL FROM {} WHERE target = %s ORDER BY id'
        ).format(self.rejects.quoted)
        return [RejectedRow(*row) for row in self._connection.execute(query, [self._table.name]).fetchall()]

    def _name(self, table: TargetTable) -> str:
        return table.quoted.as_string(self._connection)


def _held(key: str) -> str:
    """A key that Postgres can't hold either, as it can show it."""
    return key.replace("\\u0000", "\\\\u0000")
