"""What PySpark keeps to itself: its Java objects. Nothing outside of `spark/` asks for them by their own names, so that
another release of Spark is a change of this folder. Loads no pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType


def java(spark: SparkSession) -> Any:
    """The JVM's packages and classes, by their names."""
    return spark._jvm


def java_session(spark: SparkSession) -> Any:
    """The session's Java object, with its catalog, parser and settings."""
    return spark._jsparkSession


def java_context(spark: SparkSession) -> Any:
    """The Java object of the context that the session belongs to."""
    return spark.sparkContext._jsc


def java_frame(frame: DataFrame) -> Any:
    """The frame's Java object."""
    return frame._jdf


def java_column(column: Column) -> Any:
    """The column's Java object."""
    return column._jc


def java_type(spark: SparkSession, data_type: DataType) -> Any:
    """A type as Java has it."""
    return java(spark).org.apache.spark.sql.types.DataType.fromJson(data_type.json())


def gateway_of(context: SparkContext) -> Any:
    """The connection to the JVM, with its process."""
    return context._gateway


def call_back(spark: SparkSession) -> None:
    """Let Java call objects of Python that are given to it."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(gateway_of(spark.sparkContext))


def query_failure(query: StreamingQuery) -> Any:
    """The Java exception that a streaming query has ended with; None if it has not failed."""
    failure = query._jsq.exception()
    return failure.get() if failure.isDefined() else None


def query_execution(frame: DataFrame) -> Any:
    """The frame's QueryExecution, with its plans."""
    return java_frame(frame).queryExecution()


def analyzed_plan(frame: DataFrame) -> Any:
    """The logical plan, its names and types resolved."""
    return query_execution(frame).analyzed()


def arrow_batches(frame: DataFrame) -> RDD[bytes]:
    """The frame's rows as serialized Arrow record batches, partition by partition."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    batches = java_frame(frame).toArrowBatchRdd().toJavaRDD()
    return RDD(batches, frame.sparkSession.sparkContext, NoOpSerializer())
