"""Compaction and clustering of a Hudi table, by Hudi's own services."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from headwater.core.model import DataFile, Rewrite, Version
from headwater.formats.hudi import maintenance
from headwater.formats.hudi.files import read_base_files
from headwater.formats.hudi.instants import CLUSTERED
from headwater.formats.hudi.live_files import HudiFile, instant_of, partition_values
from headwater.formats.hudi.options import bounding_options, clustering_options, compaction_options
from headwater.formats.hudi.timeline import HudiTimeline
from headwater.formats.locks import writing
from headwater.formats.maintenance.checked_call import checked_call, in_partitions
from headwater.formats.maintenance.rewrite import SMALL, Group, RewriteScope

if TYPE_CHECKING:
    from headwater.formats.hudi.spark import HudiSparkTable


@dataclass(frozen=True)
class HudiRewrite:
    """One piece of maintenance of a table, planned from its records."""

    table: HudiSparkTable
    records: HudiTimeline

    def compact(self, scope: RewriteScope) -> Rewrite | None:
        """Merge log files, or join small files."""
        records = self.records
        if records.merge_on_read:
            logs = [file for file in latest_files(self.records) if file.is_log]
            covered = [file for file in logs if scope.covers(self._partition(file))]
            return self._serviced(compaction_options(scope.max_bytes), maintenance.compact) if covered else None
        groups = scope.compaction(self.table.files())
        if not groups:
            return None
        # A bound may leave one file to each of Hudi's groups: then it finds nothing to do, and gets a wider one.
        for bound in (None,) if scope.max_bytes is None else (scope.max_bytes, 2 * scope.max_bytes, None):
            options = self._clustering(replace(scope, max_bytes=bound), groups, int(scope.target * SMALL))
            if (done := self._serviced(options, maintenance.cluster)) is not None:
                return done
        return None

    def cluster(self, scope: RewriteScope, columns: Sequence[str]) -> Rewrite | None:
        """Sort files by z-order of the columns."""
        groups = scope.clustering(self.table.files(), self._clustered(columns))
        if not groups:
            return None
        options = self._clustering(scope, groups, 2**62, columns)
        return self._serviced(options, partial(maintenance.cluster, note={CLUSTERED: json.dumps(list(columns))}))

    def _clustering(
        self, scope: RewriteScope, groups: Sequence[Group], small: int, sort: Sequence[str] = ()
    ) -> dict[str, str]:
        """Hudi chooses the files itself: of the partitions that have some to choose, so many bytes."""
        chosen = {file.path for group in groups for file in group}
        partitions = {file.partition for file in latest_files(self.records) if _plain(file.path) in chosen}
        return clustering_options(scope.target, small, sort) | bounding_options(sorted(partitions), scope.max_bytes)

    def _clustered(self, columns: Sequence[str]) -> set[str]:
        """The files that a rewrite has sorted by these columns."""
        by = json.dumps(list(columns))
        sorting = {i.requested for i in self.records.completed() if self.records.commit(i).notes.get(CLUSTERED) == by}
        return {_plain(file.path) for file in latest_files(self.records) if instant_of(file.name) in sorting}

    def _partition(self, file: HudiFile) -> dict[str, str | None]:
        return partition_values(file.partition, self.table.layout().partition_by)

    def _serviced(self, options: dict[str, str], service: Callable[[SparkSession, Any], None]) -> Rewrite | None:
        """Hudi refuses writes to files whose rewrite is planned: the lock is held from the plan to the commit."""

        def call() -> None:
            with self.table.client(options) as client:
                service(self.table.spark, client)

        def restore(before: Version, after: Version) -> None:
            with self.table.client({}) as client:
                maintenance.roll_back(client, str(after))

        with writing(self.table.address):
            return checked_call(self.table, call, self._rows_of, restore)

    def _rows_of(self, version: Version, files: Sequence[DataFile]) -> DataFrame:
        if self.records.merge_on_read:
            return in_partitions(self.table.read(version), files)
        spark, partition_by = self.table.spark, self.table.layout().partition_by
        records = HudiTimeline(spark, self.records.path)
        return read_base_files(spark, records, [file.path for file in files], self.table.schema(), partition_by)


def latest_files(records: HudiTimeline) -> list[HudiFile]:
    """The files of the latest version."""
    versions = records.versions()
    return records.live(versions[-1].requested) if versions else []


def _plain(path: str) -> str:
    """A file's path as `files` tells it."""
    return path.removeprefix("file:") if path.startswith("file:/") else path
