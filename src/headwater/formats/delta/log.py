"""A Delta table's own log through Delta's classes: no Spark job, milliseconds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.model import Commit, DataFile, Version
from headwater.core.storage import as_pattern
from headwater.formats.delta.commits import commit_of, info_in, whole_path
from headwater.formats.delta.properties import CLUSTERED
from headwater.formats.delta.stamps import Stamp, stamp, text
from headwater.spark.internals import java, java_column, java_session
from headwater.spark.session import texts

_NEAR = 5


@dataclass(frozen=True)
class _Held:
    """A table's latest snapshot when it was last looked at."""

    snapshot: Any
    version: Version
    stamp: Stamp | None
    described: Version
    """No commit after it up to this one changed columns or properties."""


@dataclass(frozen=True)
class LiveFile:
    """A file of a snapshot."""

    path: str
    """As the log has it: encoded, and from the table's folder on."""
    file: DataFile
    clustered: str | None
    """By which columns a rewrite has sorted it."""


_VECTOR = "struct<storageType: string, pathOrInlineDv: string>"
_NAMING = f"add struct<path: string, deletionVector: {_VECTOR}>, cdc struct<path: string>"
"""The actions that name files, of all that a commit holds."""

_known: WeakKeyDictionary[SparkContext, dict[str, _Held]] = WeakKeyDictionary()
"""By the path of the table, for each Spark."""


class TransactionLog:
    """Versions, properties, writers' steps and commits of one table."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._known = _known.setdefault(spark.sparkContext, {})
        jvm: Any = java(spark)
        self._names: Any = jvm.org.apache.spark.sql.delta.util.FileNames
        self._log: Any = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), path)

    def snapshot(self) -> Any:
        """The latest snapshot, after a look at the storage."""
        return self._latest().snapshot

    def described(self) -> Any:
        """A snapshot whose columns and properties are the latest; its files may not be."""
        held = self._held()
        if held is None:
            return self.snapshot()
        for version in range(held.described + 1, self.version() + 1):
            said = text(self._path, version)
            if said is None or '"metaData":' in said or '"protocol":' in said:
                return self.snapshot()
            held = self._known[self._path] = replace(held, described=version)
        return held.snapshot

    def _held(self) -> _Held | None:
        """What was seen last, if it is still there."""
        held = self._known.get(self._path)
        return held if held is not None and held.stamp == stamp(self._path, held.version) else None

    def _latest(self) -> _Held:
        """Delta lists the whole log to see that nothing is new; on a local disk one look at the next commit tells."""
        held = self._held()
        if held is not None and stamp(self._path, held.version + 1) is None:
            return held
        defaults = [getattr(self._log, f"update$default${n}")() for n in (2, 3)]
        snapshot = self._log.update(False, *defaults)
        version = int(snapshot.version())
        held = _Held(snapshot, version, stamp(self._path, version), version)
        if held.stamp is not None:
            self._known[self._path] = held
        return held

    def at(self, version: Version) -> Any:
        """The snapshot of a version that is still there."""
        latest = self.snapshot()
        if version == latest.version():
            return latest
        defaults = [getattr(self._log, f"getSnapshotAt$default${n}")() for n in (2, 3)]
        return self._log.getSnapshotAt(version, *defaults)

    def oldest(self) -> Version:
        """The oldest version that the log can still tell the files of; it forgets by itself, after thirty days."""
        return int(self._log.history().getEarliestRecreatableCommit())

    def rows(self, snapshot: Any, actions: Sequence[str]) -> DataFrame:
        """The rows of some files, each as the action that added it, under a snapshot's schema."""
        jvm: Any = java(self._spark)
        files = jvm.java.util.ArrayList()
        for action in actions:
            files.add(jvm.org.apache.spark.sql.delta.actions.Action.fromJson(action))
        chosen = jvm.scala.collection.JavaConverters.asScalaBuffer(files).toSeq()
        defaults = [getattr(self._log, f"createDataFrame$default${n}")() for n in (3, 4)]
        return DataFrame(self._log.createDataFrame(snapshot, chosen, *defaults), self._spark)

    def version(self) -> Version:
        held = self._held()
        if held is None:
            return self._latest().version
        version = held.described
        while stamp(self._path, version + 1) is not None:
            version += 1
        return version

    def exists(self) -> bool:
        return self.version() >= 0

    def clear_unborn(self) -> None:
        """Take away what a creation that never committed has left: Delta takes its folders for a table."""
        folder = self._log.logPath()
        storage = folder.getFileSystem(self._log.newDeltaHadoopConf())
        if not storage.exists(folder):
            return
        for found in storage.listStatus(folder):
            if found.isDirectory() or found.getPath().getName().startswith("."):
                _delete_empty(storage, found.getPath())
        _delete_empty(storage, folder)

    def properties(self) -> dict[str, str]:
        return texts(self.described().metadata().configuration())

    def partition_columns(self) -> list[str]:
        columns = self.described().metadata().partitionColumns()
        return [columns.apply(i) for i in range(columns.size())]

    def step_of(self, writer: str) -> int | None:
        """The last step that this writer committed."""
        # Mostly it was one of the last commits. The whole list of writers is a Spark job after each foreign commit.
        for commit in islice(self.commits(), _NEAR):
            if commit.commit_tag is not None and commit.commit_tag.writer == writer:
                return commit.commit_tag.step
            if commit.version == 0:
                return None  # these were all
        found = self.snapshot().transactions().get(writer)
        return None if found.isEmpty() else int(found.get())

    def commits(self) -> Iterator[Commit]:
        """Newest first, down to the oldest that the log still has."""
        version = self.version()
        while version >= 0:
            info = self.commit_info(version)
            if info is None:
                return
            yield commit_of(version, info)
            version -= 1

    def committed_at(self, version: Version) -> datetime | None:
        info = self.commit_info(version)
        return None if info is None else commit_of(version, info).committed_at

    def commit_info(self, version: Version) -> dict[str, Any] | None:
        """What a commit says of itself; None where the log no longer has it."""
        said = text(self._path, version) or self._said(version)
        return None if said is None else info_in(said)

    def _said(self, version: Version) -> str | None:
        file = self._names.unsafeDeltaFile(self._log.logPath(), version)
        try:
            return str(self._log.store().read(file, self._log.newDeltaHadoopConf()).mkString("\n"))
        except Py4JJavaError as error:
            if "FileNotFoundException" in error.java_exception.getClass().getName():
                return None
            raise

    def live(self, root: str, snapshot: Any) -> list[LiveFile]:
        """The files of a snapshot, as the log and as people name them."""
        rows = DataFrame(snapshot.allFiles().toDF(), self._spark)
        told = "path", "size", F.get_json_object("stats", "$.numRecords"), "partitionValues"
        more = "deletionVector.cardinality", "modificationTime", F.col("tags").getItem(CLUSTERED)
        return [
            LiveFile(
                path,
                DataFile(
                    path=whole_path(root, path),
                    bytes=size,
                    rows=None if count is None else int(count),
                    partition=values,
                    deleted_rows=deleted or 0,
                    committed_at=datetime.fromtimestamp(modified / 1000, timezone.utc),
                ),
                clustered,
            )
            for path, size, count, values, deleted, modified, clustered in rows.select(*told, *more).collect()
        ]

    def actions(self, snapshot: Any, paths: Collection[str]) -> list[str]:
        """The actions that added these files, by their paths in the log."""
        chosen = F.col("path").isin(*paths)
        return [str(action.json()) for action in snapshot.allFiles().filter(java_column(chosen)).collect()]

    def begin(self, snapshot: Any) -> Any:
        """A transaction on a snapshot."""
        option: Any = java(self._spark).scala.Option
        return self._log.startTransaction(option.empty(), option.apply(snapshot))

    def checkpoint(self) -> bool:
        """Write the state at the latest version into one file, unless there is one."""
        snapshot = self.snapshot()
        # A snapshot that was there before the checkpoint does not tell of it.
        last = self._log.readLastCheckpointFile()
        if last.isDefined() and last.get().version() == snapshot.version():
            return False
        if snapshot.logSegment().checkpointProvider().version() == snapshot.version():
            return False
        self._log.checkpoint(snapshot, getattr(self._log, "checkpoint$default$2")())
        return True

    def named(self, versions: range) -> DataFrame:
        """What the commits of these versions name: `path`, `change`, and `vector` as its kind, its path, its offset.

        All of them are read or none: a commit that is cut or gone is an error.
        """
        folder = str(self._log.logPath().toString())
        paths = [as_pattern(f"{folder}/{version:020d}.json") for version in versions]
        reader = self._spark.read.schema(_NAMING).option("mode", "FAILFAST").option("ignoreMissingFiles", "false")
        return reader.json(paths)

    @staticmethod
    def forget(spark: SparkSession, path: str) -> None:
        """Drop the cached log of a path whose table is gone."""
        jvm: Any = java(spark)
        _known.get(spark.sparkContext, {}).pop(path, None)
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(java_session(spark), hadoop_path)


def _delete_empty(storage: Any, path: Any) -> None:
    """Delete a file, or a folder with nothing in it: one that another process has begun to fill stays."""
    with suppress(Py4JJavaError):
        storage.delete(path, False)
