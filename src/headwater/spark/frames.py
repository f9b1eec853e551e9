"""DataFrame and schema helpers that every format's Spark side shares."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.core.model import WEIGHT
from headwater.core.quotes import backticked


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


def has_map(data_type: DataType) -> bool:
    """Whether there is a map in it, at any depth."""
    if isinstance(data_type, StructType):
        return any(has_map(f.dataType) for f in data_type.fields)
    if isinstance(data_type, ArrayType):
        return has_map(data_type.elementType)
    return isinstance(data_type, MapType)


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


def to_ddl(spark: SparkSession, schema: StructType) -> str:
    """The schema as the columns of a CREATE TABLE, every name quoted."""
    java_type: Any = spark._jsparkSession.parseDataType(schema.json())
    return str(java_type.toDDL())


def type_sql(data_type: DataType) -> str:
    """A type as SQL takes it, nested names quoted."""
    if isinstance(data_type, StructType):
        inner = ", ".join(f"{backticked(f.name)}: {type_sql(f.dataType)}" for f in data_type.fields)
        return f"STRUCT<{inner}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{type_sql(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
    return data_type.simpleString().upper()


def path_sql(path: Sequence[str]) -> str:
    """A nested column's path as ALTER TABLE takes it."""
    return ".".join(backticked(part) for part in path)


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame's rows, computed once."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()
