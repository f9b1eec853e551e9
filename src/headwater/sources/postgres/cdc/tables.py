"""A captured table at the server: that it is there, can be followed, and is in the publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.quotes import double_quoted
from headwater.sources.postgres.cdc.database import CdcDatabase, quoted_table

if TYPE_CHECKING:
    import psycopg

_TABLE = """
    SELECT c.oid::int8, c.relkind::text, c.relpersistence::text, parts.files, parts.lacking
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (
        SELECT array_agg(p.relfilenode::int8 ORDER BY p.oid) AS files,
               coalesce(json_agg(json_build_array(m.nspname, p.relname) ORDER BY p.oid) FILTER (WHERE
                   (p.oid = c.oid OR p.relkind <> 'p') AND NOT CASE
                       WHEN p.relreplident = 'f' THEN true
                       WHEN c.relreplident = 'f' THEN false
                       WHEN p.relreplident = 'd' THEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = p.oid
                                                              AND i.indisprimary AND i.indimmediate)
                       ELSE EXISTS (SELECT FROM pg_index i WHERE i.indrelid = p.oid AND i.indisreplident)
                   END), '[]') AS lacking
        FROM pg_class p JOIN pg_namespace m ON m.oid = p.relnamespace
        WHERE p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_partition_tree(c.oid))
    ) parts
    WHERE n.nspname = %s AND c.relname = %s
"""
MOST_HINTS = 5
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
class CapturedTable:
    """A table that is there."""

    oid: int
    kind: str
    persistence: str
    files: Sequence[int]
    """Others when the table, or a partition of it, is rewritten or truncated."""
    lacking: Sequence[Sequence[str]]
    """The table itself, or partitions of it (schema and name), with nothing to tell rows apart by: Postgres goes by the
    partition that a row is in, and takes no key that is checked at the end of a transaction only."""

    @property
    def hints(self) -> list[str]:
        """What helps where something is lacking."""
        named = (".".join(map(double_quoted, names)) for names in self.lacking)
        return [f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in named]


def find(connection: psycopg.Connection[Any], table: str) -> CapturedTable | None:
    schema, _, name = table.partition(".")
    found = connection.execute(_TABLE, [schema, name]).fetchone()
    return None if found is None else CapturedTable(*found)


def published(connection: psycopg.Connection[Any], database: CdcDatabase, table: str) -> dict[str, Any] | None:
    """What the publication says of a table (columns and rows that it is limited to); None if it is not in it.

    `member` is another one when the table was taken out and put in again.
    """
    schema, _, name = table.partition(".")
    found = connection.execute(_PUBLISHED, [database.publication, schema, name]).fetchone()
    return None if found is None else dict(found[0])


def prepare(connection: psycopg.Connection[Any], database: CdcDatabase, table: str) -> CapturedTable:
    """See to it that a table's changes are published, and say exactly what is in the way of that."""
    where = database.spec.where
    level = connection.execute("SHOW wal_level").fetchone()
    if level is None or level[0] != "logical":
        raise UsageError(
            Code.SOURCE_MISMATCH,
            f"{database.server_name}: `wal_level` is {level and level[0]}; it must be logical to read changes",
            where=where,
            hint="have a superuser run: ALTER SYSTEM SET wal_level = logical; and restart the server",
        )
    found = require(connection, database, table)
    if found.lacking:
        short = found.hints[:MOST_HINTS] + ["…"] * (len(found.hints) > MOST_HINTS)
        raise UsageError(
            Code.SOURCE_MISMATCH,
            f"{database.server_name}: the table {table} has nothing that tells its rows apart, so that once its"
            " changes are published Postgres would refuse every UPDATE and DELETE",
            where=where,
            hint=f"give it a primary key that is not deferrable, or run: {'; '.join(short)};",
        )
    _publish(connection, database, table, found)
    return found


def require(connection: psycopg.Connection[Any], database: CdcDatabase, table: str) -> CapturedTable:
    found = find(connection, table)
    if found is not None and found.kind == "r" and found.persistence == "u":
        raise UsageError(
            Code.SOURCE_MISMATCH,
            f"{database.server_name}: the table {table} is unlogged: Postgres doesn't publish its changes",
            where=database.spec.where,
            hint=f"run: ALTER TABLE {quoted_table(table)} SET LOGGED;",
        )
    if found is None or found.kind not in ("r", "p"):
        what = "there is no table" if found is None else "only tables can be followed, and not a view:"
        raise TerminalError(
            Code.SOURCE_MISMATCH,
            f"{database.server_name}: {what} {table}",
            where=database.spec.where,
            hint="it was dropped or renamed, or its name is written in another way; `headwater topic drop NAME` ends"
            " the topic that follows it",
        )
    return found


def publication_sql(database: CdcDatabase, tables: list[str]) -> str:
    named = listed(tables)
    return (
        f"CREATE PUBLICATION {double_quoted(database.publication)} FOR TABLE {named} WITH (publish_via_partition_root)"
    )


def listed(tables: list[str]) -> str:
    """As a publication takes them: alone, without those that inherit from them, which may have no key."""
    return ", ".join(f"ONLY {quoted_table(table)}" for table in tables)


def _publish(connection: psycopg.Connection[Any], database: CdcDatabase, table: str, found: CapturedTable) -> None:
    import psycopg

    name = double_quoted(database.publication)
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
            _run(connection, database, f"ALTER PUBLICATION {name} ADD TABLE {listed([table])}")
        except psycopg.errors.DuplicateObject:
            pass


def _run(connection: psycopg.Connection[Any], database: CdcDatabase, sql: str) -> None:
    import psycopg

    try:
        connection.execute(sql)
    except psycopg.errors.DuplicateObject:
        raise
    except psycopg.errors.InsufficientPrivilege as error:
        raise UsageError(
            Code.SOURCE_DENIED,
            f"{database.server_name}: the publication '{database.publication}' lacks a table, and can't be changed:"
            f" {error.diag.message_primary}",
            where=database.spec.where,
            hint=f"have the owner of the table run: {sql};",
        ) from error
    except psycopg.Error as error:
        raise database.translated(error) from error


def _unfit(database: CdcDatabase, what: str, sql: str) -> HeadwaterError:
    return UsageError(
        Code.SOURCE_MISMATCH,
        f"{database.server_name}: the publication '{database.publication}' {what}",
        where=database.spec.where,
        hint=f"have its owner run: {sql}",
    )
