"""Hudi's own records of a table through its Java classes: properties, timeline, commits, live files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import SparkSession

from headwater.formats.hudi.commits import REPLACE, CommitRecord
from headwater.formats.hudi.instants import OLDEST, SCHEMA, Instant, readable
from headwater.formats.hudi.live_files import HudiFile
from headwater.spark.internals import java, java_context, java_session

_INSTANT = re.compile(r"\[(?:==>)?(\d+)__(?:(\d+)__)?(\w+?)__(COMPLETED|REQUESTED|INFLIGHT)\]")


class HudiTimeline:
    """One table's records, as they were when this was made."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = java(spark)
        self._spark = spark
        self._packages = jvm
        self._hudi = jvm.org.apache.hudi
        self.path = path
        self._client = (
            self._hudi.common.table.HoodieTableMetaClient.builder()
            .setConf(storage_conf(spark))
            .setBasePath(path)
            .build()
        )
        self._timeline = self._client.getActiveTimeline().getCommitsTimeline()
        self._instants = [
            Instant(requested, completed or None, action)
            for requested, completed, action, state in _INSTANT.findall(self._timeline.getInstants().toString())
        ]
        self._commits: dict[str, CommitRecord] = {}

    # --- properties

    def get(self, key: str) -> str | None:
        value = self._client.getTableConfig().getProps().getProperty(key)
        return None if value is None else str(value)

    @property
    def properties(self) -> dict[str, str]:
        """All of them, by name."""
        return dict(self._client.getTableConfig().propsMap())

    def set(self, properties: Mapping[str, str]) -> None:
        """Change the table's own properties; Hudi keeps a backup alongside them until it is done."""
        changed = self._packages.java.util.Properties()
        for key, value in properties.items():
            changed.setProperty(key, value)
        self._hudi.common.table.HoodieTableConfig.update(self._client.getStorage(), self._client.getMetaPath(), changed)

    @property
    def ours(self) -> bool:
        """Whether Headwater made the table, so that its files are known to be as `columns` has them."""
        return self.get(SCHEMA) is not None

    @property
    def merge_on_read(self) -> bool:
        return self.get("hoodie.table.type") == "MERGE_ON_READ"

    @property
    def has_row_ids(self) -> bool:
        return self.get("hoodie.populate.meta.fields") != "false"

    # --- versions

    def completed(self) -> list[Instant]:
        """Every commit that the timeline still has, oldest first, readable or not."""
        return [i for i in self._instants if i.completed is not None]

    def pending(self) -> list[str]:
        """When the commits and services were begun that are not completed."""
        return [i.requested for i in self._instants if i.completed is None]

    def versions(self) -> list[Instant]:
        """The completed commits, oldest first, as far as nothing before them is still under way."""
        return readable(self._instants, max(self.get(OLDEST) or "", self._cleaned_before() or ""))

    def _cleaned_before(self) -> str | None:
        """The first commit that the last cleaning has left whole, if there was one."""
        last = self._client.getActiveTimeline().getCleanerTimeline().filterCompletedInstants().lastInstant()
        if not last.isPresent():
            return None
        retained = self._client.getActiveTimeline().readCleanMetadata(last.get()).getEarliestCommitToRetain()
        if retained and (self.merge_on_read or not self.ours):
            return str(retained)
        # the state just before the retained commits is left too, though Hudi's own reader refuses it; and a
        # cleaning by number of file versions, which names no commit, leaves the last state before it
        bound = retained or last.get().requestedTime()
        before = [i.requested for i in self.completed() if i.requested < bound]
        return before[-1] if before else None

    def committed_at(self, instant: Instant) -> datetime:
        return instant.committed_at(self._zone())

    def _zone(self) -> tzinfo:
        if self.get("hoodie.table.timeline.timezone") == "UTC":
            return timezone.utc
        return ZoneInfo(str(self._packages.java.time.ZoneId.systemDefault().getId()))

    # --- commits

    def commit(self, instant: Instant) -> CommitRecord:
        if instant.requested not in self._commits:
            self._commits[instant.requested] = self._read_commit(instant)
        return self._commits[instant.requested]

    def commit_of(self, requested: str) -> CommitRecord | None:
        """The commit of that time, or None if the timeline no longer has it."""
        found = [i for i in self.completed() if i.requested == requested]
        return self.commit(found[0]) if found else None

    def _read_commit(self, instant: Instant) -> CommitRecord:
        found = self._timeline.findInstantsInClosedRange(instant.requested, instant.requested)
        java = found.filterCompletedInstants().firstInstant().get()
        if instant.action == REPLACE:
            text = self._timeline.readReplaceCommitMetadata(java).toJsonString()
        else:
            text = self._timeline.readCommitMetadata(java).toJsonString()
        said = json.loads(text)
        return CommitRecord.of(said, instant.action)

    # --- files

    def live(self, version: str, partitions: Sequence[str] | None = None) -> list[HudiFile]:
        """The files of a state: of the whole table, or of some partitions."""
        view = self._view()
        listed = self._packages.java.util.stream.Collectors.toList()
        files: list[HudiFile] = []
        try:
            if partitions is None:
                streams = view.getAllLatestFileSlicesBeforeOrOn(version)
                found = [streams[partition] for partition in streams]
            else:
                found = [view.getLatestMergedFileSlicesBeforeOrOn(p, version) for p in partitions]
            for stream in found:
                text = self._hudi.common.util.JsonUtils.toString(stream.collect(listed))
                files.extend(file for piece in json.loads(text) for file in _slice_files(piece))
        finally:
            view.close()
        return files

    def _view(self) -> Any:
        if str(self._spark.sparkContext.master).startswith(
            "local"
        ):  # a Spark job to list each folder pays where others do the work
            engine = self._hudi.common.engine.HoodieLocalEngineContext(storage_conf(self._spark))
        else:
            engine = self._hudi.client.common.HoodieSparkEngineContext(java_context(self._spark))
        listing = self._hudi.common.config.HoodieMetadataConfig.newBuilder().enable(False).build()
        return self._hudi.common.table.view.FileSystemViewManager.createInMemoryFileSystemViewWithTimeline(
            engine, self._client, listing, self._timeline.filterCompletedInstants()
        )

    def full_path(self, relative: str) -> str:
        return f"{self.path.rstrip('/')}/{relative}"


def storage_conf(spark: SparkSession) -> Any:
    """The session's Hadoop settings as Hudi wants them."""
    jvm: Any = java(spark)
    return jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop_conf(spark))


def hadoop_conf(spark: SparkSession) -> Any:
    return java_session(spark).sessionState().newHadoopConf()


def _slice_files(piece: Mapping[str, Any]) -> Iterator[HudiFile]:
    group = piece["fileGroupId"]
    base = piece.get("baseFile")
    if base:
        yield HudiFile(group["partitionPath"], group["fileId"], base["path"], base["fileSize"])
    for log in piece.get("logFiles") or ():
        yield HudiFile(group["partitionPath"], group["fileId"], log["pathStr"], log["fileSize"], is_log=True)
