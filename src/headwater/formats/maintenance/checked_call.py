"""Maintenance by a format's own call, which commits by itself: the rows are compared right after, under the table's
lock, and where they differ the version before is restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headwater.core.errors import HeadwaterError
from headwater.core.model import DataFile, Rewrite, Version
from headwater.formats.maintenance.proof import measure, require_same
from headwater.formats.maintenance.rewrite import described
from headwater.spark.frames import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.formats.spark_table import SparkTable


_MANY = 100


def checked_call(
    table: SparkTable,
    call: Callable[[], object],
    rows: Callable[[Version, Sequence[DataFile]], DataFrame],
    restore: Callable[[Version, Version], object],
) -> Rewrite | None:
    """Run a format's own maintenance; None if it found nothing to do.

    `rows` are those of a version that lie in files which the other version lacks, or more of them; `restore` takes back
    the version that the call made, given the one before. The caller holds the table's lock.
    """
    before = table.version()
    if before is None:
        return None
    old = {file.path: file for file in table.files(before)}
    call()
    after = table.version()
    if after is None or after == before:
        return None
    new = {file.path: file for file in table.files(after)}
    gone = [file for path, file in old.items() if path not in new]
    came = [file for path, file in new.items() if path not in old]
    read, written = measure(rows(before, gone)), measure(rows(after, came))
    try:
        require_same(table.address, read, written, f"version {before} was restored")
    except HeadwaterError:
        restore(before, after)
        raise
    return described(before, after, gone, [file.bytes for file in came], written)


def in_partitions(rows: DataFrame, files: Sequence[DataFile]) -> DataFrame:
    """The rows of the partitions that files lie in."""
    partitions = {tuple(sorted(file.partition.items())) for file in files}
    if () in partitions or not partitions or len(partitions) > _MANY:
        return rows
    chosen = [
        reduce(lambda a, b: a & b, (column(name).cast("string").eqNullSafe(F.lit(value)) for name, value in partition))
        for partition in partitions
    ]
    return rows.where(reduce(lambda a, b: a | b, chosen))
