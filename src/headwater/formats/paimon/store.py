"""One Paimon table through Paimon's own Java API.

The API and not Spark SQL, because it says what SQL can't: which commit tag it carries, that a step without
rows commits too, which files a rewrite replaces; and because it reads the table's state afresh at every call,
where a session's catalog may still hold an old schema.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from headwater.core.errors import Code, UsageError
from headwater.core.model import CommitTag, Version
from headwater.formats.base import Address
from headwater.formats.paimon.snapshots import PaimonSnapshot
from headwater.spark.frames import settings
from headwater.spark.internals import gateway_of, java, java_frame, java_session

ROW_KIND = "_row_kind_"
INSERT, DELETE = 0, 3
"""Values of Paimon's row kind column, which its Spark writer takes alongside the table's columns."""


@dataclass(frozen=True)
class PaimonFile:
    """A data file of one snapshot, with the Java objects that a rewrite hands back."""

    path: str
    bytes: int
    rows: int
    bucket: int
    schema_id: int
    bucket_path: str
    partition: Any
    meta: Any


class PaimonStore:
    """The table at an address; `java()` is Paimon's handle on its present state."""

    def __init__(self, spark: SparkSession, address: Address) -> None:
        self.spark = spark
        self._address = address
        jvm: Any = java(spark)
        self._packages = jvm
        self._paimon = jvm.org.apache.paimon
        self._name = None if address.table is None else _three_parts(address.table)
        self._path_factory: Any = None

    # --- being there

    @property
    def sql_name(self) -> str | None:
        """`database.table` as Paimon's procedures take it; None for a table by path."""
        return None if self._name is None else f"{self._name[1]}.{self._name[2]}"

    @property
    def catalog_name(self) -> str | None:
        return None if self._name is None else self._name[0]

    def location(self) -> str:
        if self._name is None:
            return str(self._address.path)
        return str(self._catalog().getTableLocation(self._identifier()).toString())

    def exists(self) -> bool:
        return bool(self._schemas().latest().isPresent())

    def create(
        self, schema: StructType, partitions: Sequence[str], keys: Sequence[str], options: Mapping[str, str]
    ) -> None:
        builder = self._paimon.schema.Schema.newBuilder()
        for field in schema.fields:
            builder = builder.column(field.name, self._java_type(field.dataType))
        if partitions:
            builder = builder.partitionKeys(list(partitions))
        if keys:
            builder = builder.primaryKey(list(keys))
        made = builder.options(dict(options)).build()
        if self._name is None:
            self._schemas().createTable(made)
            return
        self._catalog().createDatabase(self._name[1], True)
        self._catalog().createTable(self._identifier(), made, False)

    def drop(self) -> None:
        if self._name is None:
            path = self._paimon.fs.Path(self.location())
            self._file_io().delete(path, True)
        else:
            self._catalog().dropTable(self._identifier(), True)

    def java(self) -> Any:
        """Paimon's FileStoreTable with the newest schema."""
        return self._paimon.table.FileStoreTableFactory.create(self._context())

    def schema_of(self, table: Any) -> StructType:
        spark_type = self._paimon.spark.SparkTypeUtils.fromPaimonRowType(table.rowType())
        return StructType.fromJson(json.loads(spark_type.json()))

    # --- snapshots

    def latest(self) -> PaimonSnapshot | None:
        found = self.java().snapshotManager().latestSnapshot()
        return None if found is None else PaimonSnapshot.from_json(found.toJson())

    def snapshot(self, version: Version) -> PaimonSnapshot | None:
        manager = self.java().snapshotManager()
        if version < 1 or not manager.snapshotExists(version):
            return None
        return PaimonSnapshot.from_json(manager.snapshot(version).toJson())

    def newest_first(self) -> Iterator[PaimonSnapshot]:
        """Read one by one, so that a search that ends early reads few."""
        manager = self.java().snapshotManager()
        latest = manager.latestSnapshotId()
        version = 0 if latest is None else int(latest)
        while version >= 1 and manager.snapshotExists(version):
            yield PaimonSnapshot.from_json(manager.snapshot(version).toJson())
            version -= 1

    def entries(self, version: Version, mode: str) -> list[Any]:
        """Manifest entries of a snapshot: ALL live files, its DELTA, or its CHANGELOG."""
        kind = getattr(self._paimon.table.source.ScanMode, mode)
        scan = self.java().store().newScan().withKind(kind).withSnapshot(version)
        return list(scan.plan().files())

    def files(self, version: Version) -> list[PaimonFile]:
        return self._live(self.entries(version, "ALL"))

    def entry_files(self, version: Version, mode: str, *, added: bool) -> list[PaimonFile]:
        """The files that a snapshot's DELTA or CHANGELOG put into the table, or took out."""
        return self._live([entry for entry in self.entries(version, mode) if is_added(entry) is added])

    def tagged(self) -> list[Any]:
        """The snapshots that Paimon's own tags keep."""
        return list(self.java().tagManager().tags())

    def files_of(self, snapshot: Any) -> list[PaimonFile]:
        """The live files of one of them."""
        scan = self.java().store().newScan().withKind(self._paimon.table.source.ScanMode.ALL).withSnapshot(snapshot)
        return self._live(list(scan.plan().files()))

    def has_branches(self) -> bool:
        return bool(list(self.java().branchManager().branches()))

    def added(self, version: Version) -> list[PaimonFile] | None:
        """The files that a snapshot added, or None if it took any away too."""
        delta = self.entries(version, "DELTA")
        return self._live(delta) if all(is_added(entry) for entry in delta) else None

    def _live(self, entries: Sequence[Any]) -> list[PaimonFile]:
        return [self._file(entry.partition(), int(entry.bucket()), entry.file()) for entry in entries]

    def _file(self, partition: Any, bucket: int, meta: Any) -> PaimonFile:
        folder = str(self._paths().bucketPath(partition, bucket).toString())
        return PaimonFile(
            path=f"{folder}/{meta.fileName()}",
            bytes=int(meta.fileSize()),
            rows=int(meta.rowCount()),
            bucket=bucket,
            schema_id=int(meta.schemaId()),
            bucket_path=folder,
            partition=partition,
            meta=meta,
        )

    def _paths(self) -> Any:
        if self._path_factory is None:
            self._path_factory = self.java().store().pathFactory()
        return self._path_factory

    def partition_values(self, partition: Any) -> dict[str, str | None]:
        """A partition's columns with their values as text."""
        row_type = self.java().schema().logicalPartitionType()
        casts = self._paimon.casting.CastExecutors
        text = self._paimon.types.VarCharType.STRING_TYPE
        values: dict[str, str | None] = {}
        for i, field in enumerate(row_type.getFields()):
            getter = self._paimon.data.InternalRow.createFieldGetter(field.type(), i)
            value = getter.getFieldOrNull(partition)
            cast = casts.resolve(field.type(), text)
            values[str(field.name())] = None if value is None else str(cast.cast(value).toString())
        return values

    # --- reading

    def frame(self, table: Any) -> DataFrame:
        """The rows of a Java table as Spark reads them."""
        return self._frame(self._relation(table))

    def frame_of_splits(self, files: Sequence[PaimonFile], table: Any) -> DataFrame:
        """The rows of some files of a table without keys, by Paimon's reader."""
        splits = [
            self._paimon.table.source.DataSplit.builder()
            .withSnapshot(0)
            .withPartition(file.partition)
            .withBucket(file.bucket)
            .withBucketPath(file.bucket_path)
            .withDataFiles([file.meta])
            .rawConvertible(True)
            .build()
            for file in files
        ]
        gateway: Any = gateway_of(self.spark.sparkContext)
        array = gateway.new_array(self._paimon.table.source.DataSplit, len(splits))
        for i, split in enumerate(splits):
            array[i] = split
        scan = self._paimon.spark.PaimonSplitScan.apply(table, array)
        relation = self._relation(table)
        compatibility = self._paimon.spark.catalyst.Compatibility
        return self._frame(compatibility.createDataSourceV2ScanRelation(relation, scan, relation.output()))

    def audit_log(self, table: Any) -> Any:
        """The Java table of a keyed table's changes, with their kind in the column `rowkind`."""
        return self._paimon.table.system.AuditLogTable(table)

    def z_ordered(self, df: DataFrame, columns: Sequence[str]) -> DataFrame:
        sorting = self._paimon.spark.sort.TableSorter
        sorter = sorting.getSorter(self.java(), sorting.OrderType.of("zorder"), list(columns))
        return DataFrame(sorter.sort(java_frame(df)), self.spark)

    # --- writing

    def write(self, df: DataFrame, *, overwrite: bool = False, options: Mapping[str, str] | None = None) -> list[Any]:
        """Write the rows' files; they belong to the table once their messages are committed."""
        writer = self._paimon.spark.commands.PaimonSparkWriter(self.java().copy(dict(options or {})))
        if overwrite:
            writer.writeBuilder().withOverwrite({})
        # Paimon's writer takes rows as Java objects: those of java.time keep dates before 1582 as they are
        with settings(df.sparkSession, {"spark.sql.datetime.java8API.enabled": "true"}):
            written = writer.write(java_frame(df.select("*")))
        return list(self._packages.scala.collection.JavaConverters.seqAsJavaList(written))

    def removed(self, files: Sequence[PaimonFile]) -> list[Any]:
        """Messages that take files out of the table."""
        io = self._paimon.io
        return [
            self._message(f, io.DataIncrement([], [f.meta], []), io.CompactIncrement.emptyIncrement()) for f in files
        ]

    def rewritten(self, files: Sequence[PaimonFile], messages: Sequence[Any]) -> list[Any]:
        """Messages that put the written files in the place of others, as a compaction: no row changes."""
        io = self._paimon.io
        made: dict[bytes, list[Any]] = {}
        for message in messages:
            made.setdefault(self._bytes(message.partition()), []).extend(message.newFilesIncrement().newFiles())
        old: dict[bytes, list[PaimonFile]] = {}
        for file in files:
            old.setdefault(self._bytes(file.partition), []).append(file)
        return [
            self._message(
                group[0],
                io.DataIncrement.emptyIncrement(),
                io.CompactIncrement([f.meta for f in group], made.get(partition, []), []),
            )
            for partition, group in old.items()
        ]

    def written(self, messages: Sequence[Any]) -> list[PaimonFile]:
        """The files of messages that are not committed yet."""
        return [
            self._file(message.partition(), int(message.bucket()), meta)
            for message in messages
            for meta in message.newFilesIncrement().newFiles()
        ]

    def discard(self, messages: Sequence[Any]) -> None:
        """Delete the files of messages that won't be committed."""
        commit = self.java().newCommit(str(uuid.uuid4()))
        try:
            commit.abort(list(messages))
        finally:
            commit.close()

    def roll_back(self, version: Version) -> None:
        """Make this snapshot the latest again; those after it are gone."""
        self.java().rollbackTo(version)

    def commit(self, messages: Sequence[Any], commit_tag: CommitTag | None, *, overwrite: bool = False) -> Version:
        """One commit whose user is the commit tag; returns the last snapshot that it made."""
        user = str(uuid.uuid4()) if commit_tag is None else commit_tag.to_json()
        # a table's whole content goes, not only the partitions that get new rows
        table = self.java().copy({"dynamic-partition-overwrite": "false"})
        commit = table.newCommit(user).ignoreEmptyCommit(False)
        try:
            if overwrite:
                commit = commit.withOverwrite({})
            commit.commit(list(messages))
        finally:
            commit.close()
        return int(table.snapshotManager().latestSnapshotOfUser(user).get().id())

    def compact_files(self, messages: Sequence[Any], note: str) -> Version:
        """Commit a rewrite, whose user is the note; a compaction has no tag and makes no other snapshot."""
        table = self.java()
        commit = table.newCommit(note)
        try:
            commit.commit(list(messages))
        finally:
            commit.close()
        return int(table.snapshotManager().latestSnapshotOfUser(note).get().id())

    # --- changing

    def add_column(self, name: str, data_type: DataType) -> Any:
        return self._paimon.schema.SchemaChange.addColumn(name, self._java_type(data_type))

    def change_type(self, name: str, data_type: DataType) -> Any:
        return self._paimon.schema.SchemaChange.updateColumnType(name, self._java_type(data_type))

    def set_option(self, key: str, value: str) -> Any:
        return self._paimon.schema.SchemaChange.setOption(key, value)

    def change_schema(self, changes: Sequence[Any]) -> None:
        self._schemas().commitChanges(list(changes))

    def merge_schema(self, schema: StructType) -> None:
        """Add the columns of `schema` that are missing, at any depth."""
        self._schemas().mergeSchema(self._java_type(schema), False)

    def expire_before(self, version: Version) -> None:
        """Forget all snapshots before this one, with the files that only they need."""
        table = self.java()
        stay = int(table.snapshotManager().latestSnapshotId()) - version + 1
        config = self._paimon.options.ExpireConfig.builder()
        config = config.snapshotRetainMax(stay).snapshotRetainMin(stay).snapshotMaxDeletes(2**31 - 1)
        table.newExpireSnapshots().config(config.build()).expire()

    # --- Java

    def _relation(self, table: Any) -> Any:
        none = self._packages.scala.Option.empty()
        relations = self._packages.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
        return relations.create(self._paimon.spark.SparkTable(table), none, none)

    def _frame(self, plan: Any) -> DataFrame:
        session = java_session(self.spark)
        return DataFrame(self._packages.org.apache.spark.sql.Dataset.ofRows(session, plan), self.spark)

    def _message(self, file: PaimonFile, data: Any, compacted: Any) -> Any:
        return self._paimon.table.sink.CommitMessageImpl(file.partition, file.bucket, data, compacted)

    def _bytes(self, partition: Any) -> bytes:
        return bytes(self._paimon.utils.SerializationUtils.serializeBinaryRow(partition))

    def _java_type(self, data_type: DataType) -> Any:
        parsed = self._packages.org.apache.spark.sql.types.DataType.fromJson(data_type.json())
        return self._paimon.spark.SparkTypeUtils.toPaimonType(parsed)

    def _schemas(self) -> Any:
        path = self._paimon.fs.Path(self.location())
        return self._paimon.schema.SchemaManager(self._file_io(), path)

    def _file_io(self) -> Any:
        path = self._paimon.fs.Path(self.location())
        return self._paimon.fs.FileIO.get(path, self._context())

    def _context(self) -> Any:
        options = self._paimon.options.Options.fromMap({"path": self.location()})
        conf = java_session(self.spark).sessionState().newHadoopConf()
        return self._paimon.catalog.CatalogContext.create(options, conf)

    def _catalog(self) -> Any:
        assert self._name is not None
        plugins = java_session(self.spark).sessionState().catalogManager()
        return plugins.catalog(self._name[0]).paimonCatalog()

    def _identifier(self) -> Any:
        assert self._name is not None
        return self._paimon.catalog.Identifier.create(self._name[1], self._name[2])


def is_added(entry: Any) -> bool:
    """Whether a manifest entry puts its file into the table, or takes it out."""
    return str(entry.kind().toString()) == "ADD"


def _three_parts(name: str) -> tuple[str, str, str]:
    parts = name.split(".")
    if len(parts) != 3:
        raise UsageError(
            Code.INVALID_VALUE, f"'{name}' does not name a Paimon table", hint="write catalog.database.table"
        )
    return parts[0], parts[1], parts[2]
