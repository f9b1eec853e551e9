"""What is done file by file: upsert, compaction, clustering without keys, and the account of a write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.model import DELETED, Commit, CommitTag, Version
from headwater.formats.paimon.account import WrittenFile, as_commit
from headwater.formats.paimon.rows import rows_of
from headwater.formats.paimon.snapshots import Write
from headwater.formats.paimon.store import PaimonFile, PaimonStore, is_added
from headwater.spark.frames import column

PATH = "__paimon_file_path"
FULL = 0.8
"""A file of this share of the target size is left alone."""


def upsert(store: PaimonStore, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
    """Rewrite the files that hold one of the keys, in one commit with the new rows."""
    latest = store.latest()
    df = df.persist()
    try:
        new = df.where(~column(DELETED)).drop(DELETED)
        if latest is None:
            return store.commit(store.write(new), commit_tag)
        rows = store.frame(store.java().copy({"scan.snapshot-id": str(latest.id)}))
        given = df.select(*(column(key).alias(f"key_{i}") for i, key in enumerate(keys)))
        same = reduce(lambda a, b: a & b, (column(k).eqNullSafe(F.col(f"key_{i}")) for i, k in enumerate(keys)))
        holding = rows.join(given, same, "left_semi").select(PATH).distinct()
        touched = {row[0] for row in holding.collect()}
        old = [file for file in store.files(latest.id) if file.path in touched]
        if old:
            new = rows_of(store, old, store.java()).join(given, same, "left_anti").unionByName(new)
        return store.commit([*store.write(new), *store.removed(old)], commit_tag)
    finally:
        df.unpersist()


def compact(store: PaimonStore, target_file_size: int) -> None:
    """Join each partition's small files into files of the target size."""
    groups = [
        [file for file in group if file.bytes < FULL * target_file_size] for group in _by_partition(store).values()
    ]
    groups = [group for group in groups if len(group) > math.ceil(_bytes(group) / target_file_size)]
    frames = [
        rows_of(store, group, store.java()).coalesce(math.ceil(_bytes(group) / target_file_size)) for group in groups
    ]
    _rewrite(store, groups, frames, {"target-file-size": f"{target_file_size} b"})


def cluster(store: PaimonStore, columns: Sequence[str]) -> None:
    """Sort each partition by z-order of the columns."""
    groups = list(_by_partition(store).values())
    frames = [store.z_ordered(rows_of(store, group, store.java()), columns) for group in groups]
    _rewrite(store, groups, frames, {})


def commit_of(store: PaimonStore, write: Write, keyed: bool) -> Commit:
    """A write as a line of the history."""

    def files_of(version: Version, mode: str) -> list[WrittenFile]:
        return [
            WrittenFile(is_added(e), int(e.file().rowCount()), int(e.file().deleteRowCount().orElse(0)))
            for e in store.entries(version, mode)
        ]

    return as_commit(write, keyed, files_of)


def _by_partition(store: PaimonStore) -> dict[str, list[PaimonFile]]:
    latest = store.latest()
    groups: dict[str, list[PaimonFile]] = {}
    for file in [] if latest is None else store.files(latest.id):
        groups.setdefault(file.bucket_path, []).append(file)
    return groups


def _rewrite(
    store: PaimonStore, groups: Sequence[Sequence[PaimonFile]], frames: Sequence[DataFrame], options: dict[str, str]
) -> None:
    if not groups:
        return
    messages = store.write(reduce(DataFrame.unionByName, frames), options=options)
    store.compact_files(store.rewritten([file for group in groups for file in group], messages))


def _bytes(group: Sequence[PaimonFile]) -> int:
    return sum(file.bytes for file in group)
