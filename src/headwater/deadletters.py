"""The one table of events that could not be taken in, kept with their bytes, reason and position."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from headwater.formats.base import Address, SparkTable, Surroundings
from headwater.formats.registry import FORMATS
from headwater.model import Mark
from headwater.spec import Layout

PATH = "_headwater/dead_letters"
SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("topic", StringType()),
        StructField("source", StringType()),
        StructField("reason", StringType()),
        StructField("message", StringType()),
        StructField("position", StringType()),
        StructField("raw", BinaryType()),
        StructField("at", TimestampType()),
        StructField("flow", StringType()),
        StructField("epoch", LongType()),
        StructField("step", LongType()),
    ]
)

_locks: defaultdict[Address, threading.Lock] = defaultdict(threading.Lock)
"""All flows of a process write to the one table: one at a time."""


class DeadLetters:
    """Kept in Delta by topic; an id is made of topic and position, so that a repeated step adds none."""

    def __init__(self, spark: SparkSession, around: Surroundings) -> None:
        address = Address(path=f"{around.warehouse.rstrip('/')}/{PATH}")
        self._table: SparkTable = FORMATS.get("delta").spark(spark, address, around)
        self._lock = _locks[address]

    def put(self, rejected: DataFrame, topic: str, source: str, mark: Mark) -> None:
        """Keep rows of `raw`, `position`, `reason` and `message`."""
        rows = rejected.select(
            F.sha2(F.concat_ws("\u0000", F.lit(topic), F.col("position")), 256).alias("id"),
            F.lit(topic).alias("topic"),
            F.lit(source).alias("source"),
            "reason",
            "message",
            "position",
            "raw",
            F.current_timestamp().alias("at"),
            F.lit(mark.flow).alias("flow"),
            F.lit(mark.epoch).cast("long").alias("epoch"),
            F.lit(mark.step).cast("long").alias("step"),
        )
        with self._lock:
            if not self._table.exists():
                self._table.create(SCHEMA, Layout(keys=("topic", "id"), partition_by=("topic",)))
            self._table.upsert(rows, mark)

    def list(self, topic: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """The newest first, without their bytes."""
        if not self._table.exists():
            return []
        found = self._table.read()
        if topic is not None:
            found = found.where(F.col("topic") == topic)
        columns = ["id", "topic", "reason", "message", "position", "at"]
        rows = found.orderBy(F.col("at").desc(), "position").limit(limit).select(*columns).collect()
        return [row.asDict() for row in rows]
