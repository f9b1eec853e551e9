"""Expiry, manifests, and what Iceberg's metadata tell of files."""

from __future__ import annotations

import json
from bisect import bisect_left
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headwater.core.model import DataFile, Version
from headwater.formats.iceberg.java import JavaTable
from headwater.formats.iceberg.metadata import KEPT, Metadata, field_ids
from headwater.spark.frames import column
from headwater.spark.internals import call_back, java_session

if TYPE_CHECKING:
    from headwater.formats.iceberg.spark import IcebergTable

_MANY_MANIFESTS = 30
_MANIFEST_SIZE = 8 * 1024 * 1024


def expire(java: JavaTable, going: set[Version]) -> list[str]:
    """Expire snapshots one by one by id, as Iceberg's own rule knows neither tags nor readers; returns the files that
    only they needed, which are still there."""
    metadata = java.metadata()
    table = java.load()
    spared = [snapshot.id for snapshot in metadata.lineage() if snapshot.id not in going]
    # First what the lineage can't tell any more once a link of it is gone, then the snapshots themselves.
    table.updateProperties().set(KEPT, json.dumps(_unlinked(metadata, going, spared))).commit()
    found = _Paths()
    call_back(java.spark)
    # Without a time of its own Iceberg adds everything older than five days to the ids that it is given.
    action = table.expireSnapshots().expireOlderThan(0).deleteWith(found)
    for version in going:
        action = action.expireSnapshotId(version)
    action.commit()
    return found.paths


def expirable_files(table: IcebergTable, metadata: Metadata, going: set[Version]) -> list[tuple[str, int]]:
    """The data files that only these snapshots need, with their sizes."""
    sequences = {snapshot.id: snapshot.sequence for snapshot in metadata.snapshots.values()}
    spared = sorted(sequence for version, sequence in sequences.items() if version not in going)
    entries = table.scan({}, "all_entries").where("status = 2")
    told = "snapshot_id", "file_sequence_number", "data_file.file_path", "data_file.file_size_in_bytes"
    found: dict[str, int] = {}
    for removed_by, added, path, size in entries.select(*told).collect():
        removed = sequences.get(removed_by)
        if removed is not None and added is not None and bisect_left(spared, added) == bisect_left(spared, removed):
            found[path] = size  # no spared snapshot lies between
    return list(found.items())


class _Paths:
    """Takes the paths of files that Iceberg would delete."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def accept(self, path: str) -> None:
        self.paths.append(path)

    Java = type("Interfaces", (), {"implements": ("java.util.function.Consumer",)})


def named_files(java: JavaTable, table: IcebergTable, metadata: Metadata) -> set[str]:
    """Every file that a snapshot or the metadata itself names."""
    found = {str(row[0]) for row in table.scan({}, "all_files").select("file_path").collect()}
    found |= {str(row[0]) for row in table.scan({}, "all_manifests").select("path").collect()}
    operations = java.load().operations()
    return found | metadata.named_files() | {str(operations.current().metadataFileLocation())}


def rewrite_manifests(java: JavaTable) -> bool:
    """Join small manifests, which appends leave one by one; False: they are few."""
    table = java.load()
    current = table.currentSnapshot()
    manifests = [] if current is None else list(current.allManifests(table.io()))
    size = sum(int(manifest.length()) for manifest in manifests)
    if len(manifests) < _MANY_MANIFESTS or len(manifests) < 2 * (size // _MANIFEST_SIZE + 1):
        return False
    actions = java.jvm.org.apache.iceberg.spark.actions.SparkActions.get(java_session(java.spark))
    actions.rewriteManifests(table).execute()
    return True


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
    return [file for file, _ in added_files(table, metadata, version)]


def added_files(table: IcebergTable, metadata: Metadata, version: Version) -> list[tuple[DataFile, Version | None]]:
    """The data files of a version, and by which snapshot each was added."""
    found = table.scan({"snapshot-id": version}, "entries").where("status < 2 AND data_file.content = 0")
    inner = found.schema["data_file"].dataType
    partition = inner["partition"].dataType if "partition" in inner.names else None  # type: ignore[attr-defined,index]
    names: list[str] = list(getattr(partition, "names", ()))
    told = "file_path", "file_size_in_bytes", "record_count", "spec_id"
    values = [F.col("data_file.partition").getField(name).cast("string").alias(f"p{i}") for i, name in enumerate(names)]
    listed = found.select("snapshot_id", *(f"data_file.{name}" for name in told), *values).collect()
    hidden = table.deleted_rows(version) if metadata.snapshots[version].has_deletes else {}
    written: dict[int, set[str]] = {}
    files = []
    for row in listed:
        # A file has the fields of the spec it was written under; the struct has those of all specs.
        fields = written.setdefault(row["spec_id"], {f["name"] for f in metadata.spec(row["spec_id"])})
        partition_of = {name: row[f"p{i}"] for i, name in enumerate(names) if name in fields}
        snapshot = metadata.snapshots.get(row["snapshot_id"])
        at = None if snapshot is None else snapshot.commit().committed_at
        sizes = row["file_size_in_bytes"], row["record_count"]
        path = row["file_path"]
        files.append((DataFile(path, *sizes, partition_of, hidden.get(path, 0), at), row["snapshot_id"]))
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
