"""A copy in files of one format: written by Spark, read back by a library that is not Spark."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.core.errors import Code, TerminalError
from headwater.core.model import CommitTag
from headwater.targets.base import (
    Checksum,
    Destination,
    ExportTarget,
    ForeignReader,
    SourceState,
    StagedCopy,
    TargetKind,
)
from headwater.targets.files.base import FileFormat
from headwater.targets.files.folder import ExportFolder
from headwater.targets.files.manifest import CopyManifest
from headwater.targets.files.partitions import partitioned, values_in, with_partitions
from headwater.targets.files.workers import WorkerFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUIET = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
_PROBE_ROWS = 10_000


class FileTarget(ExportTarget):
    """A folder with a manifest."""

    def __init__(self, kind: TargetKind, destination: Destination, format: FileFormat) -> None:
        super().__init__(kind, destination)
        self.format = format
        self._folder: ExportFolder | None = None
        self._columns: list[dict[str, str]] = []

    def exists(self) -> bool:
        folder = ExportFolder(self.destination.files, "")
        folder.clear_left()
        return not folder.is_empty()

    def prepared(self, rows: DataFrame) -> DataFrame:
        return self.format.prepare(rows, self.definition)

    def stage(self, rows: DataFrame, source: SourceState) -> StagedCopy:
        folder = self._folder = ExportFolder(self.destination.files, source.run)
        folder.clear_left()
        if self.definition.if_exists == "overwrite":
            folder.require_own(self.format.ending)
        self._columns = [{"name": f.name, "type": f.dataType.simpleString()} for f in rows.schema.fields]
        self._write(rows, folder.aside)
        staged = folder.staged()
        return StagedCopy(None, sum(entry.bytes for entry in staged), len(staged))

    def _write(self, rows: DataFrame, aside: str) -> None:
        files = self.destination.files
        rows, partitions = partitioned(rows, self.definition.partition_by)
        open_writer = self.format.writer(self.definition)
        if open_writer is not None:
            context, ending = self.destination.context, self.format.ending
            WorkerFiles(files.root, context.storage, aside, ending, self.definition, partitions, open_writer).write(
                rows
            )
            return
        writer = rows.write.format(self.format.source).mode("overwrite")
        writer = writer.options(**_QUIET, **self.format.options(self.definition))
        if self.definition.target_file_size is not None:
            writer = writer.option("maxRecordsPerFile", self._rows_per_file(rows, aside))
        if partitions:
            writer = writer.partitionBy(*partitions)
        writer.save(files.spark_uri(aside))

    def _rows_per_file(self, rows: DataFrame, aside: str) -> int:
        """As many rows as a file of the wanted size holds, as far as the first ones tell."""
        files, size = self.destination.files, self.definition.target_file_size
        assert size is not None
        probe = f"{aside}/_probe"
        first = rows.limit(_PROBE_ROWS)
        options = {**_QUIET, **self.format.options(self.definition)}
        first.write.format(self.format.source).options(**options).save(files.spark_uri(probe))
        written = sum(entry.bytes for entry in files.list(probe, recursive=True) if not entry.name.startswith("."))
        rows_written = first.count()
        files.delete(probe)
        return max(1, size * max(1, rows_written) // max(1, written))

    def readers(self, *, sample: bool = False) -> Iterator[ForeignReader]:
        library = self.format.library
        if library:
            yield ForeignReader(library, version(library), batches=self._batches)
        else:
            yield ForeignReader("python", platform.python_version(), batches=self._batches)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        files = self.destination.files
        for path in self._paths():
            values = values_in(path)
            known = pa.schema([field for field in schema if field.name not in values])
            with files.reading(path) as opened:
                yield from with_partitions(self.format.read(opened, known, self.definition), schema, values)

    def _paths(self) -> list[str]:
        """What was staged; else what is published."""
        if self._folder is not None:
            return [entry.path for entry in self._folder.staged()]
        manifest = CopyManifest.read(self.destination.files)
        return [] if manifest is None else [file.path for file in manifest.files]

    def publish(self, written: StagedCopy, source: SourceState, checksum: Checksum | None) -> None:
        self._show(source.to_json(), self._columns, checksum, appends=self.definition.if_exists == "append")

    def discard(self) -> None:
        if self._folder is not None:
            self._folder.clear()
            self._folder = None

    def landed(self, commit_tag: CommitTag) -> bool:
        manifest = CopyManifest.read(self.destination.files)
        known = None if manifest is None else manifest.source.get("step")
        if known is None:
            return False
        if known["flow"] != commit_tag.flow:
            raise TerminalError(
                Code.EXPORT_CHANGED,
                f"{self.destination.location} is the copy of {known['flow']}",
                hint="export to another folder",
            )
        return (int(known["epoch"]), int(known["step"])) >= (commit_tag.epoch, commit_tag.step)

    def apply(self, change: DataFrame, commit_tag: CommitTag, *, first: bool) -> StagedCopy:
        run = f"{commit_tag.flow}-{commit_tag.epoch}-{commit_tag.step}"
        folder = self._folder = ExportFolder(self.destination.files, run)
        folder.clear_left()
        try:
            self._write(change, folder.aside)
            checksum = None
            if self.verify_step is not None:
                checksum = self.verify_step(next(self.readers()), change)
            source = {
                "versions": {label: _version(position) for label, position in commit_tag.positions.items()},
                "step": {"flow": commit_tag.flow, "epoch": commit_tag.epoch, "step": commit_tag.step},
            }
            columns = [{"name": f.name, "type": f.dataType.simpleString()} for f in change.schema.fields]
            written = self._show(source, columns, checksum, appends=not first)
        except BaseException:
            self.discard()
            raise
        return written

    def _show(
        self, source: Mapping[str, object], columns: list[dict[str, str]], checksum: Checksum | None, *, appends: bool
    ) -> StagedCopy:
        """Move the staged files in, and commit them by the manifest; without `appends` they are the whole copy."""
        folder = self._folder
        assert folder is not None
        before = CopyManifest.read(folder.files) if appends else None
        rows, value = (None, None) if checksum is None else (checksum.rows, checksum.value)
        made = CopyManifest(self.kind.name, folder.move_in(folder.staged()), source, columns, rows, value)
        whole = made if before is None else before.followed_by(made)
        whole.write(folder.files)
        self._folder = None
        if not appends:
            folder.remove(list(folder.others(file.path for file in whole.files)))
        if folder.moves:
            folder.files.delete(folder.aside)
        return StagedCopy(rows, made.bytes, len(made.files))

    def visible(self) -> dict[str, object]:
        manifest = CopyManifest.read(self.destination.files)
        return {} if manifest is None else dict(manifest.source)


def _version(position: object) -> object:
    return position.get("version") if isinstance(position, Mapping) else position
