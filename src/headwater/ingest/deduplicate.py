"""Events that a producer sent twice: told by columns, in the step and against the topic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.spec import Topic
from headwater.formats.spark_table import SparkTable
from headwater.ingest.columns import INGESTED_AT
from headwater.sources.decoders.base import POSITION
from headwater.spark.arrow_bridge import local_frame
from headwater.spark.frames import column

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = "_headwater_number"


def deduplicated(rows: DataFrame, topic: Topic, table: SparkTable, now: datetime) -> DataFrame:
    """The rows that are the first of their kind, in the step and in what the topic ingested within the look-back.

    A row in which all of the columns are NULL can't be told from another: it stays. The topic's part is bounded by
    `_ingested_at`, which grows with the files: their statistics leave out all that is older.
    """
    require_columns(topic, rows.columns)
    return _unseen(_first(rows, topic.deduplicate_by), topic, table, now)


def require_columns(topic: Topic, columns: Sequence[str]) -> None:
    """Refuse to deduplicate by what is no column."""
    for name in topic.deduplicate_by:
        if name not in columns:
            raise UsageError(
                Code.INVALID_VALUE,
                f"deduplicate_by names '{name}', which is no column",
                where=topic.where,
                hint=did_you_mean(name, columns),
            )


def _first(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    alike = Window.partitionBy(*map(column, keys)).orderBy(column(POSITION))
    numbered = rows.withColumn(_NUMBER, F.row_number().over(alike))
    return numbered.where((column(_NUMBER) == 1) | _nameless(keys)).drop(_NUMBER)


def _unseen(rows: DataFrame, topic: Topic, table: SparkTable, now: datetime) -> DataFrame:
    if not table.exists():
        return rows
    seen = table.read()
    missing = [name for name in topic.deduplicate_by if name not in seen.columns]
    if missing:  # the column comes with this very step: nothing that is there can have it
        return rows
    if topic.deduplicate_within is not None:
        seen = seen.where(column(INGESTED_AT) >= F.lit(_since(now, topic.deduplicate_within)))
    names = {name: f"_headwater_seen_{i}" for i, name in enumerate(topic.deduplicate_by)}
    keys = seen.select(*(column(name).alias(alias) for name, alias in names.items()))
    same = reduce(Column.__and__, (column(name).eqNullSafe(column(alias)) for name, alias in names.items()))
    return rows.join(keys, same & ~_nameless(topic.deduplicate_by), "left_anti")


def _nameless(keys: tuple[str, ...]) -> Column:
    return reduce(Column.__and__, (column(name).isNull() for name in keys))


def _since(now: datetime, within: timedelta) -> datetime:
    return now - within


def first_of_their_kind(rows: pa.Table, schema: StructType, topic: Topic, table: SparkTable) -> pa.Table:
    """The rows that lie here, deduplicated by their positions and keys alone: they themselves stay here."""
    import pyarrow as pa
    import pyarrow.compute as pc

    require_columns(topic, schema.names)
    names = [POSITION, *(name for name in topic.deduplicate_by if name != POSITION)]
    keys = local_frame(table.spark, rows.select(names))
    kept = deduplicated(keys, topic, table, datetime.now(timezone.utc)).select(column(POSITION))
    positions = pa.array([row[0] for row in kept.collect()], pa.string())
    return rows.filter(pc.is_in(rows[POSITION], positions))
