"""Events as frames: a few by the connection that is open anyway, many by Spark's tasks, each on one of its own."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headwater.core.quotes import double_quoted
from headwater.sources.decoders.base import SIZE
from headwater.sources.postgres.connection import jdbc_options
from headwater.sources.postgres.events.config import ENVELOPE, ENVELOPE_FIELDS, PostgresEventsSource
from headwater.sources.postgres.events.cuts import Leg
from headwater.sources.postgres.events.database import EventsConnection
from headwater.sources.postgres.events.store import METADATA, PAYLOAD, PAYLOAD_SIZE, POSITION, EventStore
from headwater.sources.reader import POSITION as POSITION_TEXT
from headwater.sources.reader import RAW
from headwater.spark.arrow_bridge import local_frame

METADATA_TEXT = "_metadata"
VERSION_TEXT = "_version"
"""The version as it came: an upcaster changes `event_version`, and has to find the old one when it is asked again."""
_BECAME = {
    "id": "event_id",
    "type": "event_type",
    "timestamp": "event_timestamp",
    "stream": "aggregate_id",
    "tenant": "tenant_id",
    "version": VERSION_TEXT,
}
DIGITS = 20
"""Of a position as text: 64 bits, so that texts sort as numbers do."""
PART_ROWS = 20_000
"""Events that are worth a task and a connection of their own."""
FETCH_ROWS = 2_000
"""Rows that a task has of its connection at a time."""


def extras_of(spec: PostgresEventsSource) -> StructType:
    """What a topic keeps alongside the payload."""
    fields = [StructField(METADATA_TEXT, StringType())] if spec.columns.metadata is not None else []
    if spec.columns.version is not None:
        fields.append(StructField(VERSION_TEXT, StringType()))
    return StructType(fields)


def hidden_of(spec: PostgresEventsSource) -> StructType:
    """What becomes standard columns."""
    there = [name for name in ENVELOPE_FIELDS if getattr(spec.columns, name) is not None]
    envelope = StructType([StructField(name, StringType()) for name in there])
    return StructType([StructField(ENVELOPE, envelope)] if there else [])


def recalled(spec: PostgresEventsSource, topic: Collection[str]) -> list[Column]:
    """The envelope, from the standard columns that it became."""
    parts = []
    for f in hidden_of(spec).fields[:1]:
        assert isinstance(f.dataType, StructType)
        for name in f.dataType.names:
            told = _BECAME[name]
            value = F.col(told).cast("string") if told in topic else F.lit(None).cast("string")
            parts.append(value.alias(name))
    return [F.struct(*parts).alias(ENVELOPE)] if parts else []


def payload_bytes(store: EventStore, database: EventsConnection, legs: Sequence[Leg]) -> int:
    """Bytes that the payloads of a few events ingest the table."""
    rows = store.bare_with(f"pg_column_size({double_quoted(store.spec.columns.payload)}) AS size")
    total = 0
    for leg in legs:
        where = leg.where(leg.low, leg.high)
        total += int(database.one(f"SELECT coalesce(sum(size), 0) FROM ({rows}) events WHERE {where}")[0])
    return total


def few(spark: SparkSession, store: EventStore, database: EventsConnection, legs: Sequence[Leg]) -> DataFrame:
    """Events that this process fetches itself."""
    query = f"SELECT {_names(store)} FROM ({store.select}) events"
    wheres = (leg.where(leg.low, leg.high) for leg in legs)
    rows = [row for where in wheres for row in database.ask(f"{query} WHERE {where} ORDER BY {POSITION}")]
    columns = list(zip(*rows, strict=True)) if rows else [()] * _names(store).count(",") + [()]
    positions, payloads, sizes, *rest = columns
    raw = payloads if store.payload_is_bytes else [None if one is None else one.encode() for one in payloads]
    names = [RAW, POSITION_TEXT, SIZE]
    texts = pa.array([f"{one:0{DIGITS}d}" for one in positions], pa.string())
    arrays = [pa.array(raw, pa.binary()), texts, pa.array(sizes, pa.int64())]
    if store.has_metadata:
        names.append(METADATA_TEXT)
        arrays.append(pa.array(rest.pop(0), pa.string()))
    if "version" in store.envelope:
        names.append(VERSION_TEXT)
        arrays.append(pa.array(rest[store.envelope.index("version")], pa.string()))
    if store.envelope:
        names.append(ENVELOPE)
        parts = [pa.array(one, pa.string()) for one in rest]
        arrays.append(pa.StructArray.from_arrays(parts, names=list(store.envelope)))
    return local_frame(spark, pa.table(arrays, names=names))


def many(spark: SparkSession, store: EventStore, legs: Sequence[Leg], options: Mapping[str, str]) -> DataFrame:
    """Events that Spark's tasks read, in parts, on no more connections than the source may have."""
    spec = store.spec
    rows = sum(leg.rows for leg in legs)
    parts = max(_parts(rows, spec.max_connections - 1, spark.sparkContext.defaultParallelism), len(legs))
    predicates = [part for leg in legs for part in leg.split(max(1, parts * leg.rows // max(rows, 1)))]
    settings = {"fetchsize": str(FETCH_ROWS), **jdbc_options(spec.dsn, where=spec.where), **options}
    address = settings.pop("url")
    table = f"({store.select}) events"
    found = spark.read.jdbc(address, table, predicates=predicates or ["FALSE"], properties=settings)
    if len(predicates) > spec.max_connections - 1:
        found = found.coalesce(spec.max_connections - 1)
    columns = [
        F.col(PAYLOAD).cast("binary").alias(RAW),
        F.lpad(F.col(POSITION).cast("string"), DIGITS, "0").alias(POSITION_TEXT),
        F.col(PAYLOAD_SIZE).alias(SIZE),
    ]
    if store.has_metadata:
        columns.append(F.col(METADATA).alias(METADATA_TEXT))
    if "version" in store.envelope:
        columns.append(F.col("_version").alias(VERSION_TEXT))
    if store.envelope:
        columns.append(F.struct(*(F.col(f"_{name}").alias(name) for name in store.envelope)).alias(ENVELOPE))
    return found.select(*columns)


def _parts(rows: int, connections: int, cores: int) -> int:
    """One for each core that may have a connection: with more of them the same rows take longer."""
    return min(connections, cores, max(1, math.ceil(rows / PART_ROWS)))


def _names(store: EventStore) -> str:
    names = [POSITION, PAYLOAD, PAYLOAD_SIZE, *([METADATA] if store.has_metadata else [])]
    names += [f'"_{name}"' for name in store.envelope]
    return ", ".join(names)
