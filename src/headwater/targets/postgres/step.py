"""One step's rows into the table, within the caller's transaction: COPY, then deletes and upserts from a table of the
session's own. Where the table refuses a row the others go on, and the row is kept for the next step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from headwater.core.errors import Code, TerminalError
from headwater.core.model import DELETED
from headwater.targets.postgres.connection import row_error
from headwater.targets.postgres.records import Records
from headwater.targets.postgres.tables import TargetTable, insert, names_of

if TYPE_CHECKING:
    from psycopg import Connection

_STAGE = "_headwater_step"
_NUMBER, _SINCE = "_headwater_number", "_headwater_since"
MOST_REJECTS = 10_000
"""A table that refuses more rows of a step refuses the export."""
_MANY = 10_000
"""Rows for which it pays to have the planner look at them."""


@dataclass(frozen=True)
class StepRows:
    """What a step brings to a table."""

    table: TargetTable
    columns: Mapping[str, str]
    key: Sequence[str]
    name: str
    """The step, as records name it."""


def copy_in(
    connection: Connection[Any], table: sql.Composable, columns: Sequence[str], text: Iterable[memoryview]
) -> int:
    """Rows as COPY's text into a table; returns how many."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(table, names_of(columns))
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for piece in text:
                copy.write(piece)
        return cursor.rowcount


def append(connection: Connection[Any], step: StepRows, text: Iterable[memoryview]) -> int | None:
    """The quick way, for rows that only grow: right into the table. None: it has refused one, and has none of them."""
    try:
        with connection.transaction():
            return copy_in(connection, step.table.quoted, list(step.columns), text)
    except psycopg.Error as error:
        if row_error(error) is None:
            raise
        return None


def _widest(type_: str) -> str:
    """A type for rows of this step and of earlier ones, whose columns may have been wider."""
    if type_.startswith("numeric"):
        return "numeric"
    return "bigint" if type_ in ("smallint", "integer") else type_


class StagedStep:
    """A step's rows in a table of the session's own, which goes with the transaction."""

    def __init__(self, connection: Connection[Any], records: Records, step: StepRows) -> None:
        self._connection = connection
        self._records = records
        self._step = step
        self._stage = sql.Identifier("pg_temp", _STAGE)
        self._rejected = 0

    def load(self, text: Iterable[memoryview], *, deletes: bool) -> int:
        """Take the step's rows, and those that were refused before, unless the step has their keys."""
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(_widest(type_)))
            for name, type_ in self._step.columns.items()
        ]
        self._connection.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {} ({}, {} boolean NOT NULL DEFAULT false,"
                " {} bigint GENERATED ALWAYS AS IDENTITY, {} timestamp with time zone) ON COMMIT DROP"
            ).format(
                sql.Identifier(_STAGE),
                sql.SQL(", ").join(columns),
                sql.Identifier(DELETED),
                sql.Identifier(_NUMBER),
                sql.Identifier(_SINCE),
            )
        )
        names = [*self._step.columns, *([DELETED] if deletes else [])]
        rows = copy_in(self._connection, self._stage, names, text)
        if rows > _MANY:
            self._connection.execute(sql.SQL("ANALYZE {}").format(self._stage))
        if self._records.count():
            try:
                with self._connection.transaction():
                    self._take_rejects()
            except psycopg.Error as error:
                if row_error(error) is None:
                    raise  # else their columns have other types by now: they wait for newer rows
        return rows

    def _take_rejects(self) -> None:
        """Rows that were refused before are tried with these."""
        rejects, target = self._records.rejects.quoted, self._step.table.name
        if self._step.key:
            self._connection.execute(
                sql.SQL("DELETE FROM {} r USING {} s WHERE r.target = %s AND r.key = {}").format(
                    rejects, self._stage, self._key("s")
                ),
                [target],
            )
        names = list(self._step.columns)
        again = sql.SQL(
            "INSERT INTO {} ({}, {}, {}) SELECT {}, r.deleted, r.since FROM {} r,"
            ' LATERAL jsonb_populate_record(NULL::{}, r."row") p WHERE r.target = %s AND r."row" IS NOT NULL'
        ).format(
            self._stage,
            names_of(names),
            sql.Identifier(DELETED),
            sql.Identifier(_SINCE),
            names_of(names, "p"),
            rejects,
            self._stage,
        )
        self._connection.execute(again, [target])
        self._connection.execute(
            sql.SQL('DELETE FROM {} WHERE target = %s AND "row" IS NOT NULL').format(rejects), [target]
        )

    def apply(self) -> int:
        """Delete and upsert; returns how many rows were refused."""
        row = self._connection.execute(sql.SQL("SELECT max({}) FROM {}").format(sql.Identifier(_NUMBER), self._stage))
        last = row.fetchone()
        if last is not None and last[0] is not None:
            if self._step.key:
                self._run(self._delete(), 1, last[0] + 1)
            self._run(self._upsert(), 1, last[0] + 1)
        return self._rejected

    def _run(self, statement: sql.Composed, first: int, end: int) -> None:
        """Run it for the rows with these numbers; if one is refused, for either half."""
        try:
            with self._connection.transaction():
                self._connection.execute(statement, {"first": first, "end": end})
            return
        except psycopg.Error as error:
            reason = row_error(error)
            if reason is None:
                raise
            state = error.sqlstate
        if end - first > 1:
            self._index()
            middle = (first + end) // 2
            self._run(statement, first, middle)
            self._run(statement, middle, end)
        else:
            self._reject(first, reason, state)

    def _index(self) -> None:
        self._connection.execute(
            sql.SQL("CREATE INDEX IF NOT EXISTS _headwater_step_number ON {} ({})").format(
                self._stage, sql.Identifier(_NUMBER)
            )
        )

    def _reject(self, number: int, reason: str, state: str | None) -> None:
        self._rejected += 1
        if self._rejected > MOST_REJECTS:
            raise TerminalError(
                Code.EXPORT_REFUSED,
                f"{self._step.table} refuses more than {MOST_REJECTS} rows of a step, such as one for: {reason}",
                hint="change the table's constraints, or leave the rows out: filter",
            )
        mine = [sql.Literal(name) for name in (DELETED, _NUMBER, _SINCE)]
        self._connection.execute(
            sql.SQL(
                'INSERT INTO {} (target, key, reason, sqlstate, "row", deleted, step, since)'
                " SELECT %(target)s, {}, %(reason)s, %(state)s, to_jsonb(s) - ARRAY[{}]::text[], s.{}, %(step)s,"
                " coalesce(s.{}, now()) FROM {} s WHERE s.{} = %(number)s"
            ).format(
                self._records.rejects.quoted,
                self._key("s"),
                sql.SQL(", ").join(mine),
                sql.Identifier(DELETED),
                sql.Identifier(_SINCE),
                self._stage,
                sql.Identifier(_NUMBER),
            ),
            {
                "target": self._step.table.name,
                "reason": reason,
                "state": state,
                "step": self._step.name,
                "number": number,
            },
        )

    def _key(self, of: str) -> sql.Composed:
        """The key of a row as JSON; of rows without one all that they have."""
        names = list(self._step.key) or list(self._step.columns)
        pairs = (sql.SQL("{}, {}").format(sql.Literal(name), sql.Identifier(of, name)) for name in names)
        return sql.SQL("jsonb_build_object({})").format(sql.SQL(", ").join(pairs))

    def _delete(self) -> sql.Composed:
        same = sql.SQL(" AND ").join(
            sql.SQL("t.{} = s.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in self._step.key
        )
        return sql.SQL("DELETE FROM {} t USING {} s WHERE s.{} AND s.{} >= %(first)s AND s.{} < %(end)s AND {}").format(
            self._step.table.quoted,
            self._stage,
            sql.Identifier(DELETED),
            sql.Identifier(_NUMBER),
            sql.Identifier(_NUMBER),
            same,
        )

    def _upsert(self) -> sql.Composed:
        chosen = sql.SQL("{} WHERE NOT {} AND {} >= %(first)s AND {} < %(end)s").format(
            self._stage, sql.Identifier(DELETED), sql.Identifier(_NUMBER), sql.Identifier(_NUMBER)
        )
        return insert(self._step.table, chosen, list(self._step.columns), self._step.key)
