"""A captured table at the server: that it is there, can be followed, and is in the publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.sources.postgres import quoted
from headwater.sources.postgres_cdc.database import Database, quoted_table

if TYPE_CHECKING:
    import psycopg

_TABLE = """
    SELECT c.oid::int8, c.relkind::text, c.relreplident::text,
           EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
           EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident),
           (SELECT array_agg(p.relfilenode::int8 ORDER BY p.oid) FROM pg_class p
            WHERE p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_PUBLICATION = "SELECT to_jsonb(p) FROM pg_publication p WHERE pubname = %s"
_PUBLISHED = """
    SELECT to_jsonb(t) || jsonb_build_object('member', coalesce(r.oid, p.oid)::int8)
    FROM pg_publication_tables t
    JOIN pg_publication p ON p.pubname = t.pubname
    JOIN pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
    LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
    WHERE t.pubname = %s AND t.schemaname = %s AND t.tablename = %s
"""


@dataclass(frozen=True)
class Followed:
    """A table that is there."""

    oid: int
    kind: str
    identity: str
    has_key: bool
    has_index: bool
    """An index was named that tells its rows apart."""
    files: Sequence[int]
    """Others when the table, or a partition of it, is rewritten or truncated."""

    @property
    def tells_rows_apart(self) -> bool:
        return (
            self.identity == "f" or (self.identity == "d" and self.has_key) or (self.identity == "i" and self.has_index)
        )


def find(connection: psycopg.Connection[Any], table: str) -> Followed | None:
    schema, _, name = table.partition(".")
    found = connection.execute(_TABLE, [schema, name]).fetchone()
    return None if found is None else Followed(*found)


def published(connection: psycopg.Connection[Any], database: Database, table: str) -> dict[str, Any] | None:
    """What the publication says of a table (columns and rows that it is limited to); None if it is not in it.

    `member` is another one when the table was taken out and put in again.
    """
    schema, _, name = table.partition(".")
    found = connection.execute(_PUBLISHED, [database.publication, schema, name]).fetchone()
    return None if found is None else dict(found[0])


def prepare(connection: psycopg.Connection[Any], database: Database, table: str) -> Followed:
    """See to it that a table's changes are published, and say exactly what is in the way of that."""
    where = database.spec.where
    level = connection.execute("SHOW wal_level").fetchone()
    if level is None or level[0] != "logical":
        raise UsageError(
            Code.SOURCE_MISMATCH,
            f"{database.place}: `wal_level` is {level and level[0]}; changes are told only when it is logical",
            where=where,
            hint="have a superuser run: ALTER SYSTEM SET wal_level = logical; and restart the server",
        )
    found = require(connection, database, table)
    if not found.tells_rows_apart:
        raise UsageError(
            Code.SOURCE_MISMATCH,
            f"{database.place}: the table {table} has nothing that tells its rows apart, so that once its changes are"
            " published Postgres would refuse every UPDATE and DELETE",
            where=where,
            hint=f"give it a primary key, or run: ALTER TABLE {quoted_table(table)} REPLICA IDENTITY FULL;",
        )
    _publish(connection, database, table, found)
    return found


def require(connection: psycopg.Connection[Any], database: Database, table: str) -> Followed:
    found = find(connection, table)
    if found is None or found.kind not in ("r", "p"):
        what = "there is no table" if found is None else "only tables can be followed, and not a view:"
        raise TerminalError(
            Code.SOURCE_MISMATCH,
            f"{database.place}: {what} {table}",
            where=database.spec.where,
            hint="it was dropped or renamed, or its name is written in another way; `headwater topic drop` ends"
            " the topic that follows it",
        )
    return found


def publication_sql(database: Database, tables: list[str]) -> str:
    named = ", ".join(map(quoted_table, tables))
    return f"CREATE PUBLICATION {quoted(database.publication)} FOR TABLE {named} WITH (publish_via_partition_root)"


def _publish(connection: psycopg.Connection[Any], database: Database, table: str, found: Followed) -> None:
    import psycopg

    name = quoted(database.publication)
    row = connection.execute(_PUBLICATION, [database.publication]).fetchone()
    if row is None:
        try:
            _run(connection, database, publication_sql(database, [table]))
        except psycopg.errors.DuplicateObject:
            pass  # another flow of this source was quicker
        row = connection.execute(_PUBLICATION, [database.publication]).fetchone()
    told = dict(row[0]) if row is not None else {}
    left_out = [op for op in ("insert", "update", "delete", "truncate") if not told.get(f"pub{op}")]
    if left_out:
        sql = f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');"
        raise _unfit(database, f"does not publish {' and '.join(left_out)}", sql)
    if found.kind == "p" and not told.get("pubviaroot"):
        sql = f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true);"
        raise _unfit(database, f"tells changes of {table} by its partitions", sql)
    if published(connection, database, table) is None:
        try:
            _run(connection, database, f"ALTER PUBLICATION {name} ADD TABLE {quoted_table(table)}")
        except psycopg.errors.DuplicateObject:
            pass


def _run(connection: psycopg.Connection[Any], database: Database, sql: str) -> None:
    import psycopg

    try:
        connection.execute(sql)
    except psycopg.errors.DuplicateObject:
        raise
    except psycopg.errors.InsufficientPrivilege as error:
        raise UsageError(
            Code.SOURCE_DENIED,
            f"{database.place}: the publication '{database.publication}' lacks a table, and can't be changed:"
            f" {error.diag.message_primary}",
            where=database.spec.where,
            hint=f"have the owner of the table run: {sql};",
        ) from error
    except psycopg.Error as error:
        raise database.translated(error) from error


def _unfit(database: Database, what: str, sql: str) -> HeadwaterError:
    return UsageError(
        Code.SOURCE_MISMATCH,
        f"{database.place}: the publication '{database.publication}' {what}",
        where=database.spec.where,
        hint=f"have its owner run: {sql}",
    )
