"""Files that Spark's Python workers write: one for each task and partition, or more of a wanted size."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.spec import Export
from headwater.core.storage import Files
from headwater.targets.files.base import OpenWriter
from headwater.targets.files.partitions import NO_VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = "path string, bytes bigint"


@dataclass
class WorkerFiles:
    """How the workers write: sent to each of them."""

    root: str
    storage: Mapping[str, Any]
    folder: str
    ending: str
    definition: Export
    partitions: Sequence[str]
    open_writer: OpenWriter
    _open: dict[str, tuple[str, Any, Any]] = field(default_factory=dict)
    """By partition: the path, the sink and the writer of the file that is being written."""

    def write(self, rows: DataFrame) -> None:
        """Write the rows; files of tasks that were tried again are removed."""
        task: Any = self._task
        written = rows.mapInArrow(task, _COLUMNS).collect()
        files = Files(self.root, self.storage)
        named = {row["path"] for row in written}
        for entry in files.list(self.folder, recursive=True):
            if not entry.is_folder and entry.path not in named:
                files.delete(entry.path)
        if not named:  # no rows: a file that has the columns
            from headwater.schema.arrow import arrow_type

            fields = [f for f in rows.schema.fields if f.name not in self.partitions]
            schema = pa.schema([pa.field(f.name, arrow_type(f.dataType.jsonValue())) for f in fields])
            list(self._close(self._begin("", schema)))

    def _task(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self._open = {}
        size = self.definition.target_file_size
        for batch in batches:
            for folder, part in self._parts(batch):
                if folder not in self._open:
                    self._open[folder] = self._begin(folder, part.schema)
                _, sink, writer = self._open[folder]
                writer.write_batch(part)
                if size is not None and sink.tell() >= size:
                    yield from self._close(self._open.pop(folder))
        for one in self._open.values():
            yield from self._close(one)

    def _begin(self, folder: str, schema: pa.Schema) -> tuple[str, Any, Any]:
        files = Files(self.root, self.storage)
        path = posixpath.join(self.folder, folder, f"part-{uuid.uuid4().hex}{self.ending}")
        files.make_folder(posixpath.dirname(path))
        sink = files.open_output(path)
        return path, sink, self.open_writer(sink, schema, self.definition)

    def _close(self, one: tuple[str, Any, Any]) -> Iterator[pa.RecordBatch]:
        path, sink, writer = one
        writer.close()
        size = sink.tell()
        sink.close()
        yield pa.RecordBatch.from_pydict({"path": [path], "bytes": [size]})

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each partition, with the folder that says which it is."""
        if not batch.num_rows:
            return
        if not self.partitions:
            yield "", batch
            return
        texts = [batch.column(name).cast(pa.string()).fill_null(NO_VALUE).to_pylist() for name in self.partitions]
        folders = pa.array(
            "/".join(f"{name}={quote(value, safe=' :')}" for name, value in zip(self.partitions, row, strict=True))
            for row in zip(*texts, strict=True)
        )
        kept = batch.select([name for name in batch.schema.names if name not in self.partitions])
        for folder in pc.unique(folders).to_pylist():
            yield folder, kept.filter(pc.equal(folders, folder))
