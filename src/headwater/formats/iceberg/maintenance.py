"""Compaction, clustering and expiry through Iceberg's own actions; live files from its metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headwater.core.model import DataFile, Version
from headwater.formats.iceberg.java import JavaTable
from headwater.formats.iceberg.metadata import KEPT, Metadata, field_ids
from headwater.spark.frames import column
from headwater.spark.internals import java_session

if TYPE_CHECKING:
    from headwater.formats.iceberg.spark import IcebergTable


def compact(java: JavaTable, target_file_size: int) -> None:
    """Join files that are far from the target size, and those with deletes on them."""
    options = {"target-file-size-bytes": str(target_file_size), "min-input-files": "2"}
    current = java.metadata().current
    if current is not None and current.has_deletes:
        options.update({"delete-file-threshold": "1", "remove-dangling-deletes": "true"})
    _rewrite(java, options).binPack().execute()


def cluster(java: JavaTable, columns: Sequence[str]) -> None:
    _rewrite(java, {"rewrite-all": "true"}).zOrder(java.java_strings(tuple(columns))).execute()


def _rewrite(java: JavaTable, options: dict[str, str]) -> Any:
    actions = java.jvm.org.apache.iceberg.spark.actions.SparkActions.get(java_session(java.spark))
    return actions.rewriteDataFiles(java.load()).options(java.java_map(options))


def expire(java: JavaTable, older_than: datetime, keep: frozenset[Version]) -> list[Version]:
    """Expire snapshots one by one by id: Iceberg's own rule knows neither commit tags nor readers."""
    metadata = java.metadata()
    going = metadata.expirable(older_than, keep)
    if not going:
        return []
    table = java.load()
    spared = [snapshot.id for snapshot in metadata.lineage() if snapshot.id not in going]
    # First what the lineage can't tell any more once a link of it is gone, then the snapshots themselves.
    table.updateProperties().set(KEPT, json.dumps(_unlinked(metadata, going, spared))).commit()
    # Without a time of its own Iceberg adds everything older than five days to the ids that it is given.
    action = table.expireSnapshots().expireOlderThan(0)
    for version in going:
        action = action.expireSnapshotId(version)
    action.commit()
    return sorted(going, key=lambda version: metadata.snapshots[version].sequence)


def _unlinked(metadata: Metadata, going: set[Version], spared: list[Version]) -> list[Version]:
    """The spared versions that parents no longer lead to."""
    linked: set[Version] = set()
    at = metadata.current
    while at is not None and at.id not in going:
        linked.add(at.id)
        at = metadata.snapshots.get(at.parent) if at.parent is not None else None
    return [version for version in spared if version not in linked]


def files(table: IcebergTable, metadata: Metadata, version: Version) -> list[DataFile]:
    """The data files of a version with the partition that each was written to."""
    found = table.scan({"snapshot-id": version}, "files").where("content = 0")
    partition = found.schema["partition"].dataType if "partition" in found.columns else None
    names: list[str] = list(getattr(partition, "names", ()))
    values = [F.col("partition").getField(name).cast("string").alias(f"p{i}") for i, name in enumerate(names)]
    listed = found.select("file_path", "file_size_in_bytes", "record_count", "spec_id", *values).collect()
    written: dict[int, set[str]] = {}
    files = []
    for row in listed:
        # A file has the fields of the spec it was written under; the struct has those of all specs.
        fields = written.setdefault(row["spec_id"], {f["name"] for f in metadata.spec(row["spec_id"])})
        partition_of = {name: row[f"p{i}"] for i, name in enumerate(names) if name in fields}
        files.append(DataFile(row["file_path"], row["file_size_in_bytes"], row["record_count"], partition_of))
    return files


def column_bytes(table: IcebergTable, metadata: Metadata, version: Version) -> dict[str, int]:
    """Bytes of each top-level column in the live files, nested ones summed up."""
    sizes = (
        table.scan({"snapshot-id": version}, "files")
        .where("content = 0")
        .select(F.explode("column_sizes").alias("id", "bytes"))
        .groupBy("id")
        .agg(F.sum(column("bytes")).alias("bytes"))
        .collect()
    )
    by_id = {row["id"]: int(row["bytes"]) for row in sizes}
    return {f["name"]: sum(by_id.get(i, 0) for i in field_ids(f)) for f in metadata.fields(None)}
