"""A copy in a table of its own: each snapshot and each step is one commit, which carries the source's version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark

from headwater.core.errors import Code, HeadwaterError, TerminalError, Unsupported, UsageError
from headwater.core.model import CommitTag, Version
from headwater.core.spec import Layout
from headwater.formats.base import Format
from headwater.targets.base import (
    Checksum,
    Destination,
    ExportTarget,
    ForeignReader,
    SourceState,
    StagedCopy,
    TargetKind,
)
from headwater.targets.tables.location import address_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headwater.formats.spark_table import SparkTable

_LOOKED_BACK = 50
"""Commits among which the newest one of an export is looked for."""


class TableTarget(ExportTarget):
    """A table of one of the formats that the lake has too."""

    def __init__(self, kind: TargetKind, destination: Destination, format: Format) -> None:
        super().__init__(kind, destination)
        self._format = format
        self._address = address_of(format, destination.location)
        self._before: Version | None = None
        """The version that a failing snapshot goes back to."""
        self._made = False
        """Whether the snapshot that is under way has made the table."""
        self._staged = False
        self.reads_whole = True

    @property
    def table(self) -> SparkTable:
        return self._format.spark(self.destination.spark, self._address, self.destination.context)

    @property
    def layout(self) -> Layout:
        definition = self.definition
        parquet = definition.parquet
        if definition.compression is not None:
            parquet = parquet.model_copy(update={"compression": definition.compression})
        return Layout(
            keys=definition.primary_key,
            partition_by=definition.partition_by,
            z_order_by=definition.z_order_by,
            target_file_size=definition.target_file_size,
            parquet=parquet,
            options=definition.options,
        )

    def exists(self) -> bool:
        return self.table.exists()

    def check(self, schema: StructType) -> None:
        table = self.table
        if not table.exists() or self.definition.mode == "streaming":
            return
        gone = [name for name in table.schema().names if name not in schema.names]
        if gone:
            raise UsageError(
                Code.SCHEMA_MISMATCH,
                f"{self._address} has the columns {', '.join(gone)}, which the export has not",
                hint="export to another place",
            )
        new = [name for name in schema.names if name not in table.schema().names]
        if new and self.definition.if_exists == "append":
            raise UsageError(
                Code.SCHEMA_MISMATCH, f"{self._address} has no column {', '.join(new)}", hint="export to another place"
            )
        wanted = self.definition.partition_by
        if wanted and tuple(table.layout().partition_by) != tuple(wanted):
            raise UsageError(
                Code.ALREADY_EXISTS,
                f"{self._address} is partitioned by {', '.join(table.layout().partition_by) or 'nothing'}",
                hint="export to another place",
            )

    # --- snapshots

    def stage(self, rows: DataFrame, source: SourceState) -> StagedCopy:
        table = self.table
        positions = {label: {"version": version} for label, version in source.versions.items()}
        commit_tag = CommitTag(f"export {source.run}", 1, 0, positions)
        self._made, self._staged = not table.exists(), True
        if self._made:
            version = table.create_with(rows, self.layout, commit_tag)
        else:
            self._before = table.version()
            table.evolve(rows.schema)
            overwrites = self.definition.if_exists == "overwrite"
            version = table.replace(rows, commit_tag) if overwrites else table.append(rows, commit_tag)
        if self.definition.z_order_by:
            while table.cluster(self.definition.z_order_by) is not None:
                pass
            version = table.version() or version
        files = table.files()
        return StagedCopy(sum(f.rows or 0 for f in files), sum(f.bytes for f in files), len(files), version)

    def readers(self, *, sample: bool = False) -> Iterator[ForeignReader]:
        version = self.table.version()
        reader = self._native(version)
        if reader is not None:
            yield reader
        yield ForeignReader("spark", pyspark.__version__, frame=lambda: self.table.read(version))

    def _native(self, version: Version | None) -> ForeignReader | None:
        """The library without a JVM; None where it can't open such a table."""
        library = self._format.library
        if self._format.native is None or library is None:
            return None
        native: Any = self._format.native(self._address, self.destination.context)
        try:
            native.exists()
        except Unsupported:
            return None

        def batches(schema: pa.Schema) -> Iterable[pa.RecordBatch]:
            yield from native.read(version, columns=schema.names)

        return ForeignReader(library, version_of(library), batches=batches)

    def publish(self, written: StagedCopy, source: SourceState, checksum: Checksum | None) -> None:
        self._staged = False

    def discard(self) -> None:
        if not self._staged:
            return
        self._staged, table = False, self.table
        if self._made:
            table.drop()
        elif self._before is not None and table.version() != self._before:
            table.replace(table.read(self._before))

    # --- streams

    def landed(self, commit_tag: CommitTag) -> bool:
        table = self.table
        if not table.exists():
            return False
        self._require_own(commit_tag)
        return table.landed(commit_tag) is not None

    def apply(self, change: DataFrame, commit_tag: CommitTag, *, first: bool) -> StagedCopy:
        table = self.table
        if not table.exists():
            version = self._begin(change, commit_tag)
        else:
            self._require_own(commit_tag)
            from headwater.core.model import DELETED

            wanted = change.drop(DELETED).schema
            if any(f.name not in table.schema().names or f.dataType != table.schema()[f.name].dataType for f in wanted):
                table.evolve(wanted)
            keys = self.definition.primary_key
            version = table.upsert(change, commit_tag, keys=keys) if keys else table.append(change, commit_tag)
        return StagedCopy(None, 0, 0, version)

    def _begin(self, change: DataFrame, commit_tag: CommitTag) -> Version:
        from headwater.core.model import DELETED

        return self.table.create_with(change.drop(DELETED), self.layout, commit_tag)

    def _require_own(self, commit_tag: CommitTag) -> None:
        """Raise if somebody else has written rows since our last step."""
        for commit in self.table.history(_LOOKED_BACK):
            tag = commit.commit_tag
            if tag is not None and tag.flow == commit_tag.flow:
                return
            if commit.rows_added or commit.rows_removed:
                raise TerminalError(
                    Code.EXPORT_CHANGED,
                    f"{self._address} was written by somebody else: version {commit.version}, {commit.operation}",
                    hint="export to another place, or drop that table and reset the flow",
                )

    def visible(self) -> dict[str, object]:
        try:
            history = self.table.history(_LOOKED_BACK) if self.table.exists() else []
        except HeadwaterError:
            return {}
        return next((dict(commit.commit_tag.positions) for commit in history if commit.commit_tag is not None), {})
