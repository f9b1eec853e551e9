"""The event store table as the database has it: looked up, compared with the settings, and said in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.core.errors import Code, UsageError, did_you_mean, nearest
from headwater.core.quotes import double_quoted, single_quoted
from headwater.sources.decoders.base import HEAD
from headwater.sources.postgres.connection import server_name
from headwater.sources.postgres.events.config import ENVELOPE_FIELDS, PostgresEventsSource
from headwater.sources.postgres.events.database import EventsConnection

POSITION, TRANSACTION, PAYLOAD, METADATA = "position", "tx", "payload", "metadata"
PAYLOAD_SIZE = "payload_size"
"""What the columns are called in our queries."""
_PACKED = 300
"""How many bytes of a payload one byte in the table holds at most, where Postgres packs it."""
INTEGERS = ("smallint", "integer", "bigint")
JSON = ("json", "jsonb")
PAYLOADS = (*JSON, "text", "character varying", "bytea")

_TABLE = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind = 'p', c.relkind IN ('r', 'p'),
       has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_TABLES = """
SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
"""
_COLUMNS = """
SELECT a.attname, a.attnum, format_type(coalesce(nullif(t.typbasetype, 0), t.oid), NULL)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
_SEQUENCES = """
SELECT s.seqrelid::int8, s.seqrelid::regclass::text, s.seqcache FROM pg_sequence s
WHERE s.seqrelid IN (
  SELECT d.objid FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.refobjid = %(table)s AND d.refobjsubid = %(column)s AND d.deptype IN ('a', 'i')
  UNION
  SELECT d.refobjid FROM pg_attrdef f JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
  WHERE d.refclassid = 'pg_class'::regclass AND f.adrelid = %(table)s AND f.adnum = %(column)s)
"""
_INDEXES = """
SELECT c.relname, i.indisvalid, i.indisunique AND i.indexprs IS NULL, ARRAY(
  SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(n, o)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n ORDER BY k.o)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE i.indrelid = %s AND i.indpred IS NULL AND m.amname = 'btree'
"""


@dataclass(frozen=True)
class Numbering:
    """What gives out the positions."""

    oid: int
    name: str
    cache: int


@dataclass(frozen=True)
class Index:
    name: str
    valid: bool
    unique: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class EventStore:
    """One event store table."""

    spec: PostgresEventsSource
    oid: int
    schema: str
    table: str
    partitioned: bool
    ordinary: bool
    """A table, and no view or the like."""
    columns: Mapping[str, int]
    types: Mapping[str, str]
    sequences: Sequence[Numbering]
    indexes: Sequence[Index]
    writers: tuple[int, ...]
    """What whoever writes events holds a lock on: the table, its partitions, its sequences."""

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        return f"{double_quoted(self.schema)}.{double_quoted(self.table)}"

    @property
    def position(self) -> str:
        return double_quoted(self.spec.columns.position)

    @property
    def numbered_once(self) -> bool:
        """Whether the database sees to it that no two events have one position."""
        name = self.spec.columns.position
        return any(index.valid and index.unique and index.columns == (name,) for index in self.indexes)

    @property
    def transaction(self) -> str | None:
        name = self.spec.columns.transaction
        return None if name is None else double_quoted(name)

    @property
    def payload_is_bytes(self) -> bool:
        return self.types[self.spec.columns.payload] == "bytea"

    @property
    def has_metadata(self) -> bool:
        return self.spec.columns.metadata is not None

    @property
    def envelope(self) -> tuple[str, ...]:
        """The parts of the envelope that the store has."""
        return tuple(name for name in ENVELOPE_FIELDS if getattr(self.spec.columns, name) is not None)

    @property
    def select(self) -> str:
        """A query that gives every event, under our names for its columns."""
        columns = self.spec.columns
        parts = [f"{self.position}::int8 AS {POSITION}"]
        if self.transaction is not None:
            parts.append(f"{self.transaction} AS {TRANSACTION}")
        payload, size = self._bounded_payload()
        parts += [f"{payload} AS {PAYLOAD}", f"{size} AS {PAYLOAD_SIZE}"]
        if columns.metadata is not None:
            parts.append(f"{double_quoted(columns.metadata)}::text AS {METADATA}")
        parts += [f'{self._path(getattr(columns, name))} AS "_{name}"' for name in self.envelope]
        return f"SELECT {', '.join(parts)} FROM {self.quoted}"

    def _bounded_payload(self) -> tuple[str, str]:
        """The payload, or the beginning of one that is too large, and the size of such a one: the database looks, so
        that it is not sent. What takes little room in the table is not looked at twice."""
        stored, limit = double_quoted(self.spec.columns.payload), self.spec.max_record_size
        value = stored if self.payload_is_bytes else f"{stored}::text"
        head = f"substring({value} FROM 1 FOR {HEAD})"
        near, large = f"pg_column_size({stored}) > {limit // _PACKED}", f"octet_length({value}) > {limit}"
        payload = f"CASE WHEN {near} THEN CASE WHEN {large} THEN {head} ELSE {value} END ELSE {value} END"
        return payload, f"CASE WHEN {near} THEN CASE WHEN {large} THEN octet_length({value})::int8 END END"

    @property
    def bare(self) -> str:
        """The same, with no more than what tells events apart."""
        return self.bare_with()

    def bare_with(self, *more: str) -> str:
        """That, and some expressions."""
        parts = [f"{self.position}::int8 AS {POSITION}"]
        if self.transaction is not None:
            parts.append(f"{self.transaction} AS {TRANSACTION}")
        return f"SELECT {', '.join([*parts, *more])} FROM {self.quoted}"

    @property
    def happened(self) -> str | None:
        """When an event happened, where the store says it as a time."""
        name = self.spec.columns.timestamp
        kind = self.types.get(name or "")
        if name is None or kind not in ("timestamp with time zone", "timestamp without time zone"):
            return None
        return (
            double_quoted(name) if kind.startswith("timestamp with ") else f"{double_quoted(name)} AT TIME ZONE 'UTC'"
        )

    def _path(self, told: str) -> str:
        if self.types.get(told) == "timestamp with time zone":
            # With a zone in it, Spark reads it at half the speed.
            return f"({double_quoted(told)} AT TIME ZONE 'UTC')::text"
        if told in self.types:
            return f"{double_quoted(told)}::text"
        column, *rest = told.split(".")
        return f"{double_quoted(column)} #>> {_array(rest)}"


def look_up(spec: PostgresEventsSource, database: EventsConnection) -> EventStore:
    """The table and its columns; what is not as the settings say is told with a hint."""
    found = _table(spec, database)
    oid, schema, table, partitioned, ordinary, readable = found
    if not readable:
        user = database.one("SELECT quote_ident(current_user)")[0]
        raise UsageError(
            Code.SOURCE_DENIED,
            f"{user} may not read {schema}.{table} in {server_name(spec.dsn, where=spec.where)}",
            where=spec.where,
            hint=f"GRANT SELECT ON {double_quoted(schema)}.{double_quoted(table)} TO {user}",
        )
    columns = {name: (number, kind) for name, number, kind in database.ask(_COLUMNS, (oid,))}
    types = {name: kind for name, (_, kind) in columns.items()}
    _check(spec, f"{schema}.{table}", types)
    number = columns[spec.columns.position][0]
    sequences = [Numbering(*row) for row in database.ask(_SEQUENCES, {"table": oid, "column": number})]
    partitions = [
        row[0] for row in database.ask("SELECT relid::int8 FROM pg_partition_tree(%s::oid::regclass)", (oid,))
    ]
    return EventStore(
        spec=spec,
        oid=oid,
        schema=schema,
        table=table,
        partitioned=partitioned,
        ordinary=ordinary,
        columns={name: number for name, (number, _) in columns.items()},
        types=types,
        sequences=sequences,
        indexes=[
            Index(name, valid, unique, tuple(parts)) for name, valid, unique, parts in database.ask(_INDEXES, (oid,))
        ],
        writers=tuple(sorted({oid, *partitions, *(one.oid for one in sequences)})),
    )


def _table(spec: PostgresEventsSource, database: EventsConnection) -> tuple[int, str, str, bool, bool, bool]:
    exact = ".".join(map(double_quoted, spec.table.split(".")))
    for name in dict.fromkeys((spec.table, exact)):
        for row in database.ask(_TABLE, (name,)):
            return row
    there = [row[0] for row in database.ask(_TABLES)]
    close = nearest(spec.table, there) or nearest(f"public.{spec.table}", there)
    raise UsageError(
        Code.SOURCE_MISMATCH,
        f"there is no table '{spec.table}' in {server_name(spec.dsn, where=spec.where)}",
        where=spec.where,
        hint=f"did you mean '{close}'?" if close else "name it with its schema: public.events",
    )


def _check(spec: PostgresEventsSource, table: str, types: Mapping[str, str]) -> None:
    columns = spec.columns
    for key in ("position", "payload", "metadata", "transaction", *ENVELOPE_FIELDS):
        told = getattr(columns, key)
        if told is not None and told not in types:
            _check_path(spec, table, types, key, told)

    def require(key: str, kinds: Iterable[str], hint: str) -> None:
        kind = types[getattr(columns, key)]
        if kind not in kinds:
            wanted = ", ".join(kinds)
            raise UsageError(
                Code.SOURCE_MISMATCH,
                f"columns.{key}: {table}.{getattr(columns, key)} is of type {kind}, and not {wanted}",
                where=spec.where,
                hint=hint,
            )

    require("position", INTEGERS, "name the column that a sequence or identity numbers the events with")
    require("payload", PAYLOADS, "name the column that holds the event as JSON")
    if columns.metadata is not None:
        require("metadata", (*JSON, "text", "character varying"), "name a column of JSON, or set it to null")
    if columns.transaction is not None:
        hint = f"`headwater source prepare {spec.name}` makes one; xid wraps around and can't be used"
        require("transaction", ("xid8",), hint)


def _check_path(spec: PostgresEventsSource, table: str, types: Mapping[str, str], key: str, told: str) -> None:
    """A column that isn't there may be a path into one that is."""
    column, *rest = told.split(".")
    may_be_null = "" if key in ("position", "payload") else f"; `columns: {{{key}: null}}` if there is none"
    if column not in types or not rest or key in ("position", "payload", "transaction", "metadata"):
        raise UsageError(
            Code.SOURCE_MISMATCH,
            f"columns.{key}: {table} has no column '{column if column not in types else told}'",
            where=spec.where,
            hint=did_you_mean(column, types) + may_be_null,
        )
    if types[column] not in JSON:
        raise UsageError(
            Code.SOURCE_MISMATCH,
            f"columns.{key}: '{told}' is a path into {table}.{column}, which is of type {types[column]}, and not JSON",
            where=spec.where,
            hint="a path needs a column of type json or jsonb" + may_be_null,
        )


def _array(parts: Iterable[str]) -> str:
    return "ARRAY[" + ", ".join(map(single_quoted, parts)) + "]"
