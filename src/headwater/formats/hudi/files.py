"""Rows straight from a table's base files, as one schema, whatever schema each file was written with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headwater.core.storage import as_pattern
from headwater.formats.hudi.columns import from_stored
from headwater.formats.hudi.live_files import instant_of
from headwater.formats.hudi.timeline import HudiTimeline

_BY_PATH = (StringType, IntegerType, LongType, DateType, BooleanType)
"""Types whose text in a partition path gives the value back exactly, so that Spark can prune by it."""
_MANY = 1000
_schemas: dict[str, StructType] = {}


def read_base_files(
    spark: SparkSession,
    records: HudiTimeline,
    paths: Iterable[str],
    schema: StructType,
    partition_by: Sequence[str],
    *keep: str,
) -> DataFrame:
    """The rows of these files under `schema`; files of one written schema are read together."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        commit = records.commit_of(instant_of(path))
        groups[path if commit is None or not commit.schema else commit.schema].append(path)
    by_path = bool(partition_by) and all(isinstance(schema[name].dataType, _BY_PATH) for name in partition_by)
    frames = []
    for key, group in groups.items():
        reader = spark.read.schema(_written_schema(spark, key, group[0]))
        if by_path:
            reader = reader.option("basePath", records.path)
        frames.append(from_stored(reader.parquet(*map(as_pattern, group)), schema, *keep))
    if not frames:
        own = [StructField(name, StringType()) for name in keep]
        return spark.createDataFrame([], StructType([*own, *schema.fields]))
    return reduce(DataFrame.unionByName, frames)


def _written_schema(spark: SparkSession, key: str, path: str) -> StructType:
    """The schema of files that were written alike; asked of a footer once, since that takes a Spark job."""
    if key not in _schemas:
        if len(_schemas) >= _MANY:
            _schemas.clear()
        _schemas[key] = spark.read.parquet(as_pattern(path)).schema
    return _schemas[key]
