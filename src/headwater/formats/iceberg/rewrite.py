"""Compaction and clustering of an Iceberg table. Files are chosen, written, proved and committed here, with the parts
of Iceberg's own rewrite: that one takes no list of files, and commits before anybody can look."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from headwater.core.errors import Code, TransientError
from headwater.core.model import DataFile, Rewrite, Version
from headwater.formats.base import Address
from headwater.formats.iceberg.java import JavaTable, committing
from headwater.formats.iceberg.metadata import Metadata
from headwater.formats.locks import writing
from headwater.formats.maintenance.proof import PROOF, Proof, measure, measured_on_the_way, require_same, summed
from headwater.formats.maintenance.rewrite import Group, RewriteScope, described
from headwater.formats.maintenance.z_order import z_ordered
from headwater.spark.internals import gateway_of

CLUSTERED = "headwater.clustered_by"
"""The key of a snapshot's summary that tells by which columns the files that it added are sorted."""


@dataclass(frozen=True)
class IcebergRewrite:
    """A rewrite of some files of one snapshot; `tasks` are Iceberg's scans of its files, by their paths."""

    address: Address
    java: JavaTable
    table: Any
    version: Version
    tasks: Mapping[str, Any]

    def run(self, groups: Sequence[Group], scope: RewriteScope, columns: Sequence[str] = ()) -> Rewrite | None:
        """Write the groups' rows into new files, prove them, and commit; by z-order if columns are given."""
        if not groups:
            return None
        if any(file.path not in self.tasks for group in groups for file in group):
            raise TransientError(Code.COMMIT_FAILED, f"{self.address} has changed while a rewrite was planned")
        files = [file for group in groups for file in group]
        read, written = self._write(groups, scope, columns)
        try:
            proof = self._measured(written)
            counted = files if all(self._is_exact(file) for file in files) else []
            require_same(self.address, read(), proof, "the table was left as it is", counted)
        except BaseException:
            self._discard(written)
            raise
        try:
            with writing(self.address), committing(self.java.name):
                self._commit([self.tasks[file.path] for file in files], written, columns, proof)
        except TransientError as error:
            if error.problem.message.startswith("a commit to"):  # refused: else nobody knows whether it landed
                self._discard(written)
            raise
        metadata = self.java.landed()
        after = metadata.current.id if metadata.current else self.version
        return described(self.version, after, files, [int(file.fileSizeInBytes()) for file in written], proof)

    def _is_exact(self, file: DataFile) -> bool:
        """Whether the metadata tell how many of a file's rows are deleted."""
        util = self.java.jvm.org.apache.iceberg.util.ContentFileUtil
        return all(util.isFileScoped(delete) for delete in self.tasks[file.path].deletes())

    def _write(
        self, groups: Sequence[Group], scope: RewriteScope, columns: Sequence[str]
    ) -> tuple[Callable[[], Proof], list[Any]]:
        """What tells the proof of the rows that were read, and the new files, which no commit names yet."""
        with self._staged() as stage:
            frames, proofs = [], []
            for group in groups:
                rows = stage([self.tasks[file.path] for file in group])
                if columns:  # sorting takes samples, which would be counted too
                    proofs.append(measure(rows))
                    frames.append(z_ordered(rows, columns, scope.files_of(group), proofs[-1].rows))
                else:
                    frames.append(rows.coalesce(1))
            everything = reduce(DataFrame.union, frames)
            if columns:
                together = summed(proofs)
                return (lambda: together), write_files(self.java, self.table, everything, scope.target)
            rows, told = measured_on_the_way(everything)
            # A group is a file: a rest beyond the target would be a small file again.
            return told, write_files(self.java, self.table, rows, 2 * scope.target)

    def _measured(self, written: Sequence[Any]) -> Proof:
        with self._staged() as stage:
            return measure(stage([self._task(file) for file in written]))

    def _task(self, file: Any) -> Any:
        """Iceberg's scan of a file that has no deletes."""
        iceberg: Any = self.java.jvm.org.apache.iceberg
        none = gateway_of(self.java.spark.sparkContext).new_array(iceberg.DeleteFile, 0)
        schema = iceberg.SchemaParser.toJson(self.table.schema())
        spec = iceberg.PartitionSpecParser.toJson(self.table.specs().get(file.specId()))
        everything = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
        return iceberg.BaseFileScanTask(file, none, schema, spec, everything)

    @contextmanager
    def _staged(self) -> Iterator[Callable[[Sequence[Any]], DataFrame]]:
        """What gives the rows of some scans, while inside."""
        spark_side: Any = self.java.jvm.org.apache.iceberg.spark
        cache, tasks = table_cache(self.java), spark_side.ScanTaskSetManager.get()
        keys: list[str] = []

        def stage(chosen: Sequence[Any]) -> DataFrame:
            key = str(uuid.uuid4())
            keys.append(key)
            listed = self.java.jvm.java.util.ArrayList()
            for task in chosen:
                listed.add(task)
            cache.add(key, self.table)
            tasks.stageTasks(self.table, key, listed)
            reader = self.java.spark.read.format("iceberg").option("scan-task-set-id", key)
            return reader.option("file-open-cost", "0").load(key)

        try:
            yield stage
        finally:
            for key in keys:
                tasks.removeTasks(self.table, key)
                cache.remove(key)

    def _commit(self, old: Sequence[Any], new: Sequence[Any], columns: Sequence[str], proof: Proof) -> None:
        update = self.table.newRewrite().validateFromSnapshot(self.version)
        sequence = int(self.table.snapshot(self.version).sequenceNumber())
        before, after = self.java.jvm.java.util.HashSet(), self.java.jvm.java.util.HashSet()
        for task in old:
            before.add(task.file())
        for file in new:
            after.add(file)
        # Under the number of the snapshot that was read: deletes that come meanwhile hit the new files too.
        update = update.rewriteFiles(before, after, sequence)
        for delete in self._useless(old):
            update = update.deleteFile(delete)
        update = update.set(PROOF, proof.to_json())
        if columns:
            update = update.set(CLUSTERED, json.dumps(list(columns)))
        update.commit()

    def _useless(self, old: Sequence[Any]) -> list[Any]:
        """The delete files that are about the old files alone."""
        util = self.java.jvm.org.apache.iceberg.util.ContentFileUtil
        deletes = (delete for task in old for delete in task.deletes())
        return list({str(delete.location()): delete for delete in deletes if util.isFileScoped(delete)}.values())

    def _discard(self, written: Sequence[Any]) -> None:
        for file in written:
            self.table.io().deleteFile(str(file.location()))


def write_files(java: JavaTable, table: Any, rows: DataFrame, target: int) -> list[Any]:
    """Write the rows as files of the table, which belong to it once they are committed."""
    spark_side: Any = java.jvm.org.apache.iceberg.spark
    key = str(uuid.uuid4())
    cache = table_cache(java)
    cache.add(key, table)
    try:
        writer = rows.write.format("iceberg").option("rewritten-file-scan-task-set-id", key)
        writer = writer.option("target-file-size-bytes", str(target)).option("distribution-mode", "none")
        writer = writer.option("fanout-enabled", "true").option("use-table-distribution-and-ordering", "false")
        writer.mode("append").save(key)
        coordinator = spark_side.FileRewriteCoordinator.get()
        found = list(coordinator.fetchNewFiles(table, key))
        coordinator.clearRewrite(table, key)
        return found
    finally:
        cache.remove(key)


def table_cache(java: JavaTable) -> Any:
    """Iceberg's tables by keys, which its reader and writer take for names. Its `get` has a twin that is no static
    method, which py4j takes for it."""
    return java.jvm.org.apache.iceberg.spark.SparkTableCache().getClass().getMethod("get", None).invoke(None, None)


def scans(table: Any, version: Version) -> dict[str, Any]:
    """Iceberg's scans of a snapshot's files, deletes with them, by the files' paths."""
    tasks = table.newScan().useSnapshot(version).planFiles()
    try:
        return {str(task.file().location()): task for task in tasks.iterator()}
    finally:
        tasks.close()


def deleted_rows(java: JavaTable, task: Any) -> int:
    """How many of a file's rows are deleted; at most so many where a delete file is about several files."""
    util = java.jvm.org.apache.iceberg.util.ContentFileUtil
    rows, total = int(task.file().recordCount()), 0
    for delete in task.deletes():
        if not util.isFileScoped(delete):
            return rows
        total += int(delete.recordCount())
    return min(rows, total)


def clustered(metadata: Metadata, added_by: Mapping[str, Version | None], columns: Sequence[str]) -> set[str]:
    """The files that a rewrite has sorted by these columns, given which snapshot added each."""
    by = json.dumps(list(columns))
    sorting = {v for v, snapshot in metadata.snapshots.items() if snapshot.summary.get(CLUSTERED) == by}
    return {path for path, version in added_by.items() if version in sorting}
