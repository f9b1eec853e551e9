"""What makes an event store read at its best: a column with the transaction, its index, and a trigger that calls."""

from __future__ import annotations

from headwater.core.quotes import double_quoted, single_quoted
from headwater.sources.base import SourceSpec
from headwater.sources.postgres.connection import channel, connect, translating
from headwater.sources.postgres.events.config import PostgresEventsSource
from headwater.sources.postgres.events.database import EventsConnection
from headwater.sources.postgres.events.store import EventStore, look_up
from headwater.sources.setup import Preparation, Statement

COLUMN = "tx"
TRIGGER = "headwater_notify"

_TRIGGER = "SELECT 1 FROM pg_trigger WHERE tgrelid = %s AND tgname = %s AND NOT tgisinternal"
_DEFAULT = """
SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a LEFT JOIN pg_attrdef d
ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = %s AND a.attname = %s
"""


def preparation(spec: SourceSpec, project: str) -> Preparation:
    """The statements for an event store; which of them are needed is asked there."""
    assert isinstance(spec, PostgresEventsSource)
    column = spec.columns.transaction or COLUMN
    # The column may not be there yet: that is what this is for.
    columns = spec.columns.model_copy(update={"transaction": None})
    plain = spec.model_copy(update={"columns": columns})
    database = EventsConnection(plain)
    try:
        store = look_up(plain, database)
        statements = [_transaction(store, database, column), *_indexes(store, column)]
        two_phase = int(database.one("SELECT current_setting('max_prepared_transactions')")[0]) > 0
        if not two_phase:
            statements += _trigger(store, database)
    finally:
        database.close()

    def run() -> None:
        with connect(spec.dsn, where=spec.where, read_only=False) as writing:
            for statement in statements:
                if not statement.done:
                    with translating(spec.dsn, where=spec.where):
                        writing.execute(statement.sql.encode())

    notes = (
        [] if spec.columns.transaction else [f"then set `columns: {{transaction: {column}}}` of sources.{spec.name}"]
    )
    return Preparation(statements, run, notes)


def _transaction(store: EventStore, database: EventsConnection, column: str) -> Statement:
    found = database.ask(_DEFAULT, (store.oid, column))
    # Two parts in one statement: as part of ADD COLUMN the default would be given to the rows that are there.
    return Statement(
        f"ALTER TABLE {store.quoted} ADD COLUMN IF NOT EXISTS {double_quoted(column)} xid8,"
        f" ALTER COLUMN {double_quoted(column)} SET DEFAULT pg_current_xact_id()",
        "the transaction that writes an event: rewrites nothing, waits for the table's running transactions",
        done=bool(found) and found[0][0] == "pg_current_xact_id()",
    )


def _indexes(store: EventStore, column: str) -> list[Statement]:
    position = store.spec.columns.position
    wanted: list[tuple[tuple[str, ...], str]] = [((column, position), "what is new is found by it")]
    if not any(index.valid and index.columns[:1] == (position,) for index in store.indexes):
        wanted.insert(0, ((position,), "events are read in parts by it"))
    # A partitioned table can't have its index made alongside the writers.
    concurrently = "" if store.partitioned else " CONCURRENTLY"
    found = []
    for columns, why in wanted:
        name = "_".join([store.table, *columns])[:50] + "_idx"
        there = [index for index in store.indexes if index.columns[: len(columns)] == columns]
        done = any(index.valid for index in there)
        if not done and any(index.name == name for index in there):
            broken = f"{double_quoted(store.schema)}.{double_quoted(name)}"
            found.append(Statement(f"DROP INDEX{concurrently} IF EXISTS {broken}", "it was never finished"))
        listed = ", ".join(map(double_quoted, columns))
        sql = f"CREATE INDEX{concurrently} IF NOT EXISTS {double_quoted(name)} ON {store.quoted} ({listed})"
        found.append(Statement(sql, why, done))
    return found


def _trigger(store: EventStore, database: EventsConnection) -> list[Statement]:
    done = bool(database.ask(_TRIGGER, (store.oid, TRIGGER)))
    function = f"{double_quoted(store.schema)}.{double_quoted(store.table[:40] + '_' + TRIGGER)}"
    to = single_quoted(channel(store.name))
    return [
        Statement(
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $headwater$ BEGIN PERFORM pg_notify({to}, ''); RETURN NULL; END $headwater$",
            "tells whoever listens that there are new events",
            done,
        ),
        Statement(
            f"CREATE OR REPLACE TRIGGER {TRIGGER} AFTER INSERT ON {store.quoted}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
            "calls it when a transaction that has written events is committed",
            done,
        ),
    ]
