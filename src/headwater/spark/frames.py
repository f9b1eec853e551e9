"""DataFrame and schema helpers that every format's Spark side shares."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.util import InheritableThread

from headwater.core.model import WEIGHT
from headwater.core.quotes import backticked
from headwater.schema.types import has_map

_PATIENCE = 30.0
"""Seconds after which the rows are rather read again."""


def column(name: str) -> Column:
    """A top-level column by its exact name, dots and spaces included."""
    return F.col(backticked(name))


def signed(df: DataFrame, weight: int) -> DataFrame:
    return df.withColumn(WEIGHT, F.lit(weight))


def diff(old: DataFrame, new: DataFrame) -> DataFrame:
    """Signed changes as the difference of two states: exact in any format, and reads both whole."""
    columns = [column(name) for name in new.columns]
    old = _with_columns_of(old, new).select(*columns)
    new = new.select(*columns)
    if has_map(new.schema):
        # Spark can't compare maps. Both states as they are sum up to the same, at the cost of more rows.
        return signed(new, 1).unionByName(signed(old, -1))
    return signed(new.exceptAll(old), 1).unionByName(signed(old.exceptAll(new), -1))


def _with_columns_of(old: DataFrame, new: DataFrame) -> DataFrame:
    missing = [f for f in new.schema.fields if f.name not in old.columns]
    for f in missing:
        old = old.withColumn(f.name, F.lit(None).cast(f.dataType))
    return old


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Session settings for one read or write; put back afterwards. A flow's session is used by that flow alone."""
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


@contextmanager
def temp_view(df: DataFrame) -> Iterator[str]:
    """A name for `df` in its session's SQL, for one statement."""
    name = f"headwater_{uuid.uuid4().hex}"
    df.createTempView(name)
    try:
        yield name
    finally:
        df.sparkSession.catalog.dropTempView(name)


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame's rows, computed once."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


def observed(rows: DataFrame, sums: Sequence[Column]) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """The same rows, summed up by the job that reads them; the result may be asked for once that is done.

    Only for a job that reads each row once: one that takes samples first would count those too.
    """
    observation = Observation()
    values: list[dict[str, Any]] = []

    def result() -> dict[str, Any]:
        # Spark tells it a moment after the job's end, to whoever listens; nobody should wait for ever.
        waiting = InheritableThread(target=lambda: values.append(observation.get))
        waiting.daemon = True
        waiting.start()
        waiting.join(_PATIENCE)
        return values[0] if values else rows.agg(*sums).collect()[0].asDict()

    return rows.observe(observation, *sums), result
