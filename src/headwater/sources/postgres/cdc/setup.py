"""What the server needs so that tables can be followed, as SQL for whoever may run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headwater.core.quotes import double_quoted
from headwater.sources.base import SourceSpec
from headwater.sources.postgres.cdc import tables
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.cdc.database import CdcDatabase
from headwater.sources.setup import Preparation, Statement

if TYPE_CHECKING:
    import psycopg


def preparation(spec: SourceSpec, project: str) -> Preparation:
    """The publication, what tells rows apart, and the slot; a run of the flows makes them by itself, if it may."""
    assert isinstance(spec, PostgresCdcSource)
    database = CdcDatabase(spec, project)
    with database.connect() as connection, database.translating():
        statements = list(_statements(connection, database))
        level = connection.execute("SHOW wal_level").fetchone()
    notes = []
    if level is not None and level[0] != "logical":
        sql = "ALTER SYSTEM SET wal_level = logical;"
        notes.append(f"`wal_level` is {level[0]}: have a superuser run {sql} and restart the server, first of all")

    def run() -> None:
        with database.connect() as connection, database.translating():
            for statement in statements:
                if not statement.done:
                    connection.execute(statement.sql)

    return Preparation(statements, run, notes)


def _statements(connection: psycopg.Connection[Any], database: CdcDatabase) -> Iterator[Statement]:
    missing = []
    for table in database.spec.tables:
        found = tables.require(connection, database, table)
        for sql in found.hints:
            yield Statement(sql, f"{table} has no primary key that could be used: its whole rows tell them apart")
        if tables.published(connection, database, table) is None:
            missing.append(table)
    exists = connection.execute("SELECT FROM pg_publication WHERE pubname = %s", [database.publication]).fetchone()
    sql = tables.publication_sql(database, missing or list(database.spec.tables))
    if exists is not None and missing:
        sql = f"ALTER PUBLICATION {double_quoted(database.publication)} ADD TABLE {tables.listed(missing)}"
    yield Statement(sql, "whose changes are told", done=not missing)
    slot = database.look(connection)
    yield Statement(database.slot_sql(connection), "holds the log until the lake has it", done=slot is not None)
