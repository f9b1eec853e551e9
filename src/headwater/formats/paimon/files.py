"""What is done file by file: upsert without keys, and the account of a write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.model import DELETED, Commit, CommitTag, Version
from headwater.formats.paimon.account import WrittenFile, as_commit
from headwater.formats.paimon.rows import rows_of
from headwater.formats.paimon.snapshots import Write
from headwater.formats.paimon.store import PaimonStore, is_added
from headwater.spark.frames import column

PATH = "__paimon_file_path"


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


def commit_of(store: PaimonStore, write: Write, keyed: bool) -> Commit:
    """A write as a line of the history."""

    def files_of(version: Version, mode: str) -> list[WrittenFile]:
        return [
            WrittenFile(is_added(e), int(e.file().rowCount()), int(e.file().deleteRowCount().orElse(0)))
            for e in store.entries(version, mode)
        ]

    return as_commit(write, keyed, files_of)
