"""A Paimon table through Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from functools import reduce
from itertools import takewhile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, TerminalError, Unsupported, UsageError
from headwater.core.model import DELETED, WEIGHT, At, Commit, CommitTag, DataFile, Expiry, Rewrite, TableStats, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, Format, LakeContext
from headwater.formats.evolution import can_widen, cannot_retype
from headwater.formats.locks import writing
from headwater.formats.maintenance.checked_call import checked_call, in_partitions
from headwater.formats.maintenance.orphans import find, inside, reading_references, remove
from headwater.formats.maintenance.rewrite import RewriteScope, by_partition
from headwater.formats.paimon import files, maintenance, options
from headwater.formats.paimon.nested import differ_inside
from headwater.formats.paimon.rows import evolved, has_struct, latest_rows, rows_at, rows_of, structs_in_parquet
from headwater.formats.paimon.schema_files import layout_of
from headwater.formats.paimon.snapshots import (
    APPEND,
    COMPACT,
    PaimonSnapshot,
    landed,
    oldest_to_keep,
    version_at,
    writes,
)
from headwater.formats.paimon.store import DELETE, INSERT, ROW_KIND, PaimonFile, PaimonStore
from headwater.formats.spark_table import SparkTable
from headwater.formats.stats import table_stats
from headwater.schema.changes import AddColumn, Retype, schema_changes
from headwater.spark.frames import column, diff, signed

WENT = ("-U", "-D")
LONGEST_LOG = 100
"""Snapshots whose changes are read one by one; over more of them two whole states are compared instead."""


class PaimonTable(SparkTable):
    """By name in a catalog or by path. A version is the last snapshot of a write."""

    def __init__(self, format: Format, spark: SparkSession, address: Address, context: LakeContext) -> None:
        super().__init__(format, spark, address, context)
        self._store = PaimonStore(spark, address)

    # --- being there

    def exists(self) -> bool:
        return self._store.exists()

    def _create(self, schema: StructType, layout: Layout) -> None:
        self._store.create(schema, layout.partition_by, options.primary_key(layout), options.of_layout(schema, layout))

    def drop(self) -> None:
        from headwater.formats.feed import drop_feeds

        drop_feeds(self)
        self._store.drop()

    def schema(self) -> StructType:
        return self._store.schema_of(self._java())

    def layout(self) -> Layout:
        java = self._java()
        return layout_of(dict(java.options()), tuple(java.primaryKeys()), tuple(java.partitionKeys()))

    def _java(self) -> Any:
        if not self._store.exists():
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Apache Paimon table {self.address}")
        return self._store.java()

    # --- writing

    def _append(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        self._complete_schema()
        keys = self.layout().keys
        if keys:  # Paimon writes a table with keys by key, whatever it is called
            return self._write_by_key(df.withColumn(DELETED, F.lit(False)), keys, commit_tag)
        return self._store.commit(self._store.write(df), commit_tag)

    def _upsert(self, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        self._complete_schema()
        own = self.layout().keys
        if not own:
            return files.upsert(self._store, df, keys, commit_tag)
        if set(own) != set(keys):
            raise UsageError(
                Code.USAGE,
                f"{self.address} has the keys {', '.join(own)} and can't be upserted by {', '.join(keys)}",
                hint="leave `keys` out",
            )
        return self._write_by_key(df, own, commit_tag)

    def _write_by_key(self, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        names = [column(name) for name in self.schema().names]
        if set(self.layout().partition_by) <= set(keys):
            kind = F.when(column(DELETED), F.lit(DELETE)).otherwise(F.lit(INSERT))
            return self._store.commit(self._store.write(df.select(*names, _row_kind(kind))), commit_tag)
        # Paimon finds a key inside its partition only: what a row was before is deleted where it lies
        df = df.persist()
        try:
            return self._store.commit(self._store.write(self._with_moves(df, keys)), commit_tag)
        finally:
            df.unpersist()

    def _with_moves(self, df: DataFrame, keys: Sequence[str]) -> DataFrame:
        partition_by = self.layout().partition_by
        names = [column(name) for name in self.schema().names]
        new = df.select(
            *(column(k).alias(f"new_{i}") for i, k in enumerate(keys)),
            *(column(p).alias(f"part_{i}") for i, p in enumerate(partition_by)),
            column(DELETED).alias("gone"),
        )
        same_key = reduce(lambda a, b: a & b, (column(k).eqNullSafe(F.col(f"new_{i}")) for i, k in enumerate(keys)))
        stays = reduce(
            lambda a, b: a & b, (column(p).eqNullSafe(F.col(f"part_{i}")) for i, p in enumerate(partition_by))
        )
        went = self._read(None).join(new, same_key & (F.col("gone") | ~stays))
        came = df.where(~column(DELETED))
        return came.select(*names, _row_kind(F.lit(INSERT))).unionByName(went.select(*names, _row_kind(F.lit(DELETE))))

    def _replace(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        return self._store.commit(self._store.write(df, overwrite=True), commit_tag, overwrite=True)

    def _landed(self, commit_tag: CommitTag) -> Version | None:
        return landed(self._store.newest_first(), commit_tag)

    # --- reading

    def version(self) -> Version | None:
        latest = self._store.latest()
        return None if latest is None else latest.id

    def version_at(self, at: At) -> Version:
        if isinstance(at, datetime):
            found = version_at(self._store.newest_first(), at)
        else:
            found = self._snapshot(at).id
        if found is None:
            raise self._no_such_version(at)
        return found

    def _read(self, version: Version | None) -> DataFrame:
        schema = self.schema()
        if version is not None:
            return rows_at(self._store, version)
        latest = self._store.latest()
        return self.spark.createDataFrame([], schema) if latest is None else latest_rows(self._store, latest)

    def _changes(self, start: Version | None, end: Version) -> DataFrame:
        end = self.version_at(end)
        if start is None:
            return signed(self._read(end), 1)
        start = self.version_at(start)
        log = self._log(start, end) if start <= end else None
        if log is not None:
            return log
        old, new = self._snapshot(start), self._snapshot(end)
        java = self._java()
        target = java.copy(java.schemaManager().schema(new.schema_id))
        return diff(evolved(self._store, self._read(start), old.schema_id, target), self._read(end))

    def _snapshot(self, version: Version) -> PaimonSnapshot:
        found = self._store.snapshot(version)
        if found is None:
            raise self._no_such_version(version)
        return found

    def _log(self, start: Version, end: Version) -> DataFrame | None:
        """The changes as Paimon has recorded them, or None where its records are not exact."""
        snapshots = {s.id: s for s in takewhile(lambda s: s.id >= start, self._store.newest_first())}
        first, last = _last_like(start, snapshots), _last_like(end, snapshots)
        between = [snapshots[version] for version in range(first + 1, last + 1)]
        if len(between) > LONGEST_LOG or any(s.kind not in (APPEND, COMPACT) for s in between):
            return None
        java = self._java()
        end_schema = java.copy(java.schemaManager().schema(snapshots[end].schema_id))
        if dict(java.options()).get("deletion-vectors.enabled") == "true":
            return None  # what such a snapshot shows is decided later, by a compaction
        if list(java.primaryKeys()):
            return self._keyed_log(end_schema, between, first, last)
        return self._append_log(end_schema, between)

    def _keyed_log(self, java: Any, between: list[PaimonSnapshot], first: Version, last: Version) -> DataFrame | None:
        told = dict(java.options())
        if told.get("changelog-producer") != "lookup" or told.get("merge-engine", "deduplicate") != "deduplicate":
            return None
        if structs_in_parquet(self._store, java):
            return None
        if not (self._all_compacted(first) and self._all_compacted(last)):
            return None  # a write was cut off between its two snapshots: its changes are told by a later one
        # one snapshot at a time: over several Paimon drops the changes of a key that changed twice
        logged = [s.id for s in between if s.kind == COMPACT]
        frames = [
            self._store.frame(self._store.audit_log(java).copy({"incremental-between": f"{v - 1},{v}"})) for v in logged
        ]
        names = [column(name) for name in self._store.schema_of(java).names]
        weight = F.when(F.col("rowkind").isin(*WENT), -1).otherwise(1).alias(WEIGHT)
        parts = [frame.select(*names, weight) for frame in frames]
        return reduce(DataFrame.unionByName, parts) if parts else self._nothing(java)

    def _append_log(self, java: Any, between: list[PaimonSnapshot]) -> DataFrame | None:
        came: list[PaimonFile] = []
        for snapshot in between:
            if snapshot.kind == APPEND:
                added = self._store.added(snapshot.id)
                if added is None:
                    return None  # files were replaced: their unchanged rows would count twice
                came += added
        return signed(rows_of(self._store, came, java), 1)

    def _all_compacted(self, version: Version) -> bool:
        return all(int(entry.file().level()) > 0 for entry in self._store.entries(version, "ALL"))

    def _nothing(self, java: Any) -> DataFrame:
        return signed(self.spark.createDataFrame([], self._store.schema_of(java)), 1)

    def history(self, limit: int | None = None) -> list[Commit]:
        commits: list[Commit] = []
        keyed = bool(list(self._java().primaryKeys()))
        for write in writes(self._store.newest_first()):
            if limit is not None and len(commits) == limit:
                break
            commits.append(files.commit_of(self._store, write, keyed))
        return commits

    def versions_after(self, version: Version | None) -> list[Version]:
        newer = takewhile(lambda s: version is None or s.id > version, self._store.newest_first())
        return [write.last.id for write in writes(newer)][::-1]

    def committed_at(self, version: Version) -> datetime | None:
        found = self._store.snapshot(version)
        return None if found is None else found.at

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        java = self._java()
        if list(java.primaryKeys()) or dict(java.options()).get("deletion-vectors.enabled") == "true":
            return 0  # a write by key may change rows, and one of vectors hide some
        newer = takewhile(lambda s: s.id > start, self._store.newest_first())
        unsure = [s.id for s in newer if s.kind != COMPACT and (s.kind != APPEND or self._store.added(s.id) is None)]
        return sum(1 for version in versions if not unsure or version < min(unsure))

    def _read_stream(self, changes: bool, start: At | None, consumer: str) -> DataFrame:
        # Paimon's own source starts over at each restart unless its snapshot is pinned
        from headwater.formats.feed import open_feed

        return open_feed(self, changes=changes, start=start, consumer=consumer)

    # --- evolving and looking after

    def _evolve(self, schema: StructType) -> None:
        found = list(schema_changes(self.schema(), schema))
        layout = self.layout()
        fixed = {*layout.keys, *layout.partition_by}
        for change in found:
            if isinstance(change, Retype) and (
                len(change.path) > 1 or change.path[0] in fixed or not can_widen(self.format, change.old, change.new)
            ):
                raise cannot_retype(self.format, self.address, change)
        direct = [
            self._store.change_type(change.path[0], change.new)
            if isinstance(change, Retype)
            else self._store.add_column(change.field.name, change.field.dataType)
            for change in found
            if isinstance(change, Retype) or not change.parent
        ]
        if layout.keys and has_struct(schema):
            direct += [self._store.set_option(*option) for option in options.for_structs(layout).items()]
        if direct:
            self._store.change_schema(direct)
        if any(isinstance(change, AddColumn) and change.parent for change in found):
            self._store.merge_schema(schema)
        self._complete_schema()

    def _complete_schema(self) -> None:
        """Rewrite a keyed table whose files lack nested columns of its schema: Paimon can't merge those."""
        latest = self._store.latest()
        java = self._java()
        if latest is None or latest.schema_id == java.schema().id() or not list(java.primaryKeys()):
            return
        written = self._store.schema_of(java.copy(java.schemaManager().schema(latest.schema_id)))
        if differ_inside(written, self._store.schema_of(java)):
            self._replace(self._read(None), None)

    def _compact(self, scope: RewriteScope) -> Rewrite | None:
        if self.layout().keys:
            return self._compact_keyed(scope)
        live = self._live(None)
        groups = scope.compaction(map(self._file, live))
        return maintenance.rewrite(self, self._store, self._by_path(live), groups, scope)

    def _compact_keyed(self, scope: RewriteScope) -> Rewrite | None:
        """By Paimon's own call, which merges all levels of a bucket."""
        if self._store.sql_name is None:
            raise Unsupported(
                f"Apache Paimon can't compact the keyed table {self.address} by its path",
                hint="give it a name in a catalog with `table:`",
            )
        top = int(self._java().coreOptions().numLevels()) - 1
        unmerged = [self._file(f) for f in self._live(None) if int(f.meta.level()) < top]
        due = {tuple(file.partition.items()) for file in unmerged if scope.covers(file.partition)}
        if not due:
            return None
        whole = [file for file in self.files() if tuple(file.partition.items()) in due]
        chosen = [f for group in scope.bounded([tuple(part) for part in by_partition(whole)]) for f in group]
        specs = maintenance.partition_specs(chosen)
        only = "" if specs is None else f'partitions => "{specs}", '
        statement = (
            f"CALL {self._store.catalog_name}.sys.compact(table => '{self._store.sql_name}', {only}"
            f"options => 'target-file-size={scope.target} b')"
        )
        with writing(self.address):
            return checked_call(
                self,
                lambda: self.spark.sql(statement),
                lambda version, files: in_partitions(self._read(version), files),
                lambda before, after: self._store.roll_back(before),
            )

    def _cluster(self, columns: Sequence[str], scope: RewriteScope) -> Rewrite | None:
        if self.layout().keys:
            raise Unsupported(
                f"Apache Paimon can't cluster {self.address}: a table with keys is always sorted by them",
                hint="cluster tables without keys",
            )
        live = self._live(None)
        done = {f.path.removeprefix("file:") for f in live if f.path in maintenance.clustered(self._store, columns)}
        groups = scope.clustering(map(self._file, live), done)
        return maintenance.rewrite(self, self._store, self._by_path(live), groups, scope, columns)

    def _expire(self, older_than: datetime, keep: frozenset[Version], dry_run: bool) -> Expiry:
        found = list(writes(self._store.newest_first()))
        if not found:
            return Expiry()
        oldest = oldest_to_keep(found, older_than, keep)
        gone = tuple(write.last.id for write in found if write.last.id < oldest)
        going = maintenance.expirable(self._store, oldest)
        if not dry_run:
            self._store.expire_before(oldest)
            going = [file for file in going if not self._folder().exists(file.path)]
        return Expiry(gone, len(going), sum(file.bytes for file in going))

    def _orphans(self, older_than: datetime) -> list[DataFile]:
        folder = self._folder()
        with reading_references(self.address):
            named = {inside(folder, path) for path in maintenance.named_files(self, self._store)}
            live = {inside(folder, file.path) for file in self._live(None)}
        known = {path for path in named if path is not None}
        lying = (path for path in live if path is not None)
        return find(self.address, folder, known, lying, older_than, maintenance.is_data)

    def _remove_files(self, paths: Sequence[str]) -> int:
        return remove(self._folder(), paths)

    def _folder(self) -> Files:
        return Files(self._store.location(), self.context.storage)

    def _files(self, version: Version | None) -> list[DataFile]:
        return [self._file(file) for file in self._live(version)]

    def _live(self, version: Version | None) -> list[PaimonFile]:
        version = self.version() if version is None else version
        return [] if version is None else self._store.files(version)

    def _by_path(self, live: Sequence[PaimonFile]) -> dict[str, PaimonFile]:
        return {file.path.removeprefix("file:"): file for file in live}

    def _file(self, file: PaimonFile) -> DataFile:
        values = self._store.partition_values(file.partition)
        at = datetime.fromtimestamp(int(file.meta.creationTimeEpochMillis()) / 1000, timezone.utc)
        return DataFile(file.path.removeprefix("file:"), file.bytes, file.rows, values, 0, at)

    def _stats(self) -> TableStats:
        in_parquet = all(file.path.endswith(".parquet") for file in self.files())
        return table_stats(self, None if in_parquet else {})


def _row_kind(kind: Any) -> Any:
    return kind.cast("tinyint").alias(ROW_KIND)


def _last_like(version: Version, snapshots: dict[Version, PaimonSnapshot]) -> Version:
    """The last of the snapshots that have the same rows: a compaction changes none."""
    while version + 1 in snapshots and snapshots[version + 1].kind == COMPACT:
        version += 1
    return version
