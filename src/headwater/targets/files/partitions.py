"""Partitions of a folder of files: `date_ts=2024-05-01/…`, by columns or expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def column_of(partition: str) -> str:
    """The column that the folders name: `date(ts)` goes by `date_ts`."""
    plain = partition.strip().strip("`")
    return plain if re.fullmatch(r"[\w ]+", plain) else re.sub(r"\W+", "_", plain).strip("_")


def partitioned(rows: DataFrame, partition_by: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """The rows with a column for each expression, and the columns to partition by."""
    from pyspark.sql import functions as F

    names = [column_of(one) for one in partition_by]
    for partition, name in zip(partition_by, names, strict=True):
        if name not in rows.columns:
            rows = rows.withColumn(name, F.expr(partition))
    return rows, names


def values_in(path: str) -> Mapping[str, str | None]:
    """The partition values that a file's path tells."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in parts}


def with_partitions(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, values: Mapping[str, str | None]
) -> Iterator[pa.RecordBatch]:
    """The rows of one file with the columns that only its path tells, in the order of `schema`."""
    for batch in batches:
        arrays = []
        for field in schema:
            if field.name in values:
                one = pa.array([values[field.name]], pa.string()).cast(field.type)[0]
                arrays.append(pa.repeat(one, batch.num_rows))
            else:
                arrays.append(batch.column(field.name))
        yield pa.RecordBatch.from_arrays(arrays, names=schema.names)
