"""Records of this process as frames: a few in the JVM's memory, many through files of the lake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headwater.core.storage import Files
from headwater.sources.postgres.cdc.spool import SCHEMA
from headwater.spark.arrow_bridge import local_frame
from headwater.spark.arrow_types import spark_schema_of

FEW_ROWS = 10_000
"""Up to so many lie in the JVM, where the optimizer computes what is made of them in one go and in one thread."""
FEW_BYTES = 16 * 1024 * 1024
FILE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Staged:
    """A range's records, and the shapes that they are of."""

    frame: DataFrame
    relations: frozenset[str]


def staged_frame(spark: SparkSession, batches: Iterable[pa.RecordBatch], notes: Files, folder: str) -> Staged:
    """A frame of the records; where they are many they are written under the folder first."""
    held: list[pa.RecordBatch] = []
    relations: set[str] = set()
    writer: _Writer | None = None
    rows = size = 0
    try:
        for batch in batches:
            relations.update(batch["_relation"].unique().to_pylist())
            held.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows > FEW_ROWS or size > FEW_BYTES:
                writer = writer or _Writer(notes, folder)
                for one in held:
                    writer.write(one)
                held = []
    finally:
        if writer is not None:
            writer.close()
    known = frozenset(relations)
    if writer is None:
        return Staged(local_frame(spark, pa.Table.from_batches(held, SCHEMA)), known)
    schema = spark_schema_of(SCHEMA)
    return Staged(spark.read.schema(schema).parquet(notes.spark_pattern(folder)), known)


class _Writer:
    """Parquet files of a bounded size: they are made in memory, and several tasks read them."""

    def __init__(self, notes: Files, folder: str) -> None:
        notes.delete(folder)
        self._notes = notes
        self._folder = folder
        self._files = 0
        self._bytes = 0
        self._buffer: pa.BufferOutputStream | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._buffer = pa.BufferOutputStream()
            self._writer = pq.ParquetWriter(self._buffer, SCHEMA)
        self._writer.write_batch(batch)
        self._bytes += batch.nbytes
        if self._bytes >= FILE_BYTES:
            self.close()

    def close(self) -> None:
        if self._writer is not None and self._buffer is not None:
            self._writer.close()
            content = self._buffer.getvalue().to_pybytes()
            self._notes.write_atomic(f"{self._folder}/{self._files:06d}.parquet", content)
            self._files, self._bytes = self._files + 1, 0
            self._writer = self._buffer = None
