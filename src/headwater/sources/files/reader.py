"""Files that land in a folder: each is taken in once, in batches."""

from __future__ import annotations

import fnmatch
import posixpath
import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.errors import Code, TransientError, Unsupported
from headwater.sources.files.config import FilesSource
from headwater.sources.files.log import FileLog, Taken
from headwater.sources.reading import POSITION, RAW, Position, Reader, ReaderContext
from headwater.storage import Entry, Files

MAX_FILES = 1000
"""Files in one step."""

UNFINISHED = re.compile(r"(^[._])|(\.(tmp|part|partial|crdownload|inprogress)$)", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[]")


class FilesReader(Reader):
    """The position is the number of the last batch: `{"batch": 7}`.

    A record's `_position` is `<batch>/<file>#<block>+<record>`: batch, where the block that Spark read begins in the
    file, and the record's number in the task that read it, each of fixed width.
    """

    def __init__(self, spec: FilesSource, context: ReaderContext) -> None:
        if spec.file_format != "json":
            raise Unsupported(f"files of format '{spec.file_format}' can't be taken in yet", where=spec.where)
        self._spec = spec
        self._spark = context.spark
        self._log = FileLog(context.notes)
        root, self._pattern = _split(context.locate(spec.path))
        self._files = Files(root, context.storage)

    def next(self, start: Position | None) -> Position | None:
        begun = 0 if start is None else int(start["batch"])
        if self._log.last > begun:
            return {"batch": begun + 1}  # settled before a crash, and not read yet
        new = self._new_files()
        return {"batch": self._log.add(new)} if new else None

    def read(self, start: Position | None, end: Position) -> DataFrame:
        batch = int(end["batch"])
        taken = self._log.files(0 if start is None else int(start["batch"]), batch)
        paths = [self._files.spark_pattern(file.path) for file in taken]
        reader = self._spark.read.options(**self._spec.options)
        lines = reader.text(paths)
        sequence = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)
        name = F.element_at(F.split("_metadata.file_path", "/"), -1)
        position = F.format_string(f"{batch:012d}/%s#%012d+%010d", name, F.col("_metadata.file_block_start"), sequence)
        rows = lines.select(F.col("value").cast("binary").alias(RAW), position.alias(POSITION))
        return rows.where(F.length(F.trim(F.col(RAW).cast("string"))) > 0)

    def _new_files(self) -> list[Taken]:
        if not self._files.exists():
            raise TransientError(
                Code.SOURCE_UNAVAILABLE, f"there is no folder {self._files.root}", where=self._spec.where
            )
        found = [
            e for e in self._files.list(recursive=self._spec.recursive) if self._wanted(e) and e.path not in self._log
        ]
        found.sort(key=lambda entry: (entry.modified, entry.path))
        return [Taken(e.path, e.bytes, e.modified.isoformat()) for e in found[:MAX_FILES]]

    def _wanted(self, entry: Entry) -> bool:
        if entry.is_folder or any(UNFINISHED.search(part) for part in entry.path.split("/")):
            return False
        if self._pattern is not None and not fnmatch.fnmatchcase(entry.path, self._pattern):
            return False
        return self._spec.pattern is None or fnmatch.fnmatchcase(entry.name, self._spec.pattern)


def _split(path: str) -> tuple[str, str | None]:
    """A folder, and the glob below it that its files have to fit."""
    parts = path.split("/")
    for i, part in enumerate(parts):
        if _GLOB.search(part):
            return posixpath.join("/", *parts[:i]) if path.startswith("/") else "/".join(parts[:i]), "/".join(parts[i:])
    return path, None
