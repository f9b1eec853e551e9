"""Rows handed over between this process and the JVM; what lies in both is not asked for again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

ONE_TASK = 50_000
"""Up to so many rows lie in one partition: what is made of them alone is one task, and nothing is shuffled."""

_lying: WeakKeyDictionary[DataFrame, pa.Table] = WeakKeyDictionary()


def local_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A few rows of this process as a frame that lies in the JVM, without a Python worker."""
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=False)
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_stream(file.name, rows.schema) as writer:
            # Each batch is a partition of its own.
            writer.write_table(rows.combine_chunks(), max_chunksize=ONE_TASK)
        jvm: Any = spark._jvm
        batches = jvm.PythonSQLUtils.readArrowStreamFromFile(file.name)
        frame = DataFrame(jvm.PythonSQLUtils.toDataFrame(batches, schema.json(), spark._jsparkSession), spark)
    if rows.num_rows <= ONE_TASK:
        frame = frame.coalesce(1)
    _lying[frame] = rows
    return frame


def lying(frame: DataFrame) -> pa.Table | None:
    """The rows of a frame that `local_frame` made, without asking Spark; None of any other."""
    return _lying.get(frame)


def selected(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Columns of a frame under other names (the new one → its own); what lies here goes on doing so."""
    from pyspark.sql import functions as F

    own = ["`" + name.replace("`", "``") + "`" for name in names.values()]
    made = frame.select(*(F.col(name).alias(new) for name, new in zip(own, names, strict=True)))
    rows = lying(frame)
    if rows is not None:
        _lying[made] = rows.select(list(names.values())).rename_columns(list(names))
    return made


def beside(left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Two frames to be joined by equal columns. If both lie in one task they are joined there, and nothing is sent
    around; if one does it goes to wherever the other is."""
    if _is_in_one_task(left) and _is_in_one_task(right):
        return left, right.hint("shuffle_hash")
    if _is_in_one_task(right):
        return left, right.hint("broadcast")
    return (left.hint("broadcast") if _is_in_one_task(left) else left), right


def _is_in_one_task(frame: DataFrame) -> bool:
    rows = lying(frame)
    return rows is not None and rows.num_rows <= ONE_TASK


def gathered(frame: DataFrame) -> pa.Table:
    """All rows of a frame, in this process: the way back of `local_frame`."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    known = lying(frame)
    if known is not None:
        return known
    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()


def first_of(frame: DataFrame, rows: int) -> DataFrame:
    """The first rows of a frame, read once, from no more partitions than it takes, and lying in the JVM."""
    from pyspark.sql import DataFrame

    taken = frame._jdf.takeAsList(rows)
    return DataFrame(frame.sparkSession._jsparkSession.createDataFrame(taken, frame._jdf.schema()), frame.sparkSession)


class Selection:
    """Columns that frame after frame is made of: handed over once, and selected in one call."""

    def __init__(self, spark: SparkSession, columns: Sequence[Column]) -> None:
        self._columns = _sequence(spark, [one._jc for one in columns])

    def of(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(frame._jdf.select(self._columns), frame.sparkSession)


class Additions:
    """Columns by their names that frame after frame gets: handed over once, and added in one call."""

    def __init__(self, spark: SparkSession, columns: Mapping[str, Column]) -> None:
        self._names = _sequence(spark, list(columns))
        self._columns = _sequence(spark, [one._jc for one in columns.values()])

    def to(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(frame._jdf.withColumns(self._names, self._columns), frame.sparkSession)


def _sequence(spark: SparkSession, values: list[Any]) -> Any:
    jvm: Any = spark._jvm
    return jvm.PythonUtils.toSeq(values)
