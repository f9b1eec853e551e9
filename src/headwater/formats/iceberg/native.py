"""An Iceberg table without a JVM, through pyiceberg."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError, NotInstalledError, ValidationError
from pyiceberg.io import load_file_io
from pyiceberg.manifest import FileFormat
from pyiceberg.table import DataScan, StaticTable, Table

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.model import At, Commit, CommitTag, DataFile, TableStats, Version
from headwater.core.secret import Secret
from headwater.core.spec import Layout
from headwater.formats.base import Address, LakeContext
from headwater.formats.file_scan import ParquetScan
from headwater.formats.iceberg import lookups
from headwater.formats.iceberg.file_scan import scan
from headwater.formats.iceberg.metadata import Metadata, unreadable
from headwater.formats.iceberg.names import catalog_of, lake_location, table_name
from headwater.formats.iceberg.stored_layout import layout_of
from headwater.formats.native import NativeTable
from headwater.formats.native_stats import native_stats
from headwater.schema.arrow import as_spark
from headwater.schema.columns import TableColumn

_TORN = (ValidationError, ValueError, EOFError)
"""What pyiceberg raises over a metadata file that was cut, or is something else."""
_STORAGE = {
    ("s3", "endpoint"): "s3.endpoint",
    ("s3", "access_key"): "s3.access-key-id",
    ("s3", "secret_key"): "s3.secret-access-key",
    ("s3", "session_token"): "s3.session-token",
    ("s3", "region"): "s3.region",
    ("azure", "account"): "adls.account-name",
    ("azure", "account_key"): "adls.account-key",
}


class IcebergNativeTable(NativeTable):
    """Opens the table again for each question, so that every answer is the latest."""

    def __init__(self, address: Address, context: LakeContext) -> None:
        super().__init__(address, context)
        self._name = table_name(address)
        self._catalog: Catalog | None = None
        self._database: int | None = None
        """Which file the catalog is: one that was deleted stays readable for those who have it open."""
        self._scanned: tuple[object, ParquetScan] | None = None

    def version(self) -> Version | None:
        current = _metadata(self._open()).current
        return current.id if current else None

    def version_at(self, at: At) -> Version:
        return self._find(_metadata(self._open()), at)

    def read(self, at: At | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        table = self._open()
        version = None if at is None else self._find(_metadata(table), at)
        if version is not None and version == table.metadata.current_snapshot_id:
            version = None  # the latest is read under the present schema, which may be newer than it
        scan = table.scan(selected_fields=tuple(columns) if columns is not None else ("*",), snapshot_id=version)
        self._refuse_inexact(table, scan)
        reader = as_spark(scan.to_arrow_batch_reader())
        return reader if columns is None else _ordered(reader, columns)

    def size(self) -> int | None:
        current = self._open().current_snapshot()
        told = None if current is None or current.summary is None else current.summary["total-files-size"]
        return None if told is None else int(told)

    def parquet(self, at: At | None = None) -> ParquetScan:
        table = self._open()
        key = (str(table.metadata.table_uuid), table.metadata_location, at)
        if self._scanned is None or self._scanned[0] != key:
            version = None if at is None else self._find(_metadata(table), at)
            if version is not None and version == table.metadata.current_snapshot_id:
                version = None
            self._scanned = (key, scan(table, version))
        return self._scanned[1]

    # --- lookups

    def exists(self) -> bool:
        try:
            self._open()
        except TerminalError as error:
            if error.code is Code.NO_SUCH_RELATION:
                return False
            raise
        return True

    def history(self, limit: int | None = None) -> list[Commit]:
        return [snapshot.commit() for snapshot in _metadata(self._open()).lineage()][:limit]

    def committed_at(self, version: Version) -> datetime | None:
        return None  # a snapshot's id is a random number: no other table has one of the same

    def landed(self, commit_tag: CommitTag) -> Version | None:
        return _metadata(self._open()).landed(commit_tag)

    def columns(self) -> tuple[TableColumn, ...]:
        return lookups.columns_of(_metadata(self._open()))

    def layout(self) -> Layout:
        return layout_of(_metadata(self._open()))

    def files(self) -> list[DataFile]:
        table = self._open()
        return lookups.live_files(table, _metadata(table))

    def stats(self) -> TableStats:
        table = self._open()
        return native_stats(self, self.columns(), self.files(), lookups.column_bytes(table, _metadata(table)))

    def _find(self, metadata: Metadata, at: At) -> Version:
        found = metadata.find(at)
        if found is None:
            raise TerminalError(Code.NO_SUCH_VERSION, f"Iceberg table {self.address} has no version {at}")
        return found

    def _refuse_inexact(self, table: Table, scan: DataScan) -> None:
        """Plan first what pyiceberg may not read: it would fail half-way through the rows."""
        metadata = _metadata(table)
        read = metadata.current if scan.snapshot_id is None else metadata.snapshots[scan.snapshot_id]
        plain = metadata.properties.get("write.format.default", "parquet") == "parquet"
        if read is None or (plain and not read.has_deletes):
            return
        try:
            formats = {task.file.file_format for task in scan.plan_files()}
        except (ValueError, NotImplementedError) as error:
            raise Unsupported(f"pyiceberg does not read {self.address} exactly: {error}") from error
        if formats - {FileFormat.PARQUET}:
            named = ", ".join(sorted(found.value for found in formats))
            raise Unsupported(f"pyiceberg does not read {self.address} exactly: its files are {named}")

    # --- opening

    def opened(self) -> Table:
        """The table itself, for what works with its metadata."""
        return self._open()

    def catalog(self, *, writable: bool = False) -> Catalog:
        """The catalog that the table is in; `writable`: one that keeps its tables in a database gets that made."""
        spec = catalog_of(self._name, self.context)
        if spec is None:
            raise Unsupported(f"the project has no catalog '{self._name.catalog}' ({self.address})")
        found = spec.native_properties(lake_location(self.context))
        if found is None:
            raise Unsupported(f"pyiceberg can't open the {spec.type} catalog '{self._name.catalog}'")
        if writable and "init_catalog_tables" in found:
            found = {**found, "init_catalog_tables": "true"}
        try:
            return load_catalog(
                self._name.catalog, **{**file_properties(self.context.storage), **found, **spec.options}
            )
        except NotInstalledError as error:
            raise Unsupported(f"pyiceberg lacks a part: {error}") from error  # and says what installs it

    def _open(self) -> Table:
        spec = catalog_of(self._name, self.context)
        if spec is None:
            raise Unsupported(f"the project has no catalog '{self._name.catalog}' ({self.address})")
        where = lake_location(self.context)
        found = spec.native_properties(where)
        storage = file_properties(self.context.storage)
        if found is None and spec.by_folder:
            return self._open_folder(spec.properties(where)["warehouse"], {**storage, **spec.options})
        if found is None:
            raise Unsupported(f"pyiceberg can't open the {spec.type} catalog '{self._name.catalog}'")
        try:
            database = _file_number(found.get("uri", ""))
            if self._catalog is None or self._database != database:
                self._database = database
                self._catalog = load_catalog(self._name.catalog, **{**storage, **found, **spec.options})
            return self._catalog.load_table((*self._name.namespace, self._name.table))
        except NotInstalledError as error:
            raise Unsupported(f"pyiceberg lacks a part: {error}") from error  # and says what installs it
        except NoSuchTableError as error:
            raise self._missing() from error
        except _TORN as error:
            raise unreadable(str(self.address), self._recorded(), _in_short(error)) from error

    def _recorded(self) -> str | None:
        """The metadata file that the embedded catalog names; another kind of catalog does not tell."""
        from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
        from sqlalchemy import select
        from sqlalchemy.orm import Session

        if not isinstance(self._catalog, SqlCatalog):
            return None
        table = IcebergTables
        name = (table.table_namespace == ".".join(self._name.namespace)) & (table.table_name == self._name.table)
        with Session(self._catalog.engine) as session:
            mine = (table.catalog_name == self._catalog.name) & name
            return session.scalar(select(table.metadata_location).where(mine))

    def _open_folder(self, warehouse: str, options: dict[str, str]) -> Table:
        """A Hadoop table has no catalog to ask: the newest of its numbered metadata files is the table."""
        folder = "/".join((warehouse.rstrip("/"), *self._name.namespace, self._name.table, "metadata"))
        io = load_file_io(options, location=folder)
        try:
            with io.new_input(f"{folder}/version-hint.text").open() as hint:
                number = int(hint.read())
        except FileNotFoundError as error:
            raise self._missing() from error
        # The hint may lag behind: it is written after the commit.
        while io.new_input(f"{folder}/v{number + 1}.metadata.json").exists():
            number += 1
        file = f"{folder}/v{number}.metadata.json"
        try:
            return StaticTable.from_metadata(file, options)
        except _TORN as error:
            raise unreadable(str(self.address), file, _in_short(error)) from error

    def _missing(self) -> TerminalError:
        return TerminalError(Code.NO_SUCH_RELATION, f"there is no Iceberg table {self.address}")


def file_properties(storage: Mapping[str, Any]) -> dict[str, str]:
    """The project's keys of object stores, under pyiceberg's names."""
    found: dict[str, str] = {}
    for (store, key), name in _STORAGE.items():
        value = dict(storage.get(store) or {}).get(key)
        if value:
            found[name] = value.reveal() if isinstance(value, Secret) else str(value)
    if dict(storage.get("s3") or {}).get("path_style"):
        found["s3.force-virtual-addressing"] = "false"
    return found


def _file_number(uri: str) -> int | None:
    """What tells a catalog's SQLite file from another one in its place; None for another database."""
    try:
        return os.stat(uri.removeprefix("sqlite:///")).st_ino if uri.startswith("sqlite:///") else None
    except FileNotFoundError:
        return None


def _in_short(error: Exception) -> str:
    """What is wrong with a file, without all that pydantic has to say."""
    lines = [line.strip() for line in str(error).splitlines()] or [type(error).__name__]
    return lines[min(1, len(lines) - 1)].partition(" [type=")[0]


def _metadata(table: Table) -> Metadata:
    return Metadata(table.metadata.model_dump_json(by_alias=True))


def _ordered(reader: pa.RecordBatchReader, columns: Sequence[str]) -> pa.RecordBatchReader:
    """The columns in the order asked for: pyiceberg keeps the table's."""
    schema = pa.schema([reader.schema.field(name) for name in columns])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(list(columns)) for batch in reader))
