"""All rows of a table at one place of the log, kept in the lake until they have landed: they can't be read again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.errors import Code, TransientError
from headwater.core.quotes import double_quoted, single_quoted
from headwater.sources.postgres.cdc.changes import ODD
from headwater.sources.postgres.cdc.database import ROWS, TEXT, CdcDatabase, parse_lsn, quoted_table, refusal
from headwater.sources.postgres.cdc.relations import AFTER, PgColumn, TableShape, TypeCatalog
from headwater.sources.postgres.cdc.tables import CapturedTable, find, published, require
from headwater.sources.postgres.cdc.types import PgType
from headwater.sources.postgres.connection import jdbc_options
from headwater.spark.errors import reason

if TYPE_CHECKING:
    import psycopg

RAW_TEXT, NUMBER = "raw", "number"
FETCH_SIZE = 2000
"""Rows that come over at a time; with 0 Spark would read outside of the exported snapshot."""
PAGES_PER_TASK = 4096
"""32 MB: smaller parts are not worth a connection of their own."""
TRIES = 3
_AS_WRITTEN = frozenset(
    {"bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "money", "text", "varchar", "bytea", "uuid"}
    | {"date", "time", "timetz", "timestamp", "timestamptz", "interval", "json", "jsonb"}
)
"""Types whose cast to text is what the stream sends. Others differ: `inet` gains a mask, `char` loses its blanks."""
_COLUMNS = """
    SELECT a.attname::text, a.atttypid::int8, a.atttypmod, coalesce(a.attnum = ANY(i.indkey::int2[]), false)
           OR c.relreplident = 'f'
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_index i ON i.indrelid = c.oid
         AND CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'd' THEN i.indisprimary AND i.indimmediate
             ELSE false END
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND (a.attgenerated = '' OR %s)
    ORDER BY a.attnum
"""
_PARTS = """
    SELECT p.relid::regclass::text, pg_relation_size(p.relid) / current_setting('block_size')::int8
    FROM pg_partition_tree(%s::oid::regclass) p WHERE p.isleaf
    UNION ALL
    SELECT c.oid::regclass::text, pg_relation_size(c.oid) / current_setting('block_size')::int8
    FROM pg_class c WHERE c.oid = %s AND c.relkind = 'r' AND NOT c.relispartition
"""


@dataclass(frozen=True)
class InitialSnapshot:
    """What was taken: the rows as they were at `lsn`, in the shape that the table had."""

    lsn: int
    relation: TableShape
    oid: int
    member: int
    """What tells whether the table has been in the publication ever since."""


@dataclass(frozen=True)
class _Point:
    """A place in the log, and the name under which other connections see what was committed before it."""

    lsn: int
    name: str


def take(spark: SparkSession, database: CdcDatabase, table: str, types: TypeCatalog, folder: str) -> InitialSnapshot:
    """Write all rows of a table as Parquet under a folder, by several connections that see the same state."""
    for _ in range(TRIES):
        with _point(database) as point, _seeing(database, point) as inside:
            found = require(inside, database, table)
            with database.translating():
                inside.execute(f"LOCK TABLE {quoted_table(table)} IN ACCESS SHARE MODE")
                if not _as_it_is(database, table, found):
                    continue  # the table was changed in between
                limits = published(inside, database, table) or {}
                relation = _relation(inside, table, found, types, limits)
                parts = inside.execute(_PARTS, [found.oid, found.oid]).fetchall()
            rows = _read(spark, database, relation, point, parts, limits.get("rowfilter"))
            numbered = rows.select(RAW_TEXT, F.monotonically_increasing_id().alias(NUMBER))
            try:
                numbered.write.mode("overwrite").parquet(folder)
            except Exception as error:
                told = reason(error)
                if "PSQLException" not in told and "PSQLException" not in str(error):
                    raise
                message = f"{database.server_name}: the snapshot of {table} was cut off: {told}"
                raise TransientError(Code.SOURCE_UNAVAILABLE, message, where=database.spec.where) from error
            return InitialSnapshot(point.lsn, relation, found.oid, int(limits.get("member", 0)))
    raise TransientError(
        Code.SOURCE_UNAVAILABLE, f"{database.server_name}: {table} is being altered", where=database.spec.where
    )


@contextmanager
def _point(database: CdcDatabase) -> Iterator[_Point]:
    """A slot of its own, which goes with this. Making it waits for the transactions that are open now."""
    with database.replicate() as connection:
        name = f"{database.slot[:40]}_tmp_{uuid4().hex[:12]}"
        command = f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        result = connection.pgconn.exec_(command.encode())
        if result.status != ROWS:
            raise database.translated(refusal(result))
        lsn, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert lsn is not None and snapshot is not None
        yield _Point(parse_lsn(lsn.decode()), snapshot.decode())


@contextmanager
def _seeing(database: CdcDatabase, point: _Point) -> Iterator[psycopg.Connection[Any]]:
    """A connection that sees what was committed before a place."""
    with database.connect() as connection, database.translating():
        connection.execute(_begin(point))
        yield connection


def _begin(point: _Point) -> str:
    return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{point.name}'"


def _as_it_is(database: CdcDatabase, table: str, seen: CapturedTable) -> bool:
    """Whether the table is what it was at the snapshot: rewritten or truncated since, it would look empty."""
    with database.connect() as now, database.translating():
        return find(now, table) == seen


def _relation(
    inside: psycopg.Connection[Any], table: str, found: CapturedTable, types: TypeCatalog, limits: dict[str, Any]
) -> TableShape:
    listed = limits.get("attnames")
    told = inside.execute(_COLUMNS, [found.oid, listed is not None]).fetchall()
    if listed is not None:
        told = [row for row in told if row[0] in listed]
    kinds = types.types(inside, ((row[1], row[2]) for row in told))
    return TableShape(table, tuple(PgColumn(row[0], kind, bool(row[3])) for row, kind in zip(told, kinds, strict=True)))


def _read(
    spark: SparkSession,
    database: CdcDatabase,
    relation: TableShape,
    point: _Point,
    parts: list[Any],
    condition: str | None,
) -> DataFrame:
    options = {
        **jdbc_options(database.spec.dsn, where=database.spec.where),
        "fetchsize": str(FETCH_SIZE),
        "sessionInitStatement": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;"
        f" SET TRANSACTION SNAPSHOT '{point.name}'; {TEXT}",
    }
    tasks = max(1, spark.sparkContext.defaultParallelism)
    frames = []
    for name, pages in parts:
        frame = spark.read.jdbc(
            options["url"],
            f"({_query(relation, name, condition)}) AS part",
            predicates=_ranges(int(pages), tasks),
            properties={key: value for key, value in options.items() if key != "url"},
        )
        frames.append(frame.select(F.col(RAW_TEXT)))
    if not frames:
        return spark.createDataFrame([], f"{RAW_TEXT} string")
    return reduce(DataFrame.unionByName, frames)


def _ranges(pages: int, tasks: int) -> list[str]:
    """Parts of a table by its pages."""
    size = max(PAGES_PER_TASK, -(-pages // (tasks * 4)))
    begins = list(range(0, max(pages, 1), size))
    found = []
    for n, begin in enumerate(begins):
        first = f"place >= '({begin},0)'::tid"
        last = "" if n == len(begins) - 1 else f" AND place < '({begins[n + 1]},0)'::tid"
        found.append(first + last)
    return found


def _query(relation: TableShape, part: str, condition: str | None) -> str:
    """Each row as the record that the stream would make of it."""
    columns = ", ".join(f"{_value(c)} AS {double_quoted(c.name)}" for c in relation.columns)
    arrays = [c for c in relation.columns if c.type.element is not None]
    head = "'" + f'{{"relation":"{relation.id}","op":"r","{AFTER}":' + "'"
    named = [(single_quoted(f"{AFTER}.{c.name}"), double_quoted(c.name)) for c in arrays]
    pairs = ", ".join(f"{at}, CASE WHEN array_ndims({name}) > 1 THEN {name}::text END" for at, name in named)
    odd = f"jsonb_strip_nulls(jsonb_build_object({pairs}))" if arrays else "NULL::jsonb"
    rest = f"""coalesce(',"{ODD}":' || nullif({odd}, '{{}}')::text, '')"""
    where = f" WHERE {condition}" if condition else ""
    row = f"(SELECT to_json(one)::text FROM (SELECT {columns}) one)"
    return f"SELECT ctid AS place, {head} || {row} || {rest} || '}}' AS {RAW_TEXT} FROM ONLY {part}{where}"


def _value(column: PgColumn) -> str:
    name = double_quoted(column.name)
    if column.type.element is None:
        return _text(name, column.type)
    element = column.type.element
    if element.name in _AS_WRITTEN:
        texts = f"{name}::text[]"
    else:
        # Not unnest: it takes composites apart.
        one = _text(f"{name}[headwater_n]", element)
        texts = f"ARRAY(SELECT {one} FROM generate_subscripts({name}, 1) headwater_n ORDER BY headwater_n)"
    return f"CASE WHEN {name} IS DISTINCT FROM NULL AND coalesce(array_ndims({name}), 1) = 1 THEN to_json({texts}) END"


def _text(name: str, type: PgType) -> str:
    if type.name in _AS_WRITTEN:
        return f"{name}::text"
    # A composite IS NOT NULL only where none of its fields is.
    return f"CASE WHEN {name} IS DISTINCT FROM NULL THEN format('%s', {name}) END"
