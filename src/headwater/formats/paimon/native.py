"""A Paimon table without a JVM, through pypaimon. Read only: what pypaimon writes, Paimon 0.9 can't read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version as installed
from itertools import islice
from typing import Any

import pyarrow as pa

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.model import At, Commit, CommitTag, DataFile, TableStats, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.footers import column_bytes
from headwater.formats.native import NativeTable
from headwater.formats.native_stats import native_stats
from headwater.formats.paimon.account import DELTA, WrittenFile, as_commit
from headwater.formats.paimon.manifests import ManifestEntry, entries, folder_of, partition_text, partition_values
from headwater.formats.paimon.names import location
from headwater.formats.paimon.schema_files import TableSchema
from headwater.formats.paimon.snapshots import PaimonSnapshot, landed, version_at, writes
from headwater.schema.arrow import as_spark
from headwater.schema.columns import TableColumn

TRIED = "2.1."
"""The pypaimon whose rows were compared with Spark's."""

_STATS_COLUMNS = "_VALUE_STATS_COLS"
_PLAIN = re.compile(r"^\w+$")


class PaimonNativeTable(NativeTable):
    """Snapshots are read here, so that versions are counted as on Spark's side; rows by pypaimon."""

    def __init__(self, address: Address, context: LakeContext) -> None:
        super().__init__(address, context)
        self._location = location(address, context)
        self._files = Files(self._location, context.storage)

    def exists(self) -> bool:
        return self._files.exists("schema")

    def version(self) -> Version | None:
        latest = next(self._newest_first(), None)
        return None if latest is None else latest.id

    def version_at(self, at: At) -> Version:
        if isinstance(at, datetime):
            found = version_at(self._newest_first(), at)
        else:
            found = None if self._files.find(_path(at)) is None else at
        if found is None:
            raise TerminalError(Code.NO_SUCH_VERSION, f"Apache Paimon table {self.address} has no version {at}")
        return found

    def read(self, at: At | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        table = self._open()
        version = self.version() if at is None else self.version_at(at)
        if version is not None:
            pinned = {"scan.snapshot-id": str(version)}
            # the latest rows have the latest columns, a version's rows have that version's
            table = table.copy_without_time_travel(pinned) if at is None else table.copy(pinned)
        builder = table.new_read_builder()
        narrowed = columns is not None and all(_PLAIN.match(name) for name in columns)
        if narrowed:  # pypaimon takes other names for paths into structs
            builder = builder.with_projection(list(columns or ()))
        splits = [] if version is None else builder.new_scan().plan().splits()
        reader = as_spark(builder.new_read().to_arrow_batch_reader(splits))
        return reader if columns is None or narrowed else _selected(reader, columns)

    # --- lookups

    def history(self, limit: int | None = None) -> list[Commit]:
        keyed = bool(self._schema().keys)
        return [as_commit(write, keyed, self._written) for write in islice(writes(self._newest_first()), limit)]

    def committed_at(self, version: Version) -> datetime | None:
        text = self._files.find(_path(version))
        return None if text is None else PaimonSnapshot.from_json(text.decode()).at

    def landed(self, commit_tag: CommitTag) -> Version | None:
        return landed(self._newest_first(), commit_tag)

    def columns(self) -> tuple[TableColumn, ...]:
        return self._schema().columns()

    def layout(self) -> Layout:
        return self._schema().layout()

    def files(self) -> list[DataFile]:
        version = self.version()
        return [] if version is None else [self._data_file(entry) for entry in self._live(version)]

    def stats(self) -> TableStats:
        files = self.files()
        sizes: dict[str, int] = {}
        if all(file.path.endswith(".parquet") for file in files):
            sizes = column_bytes(self._files, [file.path for file in files])
        return native_stats(self, self.columns(), files, sizes)

    def _data_file(self, entry: ManifestEntry) -> DataFile:
        schema = self._schema()
        if schema.options.get("partition.legacy-name", "true") != "true" or "partition.default-name" in schema.options:
            raise Unsupported(f"the folders of {self.address} are named otherwise than Headwater knows")
        columns = schema.partition_columns()
        values = partition_values(entry.partition, columns)
        folder = "/".join(filter(None, [folder_of(values), f"bucket-{entry.bucket}"]))
        texts = {name: partition_text(values[name], kind) for name, kind in columns}
        return DataFile(self._files.join(folder, entry.name), entry.bytes, entry.rows, texts)

    def _live(self, version: Version) -> list[ManifestEntry]:
        said = self._said(version)
        return entries(self._files, [said["baseManifestList"], said["deltaManifestList"]])

    def _written(self, version: Version, mode: str) -> list[WrittenFile]:
        name = "deltaManifestList" if mode == DELTA else "changelogManifestList"
        found = entries(self._files, [self._said(version).get(name)])
        return [WrittenFile(entry.is_added, entry.rows, entry.deletes) for entry in found]

    def _said(self, version: Version) -> dict[str, Any]:
        text = self._files.find(_path(version))
        if text is None:
            raise Unsupported(f"snapshot {version} of {self.address} was expired meanwhile")
        said: dict[str, Any] = json.loads(text)
        return said

    def _schema(self) -> TableSchema:
        return TableSchema.latest(self._files)

    # --- for tables of other formats

    @property
    def folder(self) -> Files:
        """The table's folder."""
        return self._files

    def table_schema(self) -> TableSchema:
        """Columns, keys and options."""
        return self._schema()

    def entries_at(self, version: Version) -> list[ManifestEntry]:
        """The live files of a version."""
        if self._said(version).get("indexManifest"):
            raise Unsupported(f"{self.address} has an index of hidden rows or buckets, which other formats do not read")
        return self._live(version)

    def data_file(self, entry: ManifestEntry) -> DataFile:
        """A live file, as the others are told."""
        return self._data_file(entry)

    # --- inside

    def _newest_first(self) -> Iterator[PaimonSnapshot]:
        names = [entry.name for entry in self._files.list("snapshot")] if self._files.exists("snapshot") else []
        ids = sorted((int(name[9:]) for name in names if re.match(r"^snapshot-\d+$", name)), reverse=True)
        for snapshot_id in ids:
            text = self._files.find(_path(snapshot_id))
            if text is None:
                return  # expired since it was listed, and all before it
            yield PaimonSnapshot.from_json(text.decode())

    def _open(self) -> Any:
        if not self._files.is_local:
            raise Unsupported(f"pypaimon has only been compared with Spark on local files ({self.address})")
        found = installed("pypaimon")
        if not found.startswith(TRIED):
            raise Unsupported(f"pypaimon {found} has not been compared with Spark, only {TRIED}x has")
        _reads_older_manifests()
        from pypaimon.table.file_store_table import FileStoreTable

        return FileStoreTable.from_path(self._location)


@lru_cache(maxsize=1)
def _reads_older_manifests() -> None:
    """Let pypaimon take a manifest of Paimon 0.9, which has no field for a file's columns with statistics.

    Since then a file may have statistics of some columns; without the field it has them of all, as with NULL.
    """
    from pypaimon.manifest.manifest_file_manager import ManifestFileManager

    original = ManifestFileManager._get_value_stats_fields

    def with_default(self: Any, file: dict[str, Any], schema: Any) -> Any:
        return original(self, {_STATS_COLUMNS: None, **file}, schema)

    ManifestFileManager._get_value_stats_fields = with_default


def _path(version: Version) -> str:
    return f"snapshot/snapshot-{version}"


def _selected(reader: pa.RecordBatchReader, columns: Sequence[str]) -> pa.RecordBatchReader:
    schema = pa.schema([reader.schema.field(name) for name in columns])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(list(columns)) for batch in reader))
