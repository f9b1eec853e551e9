"""One computation of a change: what several operators need is computed once."""

from __future__ import annotations

from types import TracebackType

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.changes.operator import Operator, Sources
from headwater.formats.frames import column
from headwater.model import WEIGHT


class Run:
    """Holds the changes of the operators until it is closed."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._changes: dict[int, DataFrame | None] = {}
        self._kept: list[DataFrame] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for frame in self._kept:
            frame.unpersist()

    def change(self, operator: Operator) -> DataFrame | None:
        """An operator's change, computed when it is first looked at and kept."""
        if id(operator) not in self._changes:
            found = operator.change(self)
            self._changes[id(operator)] = None if found is None else self.kept(found)
        return self._changes[id(operator)]

    def kept(self, frame: DataFrame) -> DataFrame:
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(frame)
        return frame


def signed(new: DataFrame, old: DataFrame) -> DataFrame:
    """What came and what went, without what is in both."""
    both = new.withColumn(WEIGHT, F.lit(1).cast("bigint")).unionByName(old.withColumn(WEIGHT, F.lit(-1).cast("bigint")))
    return consolidated(both)


def consolidated(change: DataFrame) -> DataFrame:
    """Each row once, with the sum of its weights; what cancels out is gone."""
    names = [name for name in change.columns if name != WEIGHT]
    if any(_has_map(change.schema[name].dataType) for name in names):
        return change  # maps can't be compared
    if not names:
        summed = change.agg(F.sum(WEIGHT).alias(WEIGHT))
    else:
        summed = change.groupBy(*map(column, names)).agg(F.sum(WEIGHT).alias(WEIGHT))
    return summed.where(column(WEIGHT) != 0)


def _has_map(data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return _has_map(data_type.elementType)
    if isinstance(data_type, StructType):
        return any(_has_map(f.dataType) for f in data_type.fields)
    return isinstance(data_type, MapType)
