"""A table of a database as `headwater init --from` finds it: its columns, its key, and whether it is an event store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.core.secret import Secret
from headwater.sources.discovery import FoundColumn
from headwater.sources.postgres.connection import connect, parameters, server_name

SCHEMES = ("postgresql://", "postgres://")
VARIABLE = "DATABASE_URL"
HERE = Where("--from")

_TABLES = """
SELECT schemaname || '.' || tablename FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema') AND schemaname NOT LIKE 'pg\\_%%' ORDER BY 1
"""
_COLUMNS = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_attribute a WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_WHOLE = ("bigint", "integer")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "position": ("global_position", "position", "global_sequence", "sequence_number", "sequence", "offset", "id"),
    "id": ("event_id", "message_id", "id"),
    "type": ("event_type", "type", "message_type", "event_name"),
    "stream": ("stream_id", "stream", "aggregate_id", "stream_name", "entity_id"),
    "version": ("version", "event_version", "stream_version", "stream_position"),
    "payload": ("data", "payload", "event_data", "body", "event"),
    "metadata": ("metadata", "meta", "headers"),
    "timestamp": ("created_at", "occurred_at", "recorded_at", "timestamp", "event_timestamp", "time"),
    "tenant": ("tenant_id", "tenant"),
}
"""What the columns of event stores are called, by the key of `columns` that they are for."""


@dataclass(frozen=True)
class PostgresTable:
    """A table, as its database tells it."""

    dsn: str
    """Its address as the project's variable will hold it."""
    table: str
    """With its schema."""
    columns: Sequence[FoundColumn]
    keys: Sequence[str]

    @property
    def name(self) -> str:
        return self.table.rpartition(".")[2]

    @property
    def written_dsn(self) -> str:
        """What the project file says: the variable, with the address behind it where that holds no secret."""
        has_secret = "password" in parameters(Secret(self.dsn), where=HERE)
        return f"${{{VARIABLE}}}" if has_secret else f"${{{VARIABLE}:-{self.dsn}}}"

    @property
    def event_columns(self) -> Mapping[str, str | None] | None:
        """Which of its columns is what, if this is a store of events; None if it is any other table."""
        types = {one.name: one.type for one in self.columns}
        found: dict[str, str | None] = {}
        for key, names in _NAMES.items():
            fitting = (name for name in names if name in types and name not in found.values())
            found[key] = next((name for name in fitting if _fits(key, types[name])), None)
        needed = (found["position"], found["payload"], found["type"])
        return None if None in needed else found


def look_at(address: str) -> PostgresTable | None:
    """The table that an address names by `?table=`; None if it is no address of Postgres."""
    if not address.startswith(SCHEMES):
        return None
    parts = urlsplit(address)
    given = parse_qsl(parts.query, keep_blank_values=True)
    table = dict(given).get("table", "")
    rest = urlencode([(key, text) for key, text in given if key != "table"])
    dsn = urlunsplit(parts._replace(query=rest))
    secret = Secret(dsn)
    with connect(secret, where=HERE) as connection:
        if table and "." not in table:
            table = f"public.{table}"
        rows = connection.execute(_COLUMNS, [table]).fetchall() if table else []
        if not rows:
            tables = [str(row[0]) for row in connection.execute(_TABLES).fetchall()]
            said = f"there is no table {table}" if table else "which table is meant has to be said"
            hint = did_you_mean(table, tables) if table else f"known: {', '.join(tables) or 'none'}"
            raise UsageError(
                Code.USAGE,
                f"{said} in {server_name(secret, where=HERE)}",
                hint=f"{hint}; name it behind the address: ?table=public.events",
            )
    columns = [FoundColumn(name, kind) for name, kind, _ in rows]
    return PostgresTable(dsn, table, columns, [name for name, _, is_key in rows if is_key])


def _fits(key: str, kind: str) -> bool:
    if key == "position":
        return kind in _WHOLE
    if key in ("payload", "metadata"):
        return kind in ("json", "jsonb")
    return not (key == "timestamp" and not kind.startswith("timestamp"))
