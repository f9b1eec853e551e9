"""Rows on their way from Spark to this process, for targets that one connection writes to in one transaction.

They pass through Parquet files of the lake: Spark's workers write them in parallel, no result has to fit into the
driver's memory, and a connection that breaks gets the same rows again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.core.storage import Files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_FOLDER = "_headwater/spool"
_BATCH = 50_000
_OPTIONS = {
    "compression": "snappy",
    "parquet.enable.dictionary": "false",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


class RowSpool:
    """The rows of one step or snapshot. One for each target, which clears what a run that was killed has left."""

    def __init__(self, files: Files, owner: str) -> None:
        """`owner`: whose rows they are; nobody else writes for it meanwhile."""
        self._files = files
        self._path = f"{_FOLDER}/{hashlib.sha256(owner.encode()).hexdigest()[:16]}"

    @contextmanager
    def holding(self, rows: DataFrame) -> Iterator[RowSpool]:
        """Compute the rows, once, and keep them for the block."""
        self.write(rows)
        try:
            yield self
        finally:
            self.clear()

    def write(self, rows: DataFrame) -> None:
        rows.write.mode("overwrite").options(**_OPTIONS).parquet(self._files.spark_uri(self._path))

    def clear(self) -> None:
        self._files.delete(self._path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as often as need be."""
        import pyarrow.parquet as pq

        for entry in self._files.list(self._path):
            if entry.name.startswith(("_", ".")):
                continue
            with self._files.reading(entry.path) as opened:
                yield from pq.ParquetFile(opened).iter_batches(batch_size=_BATCH)
