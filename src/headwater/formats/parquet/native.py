"""A plain Parquet table without a JVM: the files that its log names, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.core.errors import Code, TerminalError, Unsupported, did_you_mean
from headwater.core.model import At, Commit, CommitTag, DataFile, TableStats, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.file_scan import ParquetScan, ScannedFile
from headwater.formats.footers import column_bytes
from headwater.formats.native import NativeTable
from headwater.formats.native_stats import native_stats
from headwater.formats.parquet.arrow import arrow_schema, from_text
from headwater.formats.parquet.log import Log, TableLogFile, TableState
from headwater.formats.parquet.native_append import append
from headwater.schema.arrow import conformed
from headwater.schema.columns import TableColumn, columns_of

_BATCH = 64 * 1024


class NativeParquetTable(NativeTable):
    """Reads file by file, and brings each to the table's schema: columns added since, types widened since."""

    def __init__(self, address: Address, context: LakeContext) -> None:
        super().__init__(address, context)
        if address.path is None:
            raise TerminalError(Code.USAGE, f"a Parquet table has a path, not a name ({address})")
        self._files = Files(address.path, context.storage)
        self._log = Log(self._files)
        self._scanned: tuple[tuple[Version, datetime], ParquetScan] | None = None

    def version(self) -> Version | None:
        return self._log.latest().version if self._log.exists() else None

    def version_at(self, at: At) -> Version:
        return self._log.version_at(at)

    def read(self, at: At | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        state = self._log.latest() if at is None else self._log.at(self.version_at(at))
        schema = arrow_schema(state.schema)
        if columns is not None:
            schema = pa.schema([self._field(schema, name) for name in columns])
        for name, text in {pair for file in state.files.values() for pair in file.partition.items()}:
            if name in schema.names:  # what it can't read is said now, and not halfway
                from_text(text, schema.field(name).type)
        batches = (batch for file in state.files.values() for batch in self._batches(file, schema))
        return pa.RecordBatchReader.from_batches(schema, batches)

    def parquet(self, at: At | None = None) -> ParquetScan:
        if not self._files.is_local:
            raise Unsupported(f"{self.address} is not on the local file system")
        state = self._log.latest() if at is None else self._log.at(self.version_at(at))
        key = (state.version, state.committed_at)  # a table rebuilt has other times
        if self._scanned is None or self._scanned[0] != key:
            self._scanned = (key, self._scan(state))
        return self._scanned[1]

    # --- lookups

    def exists(self) -> bool:
        return self._log.exists()

    def history(self, limit: int | None = None) -> list[Commit]:
        newest_first = self._log.versions()[::-1][:limit]
        return [entry.commit() for version in newest_first if (entry := self._log.entry(version)) is not None]

    def committed_at(self, version: Version) -> datetime | None:
        entry = self._log.entry(version)
        return None if entry is None else entry.committed_at

    def landed(self, commit_tag: CommitTag) -> Version | None:
        return self._log.landed(commit_tag)

    def columns(self) -> tuple[TableColumn, ...]:
        return columns_of(self._log.latest().schema)

    def layout(self) -> Layout:
        return Layout.model_validate(self._log.latest().layout)

    def files(self) -> list[DataFile]:
        return [
            DataFile(self._files.join(file.path), file.bytes, file.rows, file.partition)
            for file in self._log.latest().files.values()
        ]

    def stats(self) -> TableStats:
        sizes = column_bytes(self._files, list(self._log.latest().files))
        return native_stats(self, self.columns(), self.files(), sizes)

    def _scan(self, state: TableState) -> ParquetScan:
        schema = arrow_schema(state.schema)
        partitioned = tuple(dict.fromkeys(name for file in state.files.values() for name in file.partition))
        files = (
            ScannedFile(
                path=self._files.inside(file.path),
                bytes=file.bytes,
                rows=file.rows,
                partition={
                    name: from_text(value, schema.field(name).type).as_py() for name, value in file.partition.items()
                },
            )
            for file in state.files.values()
        )
        return ParquetScan(state.version, schema, tuple(files), partitioned)

    def _append(self, rows: pa.Table, commit_tag: CommitTag) -> Version:
        return append(self._files, self._log, self.address, rows, commit_tag)

    def _field(self, schema: pa.Schema, name: str) -> pa.Field:
        if name not in schema.names:
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"{self.address} has no column '{name}'",
                hint=did_you_mean(name, schema.names),
            )
        return schema.field(name)

    def _batches(self, file: TableLogFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._files.reading(file.path) as source:
            found = pq.ParquetFile(source)
            there = [name for name in schema.names if name in found.schema_arrow.names]
            for batch in found.iter_batches(_BATCH, columns=there):
                yield pa.RecordBatch.from_arrays([self._column(file, batch, field) for field in schema], schema=schema)

    @staticmethod
    def _column(file: TableLogFile, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name in file.partition:
            value = from_text(file.partition[field.name], field.type)
            return pa.repeat(value, batch.num_rows)
        if field.name in batch.schema.names:
            return conformed(batch.column(field.name), field.type)
        return pa.nulls(batch.num_rows, field.type)
