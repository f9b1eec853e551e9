"""Rows handed over between this process and the JVM; what lies in both is not asked for again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from headwater.core.quotes import backticked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

ONE_TASK = 200_000
"""Up to so many rows lie in one partition: what is made of them alone is one task, and nothing is shuffled."""
ONE_TASK_BYTES = 32 << 20
"""And up to so many bytes."""

_lying: WeakKeyDictionary[DataFrame, pa.Table] = WeakKeyDictionary()
_in_one_task: WeakSet[DataFrame] = WeakSet()
_sizes: WeakKeyDictionary[SparkSession, dict[int, Any]] = WeakKeyDictionary()
"""What Spark is told of the size of frames in one task, by its binary digits."""


def local_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A few rows of this process as a frame that lies in the JVM, without a Python worker."""
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headwater.spark.arrow_types import spark_schema_of

    schema = spark_schema_of(rows.schema)
    parts = max(1, -(-rows.num_rows // ONE_TASK), -(-rows.nbytes // ONE_TASK_BYTES))
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_stream(file.name, rows.schema) as writer:
            # Each batch is a partition of its own.
            writer.write_table(rows.combine_chunks(), max_chunksize=max(1, -(-rows.num_rows // parts)))
        jvm: Any = spark._jvm
        batches = jvm.PythonSQLUtils.readArrowStreamFromFile(file.name)
        frame = DataFrame(jvm.PythonSQLUtils.toDataFrame(batches, schema.json(), spark._jsparkSession), spark)
    if parts == 1:
        frame = _one_task(spark, frame, rows.nbytes)
        _in_one_task.add(frame)
    frame._schema = schema  # known without asking
    _lying[frame] = rows
    return frame


def _one_task(spark: SparkSession, frame: DataFrame, size: int) -> DataFrame:
    """The frame, with its size told and that it is in one partition: Spark takes rows of unknown size for the largest
    there are, and distributes them."""
    from pyspark.sql import DataFrame

    plan = frame._jdf.queryExecution().analyzed()
    if plan.nodeName() != "LogicalRDD":
        return frame.coalesce(1)
    jvm: Any = spark._jvm
    sizes, digits = _sizes.setdefault(spark, {}), size.bit_length()
    if digits not in sizes:
        alike = spark._jsparkSession.range((1 << digits) // 8 + 1)
        sizes[digits] = jvm.scala.Option.apply(alike.queryExecution().analyzed().stats())
    single = getattr(getattr(jvm.org.apache.spark.sql.catalyst.plans.physical, "SinglePartition$"), "MODULE$")
    here, ordering, unknown = spark._jsparkSession, plan.outputOrdering(), jvm.scala.Option.empty()
    make = jvm.org.apache.spark.sql.execution.LogicalRDD
    sized = make(plan.output(), plan.rdd(), single, ordering, False, here, sizes[digits], unknown)
    return DataFrame(jvm.org.apache.spark.sql.Dataset.ofRows(here, sized), spark)


def lying(frame: DataFrame) -> pa.Table | None:
    """The rows of a frame that `local_frame` made, without asking Spark; None of any other."""
    return _lying.get(frame)


def selected(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Columns of a frame under other names (the new one → its own); what lies here goes on doing so."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    own = [backticked(name) for name in names.values()]
    made = frame.select(*(F.col(name).alias(new) for name, new in zip(own, names, strict=True)))
    rows = lying(frame)
    if rows is not None:
        _lying[made] = rows.select(list(names.values())).rename_columns(list(names))
        kept = ((new, frame.schema[name]) for new, name in names.items())
        made._schema = StructType([StructField(new, field.dataType, field.nullable) for new, field in kept])
    return following(made, frame)


def following(made: DataFrame, of: DataFrame) -> DataFrame:
    """A frame that is made of another one where that lies: each row of its own, or all of them in one task."""
    if of in _in_one_task:
        _in_one_task.add(made)
    return made


def joined(left: DataFrame, right: DataFrame, on: Column | str | None, how: str) -> DataFrame:
    """Two frames joined by equal columns. If both lie in one task they are joined there, and nothing is sent around;
    if one does it goes to wherever the other is."""
    if left in _in_one_task and right in _in_one_task:
        return following(left.join(right.hint("shuffle_hash"), on, how), left)
    if right in _in_one_task:
        right = right.hint("broadcast")
    elif left in _in_one_task:
        left = left.hint("broadcast")
    return left.join(right, on, how)


def held_together(frame: DataFrame) -> DataFrame:
    """The same rows, in one task for Spark too if they are."""
    return following(frame.coalesce(1), frame) if frame in _in_one_task else frame


def united(one: DataFrame, other: DataFrame) -> DataFrame:
    """All rows of both; in one task if both are."""
    both = one.unionByName(other)
    return held_together(following(both, one)) if other in _in_one_task else both


def gathered(frame: DataFrame) -> pa.Table:
    """All rows of a frame, in this process: the way back of `local_frame`."""
    import pyarrow as pa

    from headwater.spark.arrow_types import arrow_schema_of

    known = lying(frame)
    if known is not None:
        return known
    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else arrow_schema_of(frame.schema).empty_table()


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

        return following(DataFrame(frame._jdf.select(self._columns), frame.sparkSession), frame)


class Groups:
    """Groups and their aggregates, handed over once like a `Selection`."""

    def __init__(self, spark: SparkSession, by: Sequence[Column], values: Sequence[Column]) -> None:
        self._by = _sequence(spark, [one._jc for one in by])
        self._first = values[0]._jc
        self._rest = _sequence(spark, [one._jc for one in values[1:]])

    def of(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        made = frame._jdf.groupBy(self._by).agg(self._first, self._rest)
        return following(DataFrame(made, frame.sparkSession), frame)


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
