"""A folder that files land in, and the reader of it, as a flow uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from headwater.core.errors import Where
from headwater.core.spec.base import placed
from headwater.core.storage import Files
from headwater.sources.decoders.base import POSITION
from headwater.sources.decoders.bounded import BoundedDecoder
from headwater.sources.files.config import FilesSource
from headwater.sources.files.reader import FilesReader
from headwater.sources.reader import Position, ReaderContext
from headwater.spark.session import fork


def put(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@dataclass
class Landing:
    """One source under a root of its own; `reader` is rebuilt as after a restart."""

    root: Path
    spark: SparkSession
    options: dict[str, Any] = field(default_factory=dict)
    position: Position | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.reader = self.restarted()

    @property
    def folder(self) -> Path:
        return self.root / "landing"

    @property
    def spec(self) -> FilesSource:
        return FilesSource.model_validate({"path": "landing", **self.options})

    def put(self, **files: str | bytes) -> None:
        """`a_json="…"` is the file `a.json`."""
        put(self.folder, {name.replace("_", "."): content for name, content in files.items()})

    def restarted(self) -> FilesReader:
        spec = self.spec
        notes = Files(str(self.root / "notes"))
        context = ReaderContext(fork(self.spark), "topics.x", notes, lambda path: str(self.root / path), {})
        return FilesReader(placed(spec, "landing", Where("headwater.yml", 3)), context)

    def fix_range(self) -> Position | None:
        """The end of the next range, or None."""
        ahead = self.reader.next(self.position)
        return None if ahead is None else self.reader.fix_range(self.position, ahead)

    def records(self, end: Position) -> DataFrame:
        return self.reader.read(self.position, end)

    def take(self) -> list[Row]:
        """The next range, decoded, in order of position, as a flow would take it."""
        end = self.fix_range()
        assert end is not None, "nothing is new"
        try:
            rows = self._decoded(end)
        except Exception as error:
            if not self.reader.inspect(self.position, end, error):
                raise
            rows = self._decoded(end)
        self.reader.committed(end)
        self.position = end
        return rows

    def _decoded(self, end: Position) -> list[Row]:
        records = self.records(end)
        decoder = BoundedDecoder(self.reader.decoder, self.spec.max_record_size)
        return decoder.decode(records, decoder.detect(records)).orderBy(POSITION).collect()
