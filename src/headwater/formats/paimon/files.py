"""What is done file by file: upsert, compaction, clustering without keys, and the account of a write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.model import DELETED, CommitTag, Version
from headwater.formats.paimon.rows import rows_of
from headwater.formats.paimon.snapshots import COMPACT, OVERWRITE, Write
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


def account(store: PaimonStore, write: Write, keyed: bool) -> tuple[str, int | None, int | None]:
    """What a write did, and the rows it added and removed; None where only a scan could tell."""
    if write.kind == COMPACT:
        return "compact", 0, 0
    entries = store.entries(write.first.id, "DELTA")
    added = sum(int(e.file().rowCount()) for e in entries if is_added(e))
    removed = sum(int(e.file().rowCount()) for e in entries if not is_added(e))
    if write.kind == OVERWRITE:
        return "replace", added, None if keyed else removed
    if keyed:
        logged = [e.file() for s in write.snapshots for e in store.entries(s.id, "CHANGELOG")]
        if not logged and added:
            return "upsert", None, None
        gone = sum(int(file.deleteRowCount().orElse(0)) for file in logged)
        return "upsert", sum(int(file.rowCount()) for file in logged) - gone, gone
    # files were replaced, and hold rows that stayed alongside those that changed
    return ("upsert", None, None) if removed else ("append", added, 0)


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
