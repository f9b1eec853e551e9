"""One computation of a change: what several operators need is computed once."""

from __future__ import annotations

from types import TracebackType

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.model import WEIGHT
from headwater.formats.key_filter import KeyFilter
from headwater.incremental.operator import Moment, Operator, Sources, Strategy
from headwater.schema.arrow import as_spark
from headwater.schema.types import has_map
from headwater.spark.arrow_bridge import following, gathered, local_frame, lying
from headwater.spark.frames import column

FEW = 20_000
"""Rows of a change up to which it comes to the driver."""


class Run:
    """Holds the changes of the operators until it is closed."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._changes: dict[int, DataFrame | None] = {}
        self._held: dict[int, DataFrame | None] = {}
        self._materialized: list[DataFrame] = []
        self._kept: list[DataFrame] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for frame in self._kept:
            frame.unpersist()

    def change(self, operator: Operator) -> DataFrame | None:
        """An operator's change. What flows through is cheap to make again; whatever else is materialized."""
        if id(operator) not in self._changes:
            found = operator.change(self)
            if found is not None and operator.strategy is not Strategy.LINEAR:
                found = self._unless_empty(found)
            elif found is not None and len(operator.inputs) == 1:
                below = self._changes.get(id(operator.inputs[0]))
                found = found if below is None else following(found, below)
            self._changes[id(operator)] = found
        return self._changes[id(operator)]

    def held(self, operator: Operator) -> DataFrame | None:
        """An operator's change, for whoever looks at it more than once."""
        if id(operator) not in self._held:
            found = self.change(operator)
            self._held[id(operator)] = None if found is None else self._unless_empty(found)
        return self._held[id(operator)]

    def materialized(self, frame: DataFrame) -> DataFrame:
        """The frame computed: a small one lies in the JVM as it is, a large one is kept by Spark."""
        if any(frame is one for one in self._materialized):
            return frame
        return self._lying(frame, collected(frame, FEW))

    def _unless_empty(self, frame: DataFrame) -> DataFrame | None:
        """The frame materialized; None without rows, so that nothing is read for the sake of a change that is none."""
        if any(frame is one for one in self._materialized):
            return frame
        rows = collected(frame, FEW)
        return None if rows is not None and rows.num_rows == 0 else self._lying(frame, rows)

    def _lying(self, frame: DataFrame, rows: pa.Table | None) -> DataFrame:
        found = self.kept(frame) if rows is None else local_frame(frame.sparkSession, rows)
        self._materialized.append(found)
        return found

    def kept(self, frame: DataFrame) -> DataFrame:
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(frame)
        return frame


def collected(frame: DataFrame, most: int) -> pa.Table | None:
    """A frame's rows as this process has them; None if there are more than so many."""
    rows = gathered(frame if lying(frame) is not None else frame.limit(most + 1))
    return None if rows.num_rows > most else as_spark(rows.to_reader()).read_all()


def signed(new: DataFrame, old: DataFrame) -> DataFrame:
    """What came and what went, without what is in both."""
    both = new.withColumn(WEIGHT, F.lit(1).cast("bigint")).unionByName(old.withColumn(WEIGHT, F.lit(-1).cast("bigint")))
    return consolidated(both)


def consolidated(change: DataFrame) -> DataFrame:
    """Each row once, with the sum of its weights; what cancels out is gone."""
    names = [name for name in change.columns if name != WEIGHT]
    if any(has_map(change.schema[name].dataType) for name in names):
        return change  # maps can't be compared
    if not names:
        summed = change.agg(F.sum(WEIGHT).alias(WEIGHT))
    else:
        summed = change.groupBy(*map(column, names)).agg(F.sum(WEIGHT).alias(WEIGHT))
    return summed.where(column(WEIGHT) != 0)


class _AsTheyAre:
    """The session's own views as both states: for types alone."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def rows(self, source: str, at: Moment) -> DataFrame:
        return self._spark.table(source)

    def key_filter(self, source: str, at: Moment, key_filter: KeyFilter) -> DataFrame | None:
        return None

    def change(self, source: str) -> DataFrame | None:
        return None


def as_they_are(spark: SparkSession) -> Sources:
    return _AsTheyAre(spark)
