"""An Iceberg table through Spark."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, IntegrityError, UsageError
from headwater.core.model import DELETED, At, Commit, CommitTag, DataFile, Expiry, Rewrite, TableStats, Version
from headwater.core.quotes import backticked
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, Format, LakeContext
from headwater.formats.evolution import can_widen, cannot_retype
from headwater.formats.feed import drop_feeds, open_feed
from headwater.formats.iceberg import changes, maintenance
from headwater.formats.iceberg.java import JavaTable, committing
from headwater.formats.iceberg.layout import java_spec, partitions, properties, respec
from headwater.formats.iceberg.metadata import COMMIT_TAG, Metadata
from headwater.formats.iceberg.names import table_name
from headwater.formats.iceberg.native import IcebergNativeTable
from headwater.formats.iceberg.rewrite import IcebergRewrite, clustered, deleted_rows, scans
from headwater.formats.iceberg.stored_layout import LAYOUT, layout_of
from headwater.formats.maintenance.orphans import expired, find, inside, reading_references, remove
from headwater.formats.maintenance.rewrite import RewriteScope
from headwater.formats.spark_table import SparkTable
from headwater.formats.stats import table_stats
from headwater.schema.changes import Retype, schema_changes

LOOK_EVERY = 300.0
"""Seconds between two looks whether a table's metadata file is whole; the first is when it is first opened here."""
_looked_at: dict[tuple[str, str | None], float] = {}


class IcebergTable(SparkTable):
    """Data goes through Spark; what the metadata tells and holds goes through Iceberg's Java API."""

    def __init__(self, format: Format, spark: SparkSession, address: Address, context: LakeContext) -> None:
        super().__init__(format, spark, address, context)
        self.name = table_name(address)
        self._java = JavaTable(spark, self.name, context, self._require_whole)

    def exists(self) -> bool:
        return self._java.exists()

    def _require_whole(self) -> None:
        """Look at the metadata file now and then, without Java: that tries a cut one again for a minute and a half."""
        place, now = (self.context.home, self.address.table), time.monotonic()
        if now - _looked_at.get(place, float("-inf")) < LOOK_EVERY:
            return
        try:
            IcebergNativeTable(self.address, self.context).version()
        except IntegrityError:
            raise
        except Exception:  # what pyiceberg can't open is for Java to say
            pass
        _looked_at[place] = now

    def schema(self) -> StructType:
        return self._java.spark_schema(self._java.load().schema())

    def layout(self) -> Layout:
        return layout_of(self._java.metadata())

    def _create(self, schema: StructType, layout: Layout) -> None:
        wanted = partitions(schema, layout.partition_by)
        java_schema = self._java.java_schema(schema)
        with _partitioning(layout.partition_by):
            spec = java_spec(self._java.jvm, java_schema, wanted)
        self._java.create(java_schema, spec, properties(schema, layout))

    def drop(self) -> None:
        try:
            drop_feeds(self)
            if not self.exists():
                return
            metadata = self._java.metadata()
        except IntegrityError as error:
            if error.code is not Code.TABLE_CORRUPT:
                raise
            self._java.forget()  # what it was can't be told: files that it had are left where they lie
            return
        self._java.drop()
        if LAYOUT in metadata.properties:
            self._java.delete_folder(metadata.location)

    # --- writing

    def _append(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        self._java.open_in(df.sparkSession)
        writer = df.writeTo(self.name.sql()).options(**_write_options(commit_tag))
        return self._committed(commit_tag, writer.append)

    def _replace(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        self._java.open_in(df.sparkSession)
        writer = df.writeTo(self.name.sql()).options(**_write_options(commit_tag))
        return self._committed(commit_tag, lambda: writer.overwrite(F.lit(True)))

    def _remove(self, where: str, commit_tag: CommitTag) -> Version:
        """Whole files go by the metadata alone; only those that keep some rows are written again."""
        self._java.open_in(self.spark)
        statement = f"DELETE FROM {self.name.sql()} WHERE {where}"
        properties = {COMMIT_TAG: commit_tag.to_json()}
        return self._committed(
            commit_tag, lambda: self._java.with_properties(properties, lambda: self.spark.sql(statement))
        )

    def _upsert(self, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        self._java.open_in(df.sparkSession)
        source = f"upsert_{uuid.uuid4().hex}"
        statement = _merge(self.name.sql(), source, [name for name in df.columns if name != DELETED], keys)
        df.createOrReplaceTempView(source)

        def merge() -> object:
            return df.sparkSession.sql(statement)

        try:
            if commit_tag is None:
                return self._committed(commit_tag, merge)
            return self._committed(
                commit_tag, lambda: self._java.with_properties({COMMIT_TAG: commit_tag.to_json()}, merge)
            )
        finally:
            df.sparkSession.catalog.dropTempView(source)

    def _committed(self, commit_tag: CommitTag | None, write: Callable[[], object]) -> Version:
        with committing(self.name):
            write()
        metadata = self._java.landed()
        if commit_tag is not None:
            version = metadata.landed(commit_tag)
        else:
            version = metadata.current.id if metadata.current else None
        if version is None:
            raise IntegrityError(Code.TABLE_CORRUPT, f"a commit to {self.address} does not show in its snapshots")
        return version

    def _landed(self, commit_tag: CommitTag) -> Version | None:
        return self._java.metadata().landed(commit_tag)

    # --- reading

    def version(self) -> Version | None:
        current = self._java.metadata().current
        return current.id if current else None

    def version_at(self, at: At) -> Version:
        return self._known(self._java.metadata(), at)

    def _known(self, metadata: Metadata, at: At) -> Version:
        found = metadata.find(at)
        if found is None:
            raise self._no_such_version(at)
        return found

    def _read(self, version: Version | None) -> DataFrame:
        if version is not None:
            return self.at(self._java.metadata(), version)
        current = self._java.metadata().current
        if current is None:
            return self.spark.createDataFrame([], self.schema())
        return self.scan({"snapshot-id": current.id})

    def at(self, metadata: Metadata, version: Version) -> DataFrame:
        """The rows of a version under the schema that it had; the latest has the table's own."""
        if metadata.schema_at(version) == metadata.schema_id:
            return self.scan({"snapshot-id": version})
        return self.scan({}, f"snapshot_id_{version}")

    def scan(self, options: Mapping[str, object], *metadata_table: str) -> DataFrame:
        """Rows under the present schema, or a metadata table; an option `snapshot-id` pins the version."""
        reader = self.spark.read
        for key, value in options.items():
            reader = reader.option(key, str(value))
        return reader.table(self.name.sql(*metadata_table))

    def _changes(self, start: Version | None, end: Version) -> DataFrame:
        metadata = self._java.metadata()
        for version in (start, end):
            if version is not None:
                self._known(metadata, version)
        return changes.changes(self, metadata, start, end)

    def history(self, limit: int | None = None) -> list[Commit]:
        return [snapshot.commit() for snapshot in self._java.metadata().lineage()][:limit]

    def versions_after(self, version: Version | None) -> list[Version]:
        newest_first = [snapshot.id for snapshot in self._java.metadata().lineage()]
        if version is None:
            return newest_first[::-1]
        return newest_first[: newest_first.index(version)][::-1] if version in newest_first else newest_first[:1]

    def committed_at(self, version: Version) -> datetime | None:
        return None  # a snapshot's id is a random number: no other table has one of the same

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        return self._java.metadata().appending(start, versions)

    def _read_stream(self, changes: bool, start: At | None, consumer: str) -> DataFrame:
        # Iceberg's own source fails after a MERGE, and whether a query will meet one can't be known when it starts.
        return open_feed(self, changes=changes, start=start, consumer=consumer)

    # --- evolving and looking after

    def _evolve(self, schema: StructType) -> None:
        present = self.schema()
        java_schema = self._java.java_schema(schema)
        # Through Iceberg's types and back: it keeps a smallint as an int.
        wanted = self._java.spark_schema(java_schema)
        pending = list(schema_changes(present, wanted))
        for change in pending:
            if isinstance(change, Retype) and not can_widen(self.format, change.old, change.new):
                raise cannot_retype(self.format, self.address, change)
        if not pending:
            return
        with committing(self.name):
            transaction = self._java.load().newTransaction()
            transaction.updateSchema().caseSensitive(False).unionByNameWith(java_schema).commit()
            layout = self.layout()
            if layout.parquet.statistics is not None:  # they are switched column by column
                update = transaction.updateProperties()
                for key, value in properties(wanted, layout).items():
                    if ".stats-enabled.column." in key:
                        update = update.set(key, value)
                update.commit()
            transaction.commitTransaction()
        self._java.landed()

    def _repartition(self, partition_by: Sequence[str]) -> None:
        metadata = self._java.metadata()
        wanted = partitions(self.schema(), partition_by)
        layout = layout_of(metadata).model_copy(update={"partition_by": tuple(partition_by)})
        with committing(self.name):
            transaction = self._java.load().newTransaction()
            update = transaction.updateSpec()
            with _partitioning(partition_by):
                respec(self._java.jvm, update, metadata, wanted)
                update.commit()
            text = layout.model_dump_json(exclude_defaults=True)
            transaction.updateProperties().set(LAYOUT, text).commit()
            transaction.commitTransaction()
        self._java.landed()

    def _compact(self, scope: RewriteScope) -> Rewrite | None:
        rewrite, added = self._rewrite()
        return None if rewrite is None else rewrite.run(scope.compaction(file for file, _ in added), scope)

    def _cluster(self, columns: Sequence[str], scope: RewriteScope) -> Rewrite | None:
        rewrite, added = self._rewrite()
        if rewrite is None:
            return None
        done = clustered(self._java.metadata(), {file.path: version for file, version in added}, columns)
        return rewrite.run(scope.clustering((file for file, _ in added), done), scope, columns)

    def _rewrite(self) -> tuple[IcebergRewrite | None, list[tuple[DataFile, Version | None]]]:
        """A rewrite of the latest snapshot, and its files."""
        table = self._java.load()
        metadata = self._java.metadata_of(table)
        if metadata.current is None:
            return None, []
        version = metadata.current.id
        rewrite = IcebergRewrite(self.address, self._java, table, version, scans(table, version))
        return rewrite, maintenance.added_files(self, metadata, version)

    def deleted_rows(self, version: Version) -> dict[str, int]:
        """How many rows of each file delete files hide."""
        found = scans(self._java.load(), version)
        return {path: deleted_rows(self._java, task) for path, task in found.items()}

    def _expire(self, older_than: datetime, keep: frozenset[Version], dry_run: bool) -> Expiry:
        metadata = self._java.metadata()
        going = metadata.expirable(older_than, keep)
        gone = tuple(sorted(going, key=lambda version: metadata.snapshots[version].sequence))
        if not going:
            return Expiry()
        if dry_run:
            data = maintenance.expirable_files(self, metadata, going)
            return Expiry(gone, len(data), sum(size for _, size in data))
        with committing(self.name):
            paths = maintenance.expire(self._java, going)
        self._java.landed()
        return expired(self._folder(metadata), gone, paths, dry_run=False)

    def _orphans(self, older_than: datetime) -> list[DataFile]:
        metadata = self._java.metadata()
        folder = self._folder(metadata)
        with reading_references(self.address):
            named = {inside(folder, path) for path in maintenance.named_files(self._java, self, metadata)}
            live = {inside(folder, file.path) for file in self._files(None)}
        known = {path for path in named if path is not None}
        lying = (path for path in live if path is not None)
        return find(self.address, folder, known, lying, older_than, lambda entry: entry.name != "version-hint.text")

    def _remove_files(self, paths: Sequence[str]) -> int:
        return remove(self._folder(self._java.metadata()), paths)

    def _folder(self, metadata: Metadata) -> Files:
        return Files(metadata.location, self.context.storage)

    def _optimize_metadata(self) -> bool:
        with committing(self.name):
            done = maintenance.rewrite_manifests(self._java)
        if done:
            self._java.landed()
        return done

    def _files(self, version: Version | None) -> list[DataFile]:
        metadata = self._java.metadata()
        version = version or (metadata.current.id if metadata.current else None)
        return [] if version is None else maintenance.files(self, metadata, version)

    def _stats(self) -> TableStats:
        metadata = self._java.metadata()
        current = metadata.current
        return table_stats(self, maintenance.column_bytes(self, metadata, current.id) if current else {})


def _write_options(commit_tag: CommitTag | None) -> dict[str, str]:
    return {} if commit_tag is None else {f"snapshot-property.{COMMIT_TAG}": commit_tag.to_json()}


def _merge(target: str, source: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """Keys are compared so that NULL equals NULL; a delete of a key that is not there does nothing."""
    on = " AND ".join(f"t.{backticked(key)} <=> s.{backticked(key)}" for key in keys)
    names = ", ".join(backticked(name) for name in columns)
    values = ", ".join(f"s.{backticked(name)}" for name in columns)
    updates = ", ".join(f"t.{backticked(name)} = s.{backticked(name)}" for name in columns)
    gone = f"s.{backticked(DELETED)}"
    return (
        f"MERGE INTO {target} t USING {backticked(source)} s ON {on} "
        f"WHEN MATCHED AND {gone} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED AND NOT {gone} THEN INSERT ({names}) VALUES ({values})"
    )


@contextmanager
def _partitioning(partition_by: Sequence[str]) -> Iterator[None]:
    """Iceberg's reason why a column can't be partitioned so."""
    try:
        yield
    except Py4JJavaError as error:
        message = f"partition_by: {', '.join(partition_by)}: {error.java_exception.getMessage()}"
        raise UsageError(Code.INVALID_VALUE, message) from error
