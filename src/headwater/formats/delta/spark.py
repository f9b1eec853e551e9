"""A Delta table through Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, TerminalError
from headwater.core.model import WEIGHT, At, Commit, CommitTag, DataFile, Expiry, Rewrite, TableStats, Version
from headwater.core.quotes import backticked, spark_text
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, Format, LakeContext
from headwater.formats.delta import erasure, touched
from headwater.formats.delta.bounds import COLUMNS as BOUNDED
from headwater.formats.delta.bounds import bounds
from headwater.formats.delta.first_write import FirstWrite
from headwater.formats.delta.log import LiveFile, TransactionLog
from headwater.formats.delta.maintenance import DeltaRewrite, clustered, is_data, needed_paths
from headwater.formats.delta.properties import FEED, LAYOUT, MAPPING, OLDEST, PHYSICAL, WENT
from headwater.formats.evolution import can_widen, cannot_retype
from headwater.formats.maintenance.orphans import expired, find, inside, reading_references
from headwater.formats.maintenance.rewrite import RewriteScope
from headwater.formats.merge import merge_sql
from headwater.formats.merge_hints import MergeHints
from headwater.formats.spark_table import SparkTable
from headwater.formats.stats import table_stats
from headwater.schema.changes import Retype, schema_changes
from headwater.schema.types import to_ddl
from headwater.spark.frames import column, settings, signed, temp_view
from headwater.spark.internals import java, java_session, query_execution

NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_NEEDS_MAPPING = set(" ,;{}()\n\t=")


class DeltaTable(SparkTable):
    """By path. Versions are Delta's own; changes come from its change data feed."""

    merges = True

    def __init__(self, format: Format, spark: SparkSession, address: Address, context: LakeContext) -> None:
        super().__init__(format, spark, address, context)
        self._log = TransactionLog(spark, self.path)

    @property
    def path(self) -> str:
        if self.address.path is None:
            raise TerminalError(Code.USAGE, f"a Delta table has a path, not a name ({self.address})")
        return self.address.path

    @property
    def _name(self) -> str:
        return f"delta.{backticked(self.path)}"

    # --- being there

    def exists(self) -> bool:
        return self._log.exists()

    def _create(self, schema: StructType, layout: Layout) -> None:
        self._log.clear_unborn()
        properties = _properties(schema, layout)
        columns = to_ddl(self.spark, schema)
        partitioned = ", ".join(backticked(p) for p in layout.partition_by)
        clause = f" PARTITIONED BY ({partitioned})" if partitioned else ""
        self.spark.sql(f"CREATE TABLE {self._name} ({columns}) USING delta{clause} {_tblproperties(properties)}")

    def _create_with(self, df: DataFrame, layout: Layout, commit_tag: CommitTag | None) -> Version:
        """One commit: an empty version before it would cost as much as a step."""
        properties = _properties(df.schema, layout)
        self._log.clear_unborn()
        begun = FirstWrite(self.address, self.context)
        if begun.left_over:  # a first write was cut off, and Delta takes its files for somebody's table
            begun.create(df.schema, layout, properties)
            return self._append(self._aligned(df), commit_tag)
        if MAPPING in properties:  # Delta does not let a table with a change feed begin so
            return super()._create_with(df, layout, commit_tag)
        begun.note()
        writer = df.writeTo(self._name).using("delta")
        for name, value in properties.items():
            writer = writer.tableProperty(name, value)
        if layout.partition_by:
            writer = writer.partitionedBy(*map(column, layout.partition_by))
        with settings(df.sparkSession, parquet_settings(layout) | _with_tag(commit_tag)):
            writer.create()
        begun.forget()
        return self._made_by(commit_tag)

    def drop(self) -> None:
        jvm = java(self.spark)
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(self.path)
        path.getFileSystem(java_session(self.spark).sessionState().newHadoopConf()).delete(path, True)
        TransactionLog.forget(self.spark, self.path)

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self._log.described().schema().json()))

    def layout(self) -> Layout:
        stored = self._log.properties().get(LAYOUT)
        if stored is not None:
            return Layout.model_validate_json(stored)
        return Layout(partition_by=tuple(self._log.partition_columns()))

    # --- writing

    def _append(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        return self._write(df, "append", commit_tag)

    def _replace(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        return self._write(df, "overwrite", commit_tag)

    def _write(self, df: DataFrame, mode: str, commit_tag: CommitTag | None) -> Version:
        writer = df.write.format("delta").mode(mode)
        if commit_tag is not None:
            writer = writer.option("txnAppId", commit_tag.writer).option("txnVersion", commit_tag.step)
            writer = writer.option("userMetadata", commit_tag.to_json())
        with settings(df.sparkSession, self.file_settings()):
            writer.save(self.path)
        return self._made_by(commit_tag)

    def _merge(self, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None, known: MergeHints) -> Version:
        conf = self.file_settings()
        if known.persisted:
            # Else Delta copies the rows first: they might be others at the second reading.
            conf["spark.databricks.delta.merge.materializeSource"] = "none"
        with settings(df.sparkSession, conf | _with_tag(commit_tag)), temp_view(df) as source:
            df.sparkSession.sql(merge_sql(self._name, source, self.schema().names, keys, known))
        return self._made_by(commit_tag)

    def _remove(self, where: str, commit_tag: CommitTag) -> Version:
        """Whole files go by the log alone; only those that keep some rows are written again."""
        with settings(self.spark, self.file_settings() | _with_tag(commit_tag)):
            self.spark.sql(f"DELETE FROM {self._name} WHERE {where}")
        return self._made_by(commit_tag)

    def _landed(self, commit_tag: CommitTag) -> Version | None:
        step = self._log.step_of(commit_tag.writer)
        if step is None or step < commit_tag.step:
            return None
        return self._made_by(commit_tag)

    def _made_by(self, commit_tag: CommitTag | None) -> Version:
        """The version of a step that is known to have landed."""
        if commit_tag is not None:
            for commit in self._log.commits():
                if commit.commit_tag is not None and commit.commit_tag.same_step(commit_tag):
                    return commit.version
        return self._log.version()

    def file_settings(self) -> dict[str, str]:
        """Delta's writer takes Parquet options from the session alone."""
        return parquet_settings(self.layout())

    # --- reading

    def version(self) -> Version | None:
        version = self._log.version()
        return None if version < 0 else version

    def version_at(self, at: At) -> Version:
        if isinstance(at, datetime):
            for commit in self.history():
                if commit.committed_at <= at:
                    return commit.version
            raise self._no_such_version(at)
        if at != self._log.version() and not self._is_there(at):
            raise self._no_such_version(at)
        return at

    def _is_there(self, version: Version) -> bool:
        if not 0 <= version <= self._log.version():
            return False
        properties = self._log.properties()
        if LAYOUT not in properties:
            return version >= self._log.oldest()
        # Spark alone looks after our logs, and keeps what is needed to read the commits that it keeps: no listing.
        return version >= int(properties.get(OLDEST, 0)) and self._log.commit_info(version) is not None

    def _oldest(self) -> Version:
        return max(int(self._log.properties().get(OLDEST, 0)), self._log.oldest())

    def commits_between(self, start: Version | None, end: Version) -> int | None:
        return end - (-1 if start is None else start)

    def versions_after(self, version: Version | None) -> list[Version]:
        return list(range(self._oldest() if version is None else version + 1, self._log.version() + 1))

    def committed_at(self, version: Version) -> datetime | None:
        return self._log.committed_at(version)

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        return touched.appending(Files(self.path, self.context.storage), versions)

    def _read(self, version: Version | None) -> DataFrame:
        version = self._log.version() if version is None else version
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def _changes(self, start: Version | None, end: Version) -> DataFrame:
        end = self.version_at(end)
        if start is None:
            return signed(self._read(end), 1)
        start = self.version_at(start)
        latest = end == self._log.version()
        columns = [column(name) for name in (self.schema().names if latest else self._read(end).columns)]
        if start == end:
            return signed(self._read(end).limit(0), 1)
        feed = self._feed(start, end) if start < end else None
        if feed is None:
            return touched.changes(self.spark, self._log, start, end)
        went = F.col("_change_type").isin(*WENT)
        return feed.select(*columns, F.when(went, -1).otherwise(1).alias(WEIGHT))

    def _feed(self, start: Version, end: Version) -> DataFrame | None:
        """The change data feed of (start, end], or None where the table does not have it for that range."""
        properties = self._log.properties()
        if properties.get(FEED) != "true":
            return None
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        try:
            feed = reader.option("startingVersion", start + 1).option("endingVersion", end).load(self.path)
            if LAYOUT not in properties:
                # Whether all versions have it, and the schema stayed, is found out only when the feed is planned.
                query_execution(feed).executedPlan()
            return feed
        except AnalysisException as error:
            if "CHANGE_DATA" in (error.getErrorClass() or ""):
                return None
            raise

    def history(self, limit: int | None = None) -> list[Commit]:
        oldest = int(self._log.properties().get(OLDEST, 0))
        commits: list[Commit] = []
        for commit in self._log.commits():
            if commit.version < oldest or (limit is not None and len(commits) == limit):
                break
            commits.append(commit)
        return commits

    def _read_stream(self, changes: bool, start: At | None, consumer: str) -> DataFrame:
        if self._log.properties().get(FEED) != "true":
            return self._plain_stream(changes, start)
        reader = self.spark.readStream.format("delta").option("readChangeFeed", "true")
        if start is not None:
            reader = reader.option("startingVersion", self.version_at(start) + 1)
        feed = reader.load(self.path)
        columns = [column(name) for name in self.schema().names]
        went = F.col("_change_type").isin(*WENT)
        if changes:
            return feed.select(*columns, F.when(went, -1).otherwise(1).alias(WEIGHT))
        return feed.where(~went).select(*columns)

    def _plain_stream(self, changes: bool, start: At | None) -> DataFrame:
        """Somebody else's table without a change data feed: appends only, and Delta stops at anything else."""
        reader = self.spark.readStream.format("delta")
        if start is not None:
            reader = reader.option("startingVersion", self.version_at(start) + 1)
        rows = reader.load(self.path)
        return signed(rows, 1) if changes else rows

    # --- evolving and looking after

    def _evolve(self, schema: StructType) -> None:
        found = list(schema_changes(self.schema(), schema))
        for change in found:
            if isinstance(change, Retype) and not can_widen(self.format, change.old, change.new):
                raise cannot_retype(self.format, self.address, change)
        if not found:
            return
        if _odd_names(schema):
            self._set_properties({MAPPING: "name"})
        nothing = self.spark.createDataFrame([], schema)
        nothing.write.format("delta").mode("append").option("mergeSchema", "true").save(self.path)
        bounded = bounds(self.schema(), self.layout())
        if bounded and BOUNDED not in self._log.properties():
            self._set_properties(bounded)

    def _set_properties(self, properties: dict[str, str]) -> None:
        self.spark.sql(f"ALTER TABLE {self._name} SET {_tblproperties(properties)}")

    def _unset_properties(self, names: Sequence[str]) -> None:
        self.spark.sql(f"ALTER TABLE {self._name} UNSET TBLPROPERTIES ({', '.join(map(spark_text, names))})")

    def _renew(self, rows: DataFrame) -> Version:
        newest = {c.commit_tag.flow: c.commit_tag for c in reversed(self.history()) if c.commit_tag is not None}
        self._replace(rows, None)
        properties = erasure.before_checkpoint(self._log.properties())
        for commit_tag in newest.values() or [None]:
            # Only the note: that the step has landed the table knows, and takes it for another try of it.
            note = {} if commit_tag is None else {NOTE: commit_tag.to_json()}
            with settings(self.spark, note):
                self._set_properties(properties)
        self._log.checkpoint()
        return self._log.version()

    def _erase_past(self) -> list[Version]:
        oldest = self._log.version()
        gone = self._expire(datetime.now(timezone.utc), frozenset(), dry_run=False)
        self._erase_orphans()
        erasure.erase_log(Files(self.path, self.context.storage), oldest)
        back, unset = erasure.after_erasure(self._log.properties())
        if back:
            self._set_properties(back)
        if unset:
            self._unset_properties(unset)
        TransactionLog.forget(self.spark, self.path)
        self._log = TransactionLog(self.spark, self.path)
        return list(gone.versions)

    def _compact(self, scope: RewriteScope) -> Rewrite | None:
        rewrite = self._rewrite()
        return rewrite.run(scope.compaction(live.file for live in rewrite.live), scope)

    def _cluster(self, columns: Sequence[str], scope: RewriteScope) -> Rewrite | None:
        rewrite = self._rewrite()
        groups = scope.clustering((live.file for live in rewrite.live), clustered(rewrite.live, columns))
        return rewrite.run(groups, scope, columns)

    def _rewrite(self) -> DeltaRewrite:
        snapshot = self._log.snapshot()
        return DeltaRewrite(self, self._log, snapshot, self._live(snapshot))

    def _expire(self, older_than: datetime, keep: frozenset[Version], dry_run: bool) -> Expiry:
        history = self.history()
        kept = {history[0].version, *keep}
        kept |= {c.version for c in history if c.committed_at >= older_than}
        # a version can only be read, and changes after it computed, if all that follow it are there too
        oldest, latest = min(kept), history[0].version
        gone = [commit.version for commit in history if commit.version < oldest]
        if not gone:
            return Expiry()
        with reading_references(self.address):
            needed = needed_paths(self, self._log, oldest, latest)
            first = max(min(gone), self._log.oldest())  # what Delta has forgotten by itself left orphans
            going = needed_paths(self, self._log, first, oldest - 1) if first < oldest else set()
        if not dry_run:
            self._set_properties({OLDEST: str(oldest)})
        return expired(self.folder(), gone, going - needed, dry_run=dry_run)

    def _orphans(self, older_than: datetime) -> list[DataFile]:
        with reading_references(self.address):
            latest = self._log.version()
            needed = needed_paths(self, self._log, self._oldest(), latest)
            live = {inside(self.folder(), file.path) for file in self._files(None)}
        found = (path for path in live if path is not None)
        return find(self.address, self.folder(), needed, found, older_than, is_data)

    def _optimize_metadata(self) -> bool:
        return self._log.checkpoint()

    def folder(self) -> Files:
        return Files(self.path, self.context.storage)

    def _files(self, version: Version | None) -> list[DataFile]:
        return [live.file for live in self._live(self._log.snapshot() if version is None else self._log.at(version))]

    def _live(self, snapshot: Any) -> list[LiveFile]:
        names = {physical: name for name, physical in self._physical_names().items()}
        found = self._log.live(self.path, snapshot)
        if all(physical == name for physical, name in names.items()):
            return found
        told = [{names.get(k, k): v for k, v in live.file.partition.items()} for live in found]
        return [replace(x, file=replace(x.file, partition=p)) for x, p in zip(found, told, strict=True)]

    def _stats(self) -> TableStats:
        return table_stats(self, named=self._physical_names())

    def _physical_names(self) -> dict[str, str]:
        """What each column is called in files."""
        fields = json.loads(self._log.described().schema().json())["fields"]
        return {field["name"]: field["metadata"].get(PHYSICAL, field["name"]) for field in fields}


def _properties(schema: StructType, layout: Layout) -> dict[str, str]:
    properties = {LAYOUT: layout.model_dump_json(), FEED: "true", **bounds(schema, layout), **layout.options}
    if _odd_names(schema):
        properties[MAPPING] = "name"
    return properties


def _with_tag(commit_tag: CommitTag | None) -> dict[str, str]:
    """The tag of a commit as settings of the session, where a statement takes no options."""
    if commit_tag is None:
        return {}
    return {
        "spark.databricks.delta.write.txnAppId": commit_tag.writer,
        "spark.databricks.delta.write.txnVersion": str(commit_tag.step),
        NOTE: commit_tag.to_json(),
    }


def parquet_settings(layout: Layout) -> dict[str, str]:
    """Parquet options as settings of the session that writes."""
    parquet = layout.parquet
    codecs = {"none": "uncompressed", "lz4": "lz4_raw", None: "zstd"}
    conf = {"spark.sql.parquet.compression.codec": codecs.get(parquet.compression, parquet.compression or "")}
    if parquet.row_group_size is not None:
        conf["parquet.block.size"] = str(parquet.row_group_size)
    if parquet.dictionary is not None:
        conf["parquet.enable.dictionary"] = str(parquet.dictionary).lower()
    for name in parquet.bloom_filter:
        conf[f"parquet.bloom.filter.enabled#{name}"] = "true"
    return conf


def _odd_names(schema: StructType) -> bool:
    return any(set(name) & _NEEDS_MAPPING for name in _all_names(schema))


def _all_names(schema: StructType) -> list[str]:
    names: list[str] = []
    for f in schema.fields:
        names.append(f.name)
        inner = f.dataType
        while hasattr(inner, "elementType"):
            inner = inner.elementType
        if isinstance(inner, StructType):
            names.extend(_all_names(inner))
    return names


def _tblproperties(properties: dict[str, str]) -> str:
    pairs = ", ".join(f"{spark_text(key)} = {spark_text(value)}" for key, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"
