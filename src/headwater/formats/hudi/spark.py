"""A Hudi table through Spark: by path, with the DataFrame API and Hudi's Java classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.model import WEIGHT, At, Commit, CommitTag, DataFile, Expiry, Rewrite, TableStats, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files, to_spark_uri
from headwater.formats.evolution import can_widen, cannot_retype
from headwater.formats.footers import column_bytes
from headwater.formats.hudi import maintenance
from headwater.formats.hudi.changes import ROW_ID, compared, partnerless, touched_files
from headwater.formats.hudi.columns import from_stored
from headwater.formats.hudi.commits import landed
from headwater.formats.hudi.files import read_base_files
from headwater.formats.hudi.instants import LAYOUT, OLDEST, SCHEMA, Instant
from headwater.formats.hudi.keys import RECORD_KEY, check_keys, record_key, refused_keys
from headwater.formats.hudi.live_files import data_files
from headwater.formats.hudi.names import stored_name
from headwater.formats.hudi.options import (
    OPERATION,
    commit_tag_options,
    key_generator,
    write_options,
)
from headwater.formats.hudi.rewrite import HudiRewrite, latest_files
from headwater.formats.hudi.rows import prepared, prepared_schema
from headwater.formats.hudi.stored_layout import TABLE_TYPE, layout_of
from headwater.formats.hudi.timeline import HudiTimeline, hadoop_conf, storage_conf
from headwater.formats.maintenance.orphans import find, reading_references
from headwater.formats.maintenance.rewrite import RewriteScope
from headwater.formats.spark_table import SparkTable
from headwater.formats.stats import table_stats
from headwater.schema.changes import Retype, schema_changes
from headwater.schema.merge import retyped
from headwater.spark.frames import column, signed
from headwater.spark.internals import java, java_session

OWN = "_hoodie_"


class HudiSparkTable(SparkTable):
    """Versions are the times at which commits were begun; a commit under way is none yet."""

    @property
    def path(self) -> str:
        if self.address.path is None:
            raise TerminalError(Code.USAGE, f"a Hudi table has a path, not a name ({self.address})")
        return self.address.path

    @property
    def _uri(self) -> str:
        return to_spark_uri(self.path)

    @property
    def _name(self) -> str:
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def _own_files(self) -> Files:
        return Files(self.path, self.context.storage)

    @property
    def _packages(self) -> Any:
        return java(self.spark)

    def _records(self) -> HudiTimeline:
        if not self.exists():
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Hudi table at {self.path}")
        return HudiTimeline(self.spark, self._uri)

    def _own_records(self) -> HudiTimeline:
        """To change the table: its ordering, keys and paths are as this module wants them only where it made it."""
        records = self._records()
        if not records.ours:
            raise Unsupported(f"{self.address} was made by another writer of Hudi: it can be read, not changed")
        return records

    # --- being there

    def exists(self) -> bool:
        found = self._packages.org.apache.hadoop.fs.Path(f"{self._uri}/.hoodie/hoodie.properties")
        return bool(found.getFileSystem(hadoop_conf(self.spark)).exists(found))

    def _create(self, schema: StructType, layout: Layout) -> None:
        taken = [name for name in schema.names if name.startswith(OWN) or name == RECORD_KEY]
        if taken:
            raise Unsupported(f"column '{taken[0]}': names with {OWN}, and {RECORD_KEY}, are not for users' columns")
        check_keys(schema, layout.keys)
        hudi = self._packages.org.apache.hudi
        builder = (
            hudi.common.table.HoodieTableMetaClient.newTableBuilder()
            .setTableType(layout.options.get(TABLE_TYPE, "COPY_ON_WRITE"))
            .setTableName(self._name)
            .setTableCreateSchema(self._avro(schema, layout))
            .setCommitTimezone(hudi.common.model.HoodieTimelineTimeZone.UTC)
            .setRecordMergeMode(hudi.common.config.RecordMergeMode.COMMIT_TIME_ORDERING)
            .setKeyGeneratorType(key_generator(layout.partition_by))
            .setHiveStylePartitioningEnable(True)
            .setUrlEncodePartitioning(True)
        )
        key = record_key(schema, layout.keys)
        if key is not None:
            builder = builder.setRecordKeyFields(key)
        if layout.partition_by:
            builder = builder.setPartitionFields(",".join(map(stored_name, layout.partition_by)))
        properties = builder.build()
        properties.setProperty(SCHEMA, schema.json())
        properties.setProperty(LAYOUT, layout.model_dump_json())
        version = int(properties.getProperty("hoodie.timeline.layout.version"))
        where = hudi.storage.StoragePath(self._uri)
        hudi.common.table.HoodieTableMetaClient.createTableLayoutOnStorage(
            storage_conf(self.spark), where, properties, version, True
        )

    def drop(self) -> None:
        from headwater.formats.feed import drop_feeds

        drop_feeds(self)
        path = self._packages.org.apache.hadoop.fs.Path(self._uri)
        path.getFileSystem(hadoop_conf(self.spark)).delete(path, True)

    def schema(self) -> StructType:
        return self._schema(self._records())

    def _schema(self, records: HudiTimeline) -> StructType:
        stored = records.get(SCHEMA)
        if stored is not None:
            return StructType.fromJson(json.loads(stored))
        found = self.spark.read.format("hudi").load(self._uri).schema
        return StructType([f for f in found.fields if not f.name.startswith(OWN)])

    def layout(self) -> Layout:
        return self._layout(self._records())

    def _layout(self, records: HudiTimeline) -> Layout:
        return layout_of(records.properties)

    def _avro(self, schema: StructType, layout: Layout) -> str:
        java_type = java_session(self.spark).parseDataType(prepared_schema(schema, layout).json())
        utils = self._packages.org.apache.hudi.HoodieSchemaConversionUtils
        named = utils.getRecordNameAndNamespace(self._name)
        return str(utils.convertStructTypeToHoodieSchema(java_type, named._1(), named._2()).toString())

    # --- writing

    def _append(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        return self._write(df, "upsert" if self.layout().keys else "bulk_insert", commit_tag)

    def _upsert(self, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        own = self.layout().keys
        if set(keys) != set(own):
            raise Unsupported(
                f"{self.address} can't be upserted by ({', '.join(keys)})",
                hint=f"a Hudi table has the keys it was made with: {', '.join(own) or 'none'}",
            )
        return self._write(df, "upsert", commit_tag)

    def _replace(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        return self._write(df, "insert_overwrite_table", commit_tag)

    def _write(self, df: DataFrame, operation: str, commit_tag: CommitTag | None) -> Version:
        records = self._own_records()
        layout, schema = self._layout(records), self._schema(records)
        rows = prepared(df, schema, layout)
        options = {**self._options(layout, schema), **commit_tag_options(commit_tag), OPERATION: operation}
        with refused_keys(self.address, layout.keys):
            rows.write.format("hudi").options(**options).mode("append").save(self._uri)
        return self._records().versions()[-1].version

    def _options(self, layout: Layout, schema: StructType) -> dict[str, str]:
        key = record_key(schema, layout.keys)
        return write_options(self._name, layout, key, self.spark.sparkContext.defaultParallelism)

    def _landed(self, commit_tag: CommitTag) -> Version | None:
        records = self._records()
        return landed(reversed(records.completed()), records.commit, commit_tag)

    # --- reading

    def version(self) -> Version | None:
        versions = self._records().versions()
        return versions[-1].version if versions else None

    def version_at(self, at: At) -> Version:
        return self._instant_at(self._records(), at).version

    def _instant_at(self, records: HudiTimeline, at: At) -> Instant:
        for instant in reversed(records.versions()):
            if instant.version == at if isinstance(at, int) else records.committed_at(instant) <= at:
                return instant
        raise self._no_such_version(at)

    def _read(self, version: Version | None) -> DataFrame:
        records = self._records()
        if version is None:
            versions = records.versions()
            if not versions:
                return self.spark.createDataFrame([], self._schema(records))
            version = versions[-1].version
        return self.state(records, str(version))

    def state(self, records: HudiTimeline, version: str, *keep: str) -> DataFrame:
        """The rows at a version, with some of Hudi's own columns if asked for."""
        schema = self._schema(records)
        if records.ours and not records.merge_on_read:
            paths = [file.path for file in records.live(version)]
            partition_by = self._layout(records).partition_by
            return read_base_files(self.spark, records, paths, schema, partition_by, *keep)
        merged_rows = self.spark.read.format("hudi").option("as.of.instant", version).load(self._uri)
        if not records.ours:
            there = set(merged_rows.columns)
            values = ((column(f.name) if f.name in there else F.lit(None), f) for f in schema.fields)
            return merged_rows.select(*map(column, keep), *(v.cast(f.dataType).alias(f.name) for v, f in values))
        return from_stored(merged_rows, schema, *keep)

    def _changes(self, start: Version | None, end: Version) -> DataFrame:
        records = self._records()
        last = self._instant_at(records, end)
        if start is None:
            return signed(self.state(records, last.requested), 1)
        first = self._instant_at(records, start)
        if first.version > last.version:
            forward = self._between(records, last, first)
            return forward.withColumn(WEIGHT, -column(WEIGHT))
        return self._between(records, first, last)

    def _between(self, records: HudiTimeline, first: Instant, last: Instant) -> DataFrame:
        commits = [i for i in records.versions() if first.requested < i.requested <= last.requested]
        if all(records.commit(i).moves_only for i in commits):
            return signed(self.spark.createDataFrame([], self._schema(records)), 1)
        if records.merge_on_read or not records.ours:
            return self._compare_states(records, first, last)
        went, came = touched_files(records, commits)
        if not went:
            return signed(self._base_rows(records, came), 1)
        pair = self._base_rows(records, went, *ROW_ID), self._base_rows(records, came, *ROW_ID)
        return compared(*pair) if any(records.commit(i).replaced for i in commits) else partnerless(*pair)

    def _compare_states(self, records: HudiTimeline, first: Instant, last: Instant) -> DataFrame:
        # Another writer's merging may give a row new values under the number that it had.
        keep = ROW_ID if records.has_row_ids and records.ours else ()
        old, new = (self.state(records, i.requested, *keep) for i in (first, last))
        return partnerless(old, new) if keep else compared(old, new)

    def _base_rows(self, records: HudiTimeline, paths: Sequence[str], *keep: str) -> DataFrame:
        full = [records.full_path(path) for path in paths]
        schema, partition_by = self._schema(records), self._layout(records).partition_by
        return read_base_files(self.spark, records, full, schema, partition_by, *keep)

    def history(self, limit: int | None = None) -> list[Commit]:
        records = self._records()
        newest = records.versions()[::-1][:limit]
        return [records.commit(instant).as_version(instant, records.committed_at(instant)) for instant in newest]

    def versions_after(self, version: Version | None) -> list[Version]:
        return [i.version for i in self._records().versions() if version is None or i.version > version]

    def committed_at(self, version: Version) -> datetime | None:
        return None  # a version is the time that its commit was begun at

    def _read_stream(self, changes: bool, start: At | None, consumer: str) -> DataFrame:
        from headwater.formats.feed import open_feed

        # Hudi's own source has not been tried against our tests; the feed passes them, updates and replaces included
        return open_feed(self, changes=changes, start=start, consumer=consumer)

    # --- evolving and looking after

    def _evolve(self, schema: StructType) -> None:
        """The files follow with the next commit; until then, and in old rows, new columns are NULL."""
        records = self._own_records()
        now = self._schema(records)
        for change in schema_changes(now, schema):
            if isinstance(change, Retype) and not can_widen(self.format, change.old, change.new):
                raise cannot_retype(self.format, self.address, change)
        wanted = retyped(now, schema)
        if wanted != now:
            records.set({SCHEMA: wanted.json()})

    def _compact(self, scope: RewriteScope) -> Rewrite | None:
        return HudiRewrite(self, self._own_records()).compact(scope)

    def _cluster(self, columns: Sequence[str], scope: RewriteScope) -> Rewrite | None:
        return HudiRewrite(self, self._own_records()).cluster(scope, columns)

    def client(self, options: dict[str, str]) -> Any:
        records = self._own_records()
        layout, schema = self._layout(records), self._schema(records)
        given = {**self._options(layout, schema), **options}
        avro = self._avro(schema, layout)
        return maintenance.write_client(self.spark, self._uri, self._name, avro, given)

    def _expire(self, older_than: datetime, keep: frozenset[Version], dry_run: bool) -> Expiry:
        records = self._own_records()
        versions = records.versions()
        if not versions:
            return Expiry()
        kept = {versions[-1].version, *keep, *_newest_tagged(records, versions)}
        kept |= {i.version for i in versions if records.committed_at(i) >= older_than}
        oldest = min(kept)
        gone = tuple(i.version for i in versions if i.version < oldest)
        if not gone:
            return Expiry()
        before = maintenance.data_files_in(self._own_files)
        if dry_run:
            needed = {file.relative for i in versions if i.version >= oldest for file in records.live(i.requested)}
            going = {path: entry for path, entry in before.items() if path not in needed}
            return Expiry(gone, len(going), sum(entry.bytes for entry in going.values()))
        # first said, then done: a reader that comes in between is told that the version is gone
        records.set({OLDEST: str(oldest)})
        with self.client(
            maintenance.forget_options(len(versions) - len(gone), direct=not records.merge_on_read)
        ) as client:
            maintenance.forget(client)
        left = maintenance.data_files_in(self._own_files)
        went = [entry for path, entry in before.items() if path not in left]
        return Expiry(gone, len(went), sum(entry.bytes for entry in went))

    def _orphans(self, older_than: datetime) -> list[DataFile]:
        """What a write has left that was never completed, and that its successor has not rolled back."""
        with reading_references(self.address):
            records = self._own_records()
            named = maintenance.named_files(records, self._own_files)
            live = [file.relative for file in latest_files(records)]
        return find(self.address, self._own_files, named, live, older_than, maintenance.is_data)

    def _files(self, version: Version | None) -> list[DataFile]:
        records = self._records()
        versions = records.versions()
        if not versions:
            return []
        live = records.live(versions[-1].requested if version is None else str(version))
        return data_files(live, records.commit_of, self._layout(records).partition_by, self._own_files)

    def _stats(self) -> TableStats:
        records = self._records()
        versions = records.versions()
        live = records.live(versions[-1].requested) if versions else []
        sizes = column_bytes(self._own_files, [file.relative for file in live if not file.is_log])
        return table_stats(self, {name: sizes.get(stored_name(name), 0) for name in self._schema(records).names})


def _newest_tagged(records: HudiTimeline, versions: Sequence[Instant]) -> list[Version]:
    """The newest commit of every flow that writes here: what says how far it has come."""
    newest: dict[str, Version] = {}
    for instant in versions:
        commit_tag = records.commit(instant).commit_tag
        if commit_tag is not None:
            newest[commit_tag.flow] = instant.version
    return list(newest.values())
