"""An Iceberg table over the files of a table of another format: its metadata in a folder and catalog entry of its own.

Never imports pyspark. pyiceberg writes the metadata; its `add_files` is not used, since that takes partition columns
which only folders name for NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.typedef import Record
from sqlalchemy.exc import DBAPIError

from headwater.core.errors import Code, TransientError
from headwater.core.model import Version
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.footers import footer_of
from headwater.formats.iceberg.interop_schema import (
    bounds,
    iceberg_schema,
    literal,
    name_mapping,
    partition_spec,
)
from headwater.formats.iceberg.names import catalog_of, lake_location, table_name
from headwater.formats.iceberg.native import IcebergNativeTable
from headwater.formats.iceberg.shared import shared_columns
from headwater.formats.interop.seam import (
    NOTE,
    InteropTarget,
    SharedFile,
    StagedChange,
    SyncNote,
    TargetChange,
    TargetState,
    relative,
)
from headwater.schema.arrow import conformed, spark_type

_ROOT = f"{NOTE}.root"
"""The property with the folder of the files."""
_MAPPING = "schema.name-mapping.default"
_KEPT = timedelta(hours=1)
"""How long an old snapshot can still be read."""
_MOST = 50
_PROPERTIES = {
    "commit.retry.num-retries": "0",  # on somebody else's newer state nothing is committed
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "gc.enabled": "false",  # other engines must not delete files, which are the source's
}


class IcebergInterop(InteropTarget):
    def __init__(self, address: Address, context: LakeContext) -> None:
        self.address = address
        self._context = context
        self._name = table_name(address)
        self._identifier = (*self._name.namespace, self._name.table)
        self._opened: Catalog | None = None

    def state(self) -> TargetState | None:
        table = self._open()
        if table is None:
            return None
        note = SyncNote.from_json(table.properties.get(NOTE))
        if note is not None and note.mark != _mark(table):
            note = None
        store = Files(_root(table), self._context.storage)
        # What others have added lies anywhere, and is nothing to compare with.
        found = () if note is None else _live(table.metadata, table.io)
        notes = (SyncNote.from_json((one.summary or {}).get(NOTE)) for one in table.snapshots())  # type: ignore[call-overload]
        return TargetState(
            table.metadata.current_snapshot_id or 0,
            note,
            shared_columns(table.schema(), lambda name: name),
            tuple(table.schema().find_column_name(field.source_id) or "" for field in table.spec().fields),
            store.root,
            {_path(store, file): file.record_count for file in found},
            frozenset(one.version for one in (*notes, note) if one is not None),
        )

    def stage(self, change: TargetChange, before: TargetState | None) -> StagedChange:
        table = self._open()
        schema = iceberg_schema(change.to.schema, None if table is None else table.metadata)
        if table is None:
            return IcebergChange(self._begun(change, schema), change, None, schema, self._context)
        return IcebergChange(table.transaction(), change, table, schema, self._context)

    def tidy(self) -> None:
        table = self._open()
        if table is None:
            return
        newest = sorted(table.snapshots(), key=lambda one: one.timestamp_ms, reverse=True)
        since = (datetime.now(timezone.utc) - _KEPT).timestamp() * 1000
        old = [one for number, one in enumerate(newest) if number and (number >= _MOST or one.timestamp_ms < since)]
        if not old:
            return
        kept = {one.snapshot_id for one in newest} - {one.snapshot_id for one in old}
        going = {path for one in old for path in _metadata_files(table, one)}
        table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
        for one in newest:
            if one.snapshot_id in kept:
                going -= _metadata_files(table, one)
        for path in going:
            with suppress(OSError):
                table.io.delete(path)

    def drop(self) -> None:
        with suppress(NoSuchTableError):
            self._catalog().drop_table(self._identifier)
        Files(self._context.warehouse, self._context.storage).delete(_folder(self._name.namespace, self._name.table))

    def _open(self) -> Table | None:
        catalog = self._catalog()
        try:
            return catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None

    def _catalog(self) -> Catalog:
        if self._opened is None:
            spec = catalog_of(self._name, self._context)
            if spec is not None:
                spec.prepare(lake_location(self._context))
            self._opened = IcebergNativeTable(self.address, self._context).catalog(writable=True)
        return self._opened

    def _begun(self, change: TargetChange, schema: Schema) -> Transaction:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self._name.namespace)
        folder = _folder(self._name.namespace, self._name.table)
        properties = {**_PROPERTIES, _ROOT: change.to.root}
        location = f"{self._context.warehouse.rstrip('/')}/{folder}"
        return catalog.create_table_transaction(self._identifier, schema, location, properties=properties)


class IcebergChange(StagedChange):
    def __init__(
        self, transaction: Transaction, change: TargetChange, table: Table | None, schema: Schema, context: LakeContext
    ) -> None:
        self._change, self._table, self._context = change, table, context
        self._transaction = transaction
        self._define(schema)
        self._replace_files()

    def read(self, paths: Collection[str] | None) -> pa.RecordBatchReader:
        metadata, io = self._transaction.table_metadata, self._transaction._table.io
        if paths is None:
            tasks = list(DataScan(table_metadata=metadata, io=io).plan_files()) if metadata.current_snapshot() else []
        else:
            store, new = self._store(), _live(metadata, io, added_by=metadata.current_snapshot_id)
            tasks = [FileScanTask(file) for file in new if _path(store, file) in paths]
        schema = scan_schema(metadata.schema())
        batches = ArrowScan(metadata, io, metadata.schema(), AlwaysTrue()).to_record_batches(tasks) if tasks else ()
        return pa.RecordBatchReader.from_batches(schema, (_as(one, schema) for one in batches))

    def commit(self) -> Version:
        try:
            return self._transaction.commit_transaction().metadata.current_snapshot_id or 0
        except CommitFailedException as error:
            raise TransientError(Code.COMMIT_FAILED, f"another writer has committed meanwhile: {error}") from error
        except DBAPIError as error:  # the catalog's database is taken, or away
            raise TransientError(Code.COMMIT_FAILED, f"the catalog could not commit: {error.orig}") from error

    def discard(self) -> None:
        """Metadata that nothing names are a few small files, in the folder that goes with the target."""

    # --- inside

    def _define(self, schema: Schema) -> None:
        """Columns and partitioning, where they are not as they should be."""
        now = self._transaction.table_metadata
        if now.schema().as_struct() != schema.as_struct():
            known = max(one.schema_id for one in now.schemas) + 1
            added = Schema(*schema.fields, schema_id=known)
            self._transaction._apply((AddSchemaUpdate(schema=added), SetCurrentSchemaUpdate()))
        spec = partition_spec(self._transaction.table_metadata, self._change.to.partition_by)
        if spec is not None:
            now = self._transaction.table_metadata
            same = next((one.spec_id for one in now.partition_specs if one.fields == spec.fields), None)
            if same is None:
                self._transaction._apply((AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate()))
            else:
                self._transaction._apply((SetDefaultSpecUpdate.model_validate({"spec-id": same}),))
        files = (footer.schema.to_arrow_schema() for footer in self._change.footers.values())
        now, before = self._transaction.table_metadata, self._transaction.table_metadata.properties.get(_MAPPING)
        wanted = name_mapping(self._change.to.schema, now.schema(), files, before)
        if before != wanted:
            self._transaction.set_properties({_MAPPING: wanted})

    def _replace_files(self) -> None:
        change, note = self._change, self._change.note
        snapshot = {NOTE: note.to_json()}
        going = self._going()
        if self._transaction.table_metadata.properties.get(_ROOT) != change.to.root:
            self._transaction.set_properties({_ROOT: change.to.root})
        if change.added or change.removed:
            update = self._transaction.update_snapshot(snapshot_properties=snapshot)
            producer: Any = update.overwrite() if change.removed else update.merge_append()
            for file in change.added:
                producer.append_data_file(self._data_file(file))
            for gone in going:
                producer.delete_data_file(gone)
            producer.commit()
        _note(self._transaction, note)

    def _going(self) -> list[DataFile]:
        if not self._change.removed or self._table is None:
            return []
        store, removed = Files(_root(self._table), self._context.storage), set(self._change.removed)
        return [file for file in _live(self._table.metadata, self._table.io) if _path(store, file) in removed]

    def _store(self) -> Files:
        return Files(self._change.to.root, self._context.storage)

    def _data_file(self, file: SharedFile) -> DataFile:
        metadata = self._transaction.table_metadata
        schema, spec = metadata.schema(), metadata.spec()
        footer = footer_of(self._change.footers[file.path])
        nulls, low, high = bounds(schema, self._change.to.schema, footer)
        named = [(schema.find_column_name(field.source_id) or "", field.source_id) for field in spec.fields]
        values = [literal(file.partition.get(name), schema.find_type(number)) for name, number in named]
        found = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._change.to.root.rstrip('/')}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            record_count=footer.rows,
            file_size_in_bytes=file.bytes,
            column_sizes={},
            value_counts=dict.fromkeys(nulls, footer.rows),
            null_value_counts=nulls,
            nan_value_counts={},
            lower_bounds=low,
            upper_bounds=high,
            key_metadata=None,
            split_offsets=None,
            equality_ids=None,
            sort_order_id=None,
        )
        found.spec_id = spec.spec_id
        return found


def scan_schema(schema: Schema) -> pa.Schema:
    """The columns as they are read, without numbers."""
    found = shared_columns(schema, lambda name: name)
    return pa.schema([pa.field(one.name, spark_type(one.type)) for one in found])


def _root(table: Table) -> str:
    """The folder of its files."""
    return table.properties.get(_ROOT, table.location())


def _folder(namespace: tuple[str, ...], table: str) -> str:
    return "/".join((*namespace, table))


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch without large texts, and without its columns' numbers."""
    return pa.RecordBatch.from_arrays([conformed(batch.column(one.name), one.type) for one in schema], schema=schema)


def _live(metadata: TableMetadata, io: FileIO, added_by: int | None = None) -> Iterator[DataFile]:
    """The files of the current snapshot; `added_by`: only those that this one has added."""
    snapshot = metadata.current_snapshot()
    for manifest in () if snapshot is None else snapshot.manifests(io):
        if added_by is None or manifest.added_snapshot_id == added_by:
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                if added_by is None or entry.status == ManifestEntryStatus.ADDED:
                    yield entry.data_file


def _metadata_files(table: Table, snapshot: Snapshot) -> set[str]:
    """What only the metadata of a snapshot are."""
    return {snapshot.manifest_list, *(one.manifest_path for one in snapshot.manifests(table.io))}


def _path(store: Files, file: DataFile) -> str:
    return relative(store, file.file_path)


def _note(transaction: Transaction, note: SyncNote | None) -> None:
    """Say in the table's properties what it was made of, and that nobody else has written since."""
    if note is None:
        return
    mark = _mark_of(transaction.table_metadata)
    transaction.set_properties({NOTE: replace(note, mark=mark).to_json()})


def _mark(table: Table) -> str:
    return _mark_of(table.metadata)


def _mark_of(metadata: Any) -> str:
    """What changes whenever somebody writes to the table or changes its definition."""
    return f"{metadata.current_snapshot_id}/{metadata.current_schema_id}/{metadata.default_spec_id}"
