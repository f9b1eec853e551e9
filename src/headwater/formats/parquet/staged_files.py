"""New files of a table: written aside by Spark or pyarrow, then moved into place before the log names them.

An attempt has a folder `_staging/<attempt>` until it is over. Before the first file is moved, `moves.json` in
it lists where the files go, so that whoever writes next can take away what a crash has left: files that no
entry names.
"""

from __future__ import annotations

import json
import posixpath
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headwater.core.model import CommitTag, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.footers import row_counts
from headwater.formats.parquet.log import Log, TableLogFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGING = "_staging"
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
OURS = re.compile(r"-[0-9a-f]{12}-\d{5}\.parquet$")
"""How the name of every data file ends: which attempt wrote it, and its number in it."""

_UNFIT = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_DATA = "data"
_MOVES = "moves.json"
_CODECS = {"none": "uncompressed", "lz4": "lz4_raw"}
_BLOOM_BYTES = 128 * 1024


_under_way: set[str] = set()
"""Attempts of this process that are written without the lock: rewrites, while other steps commit."""


class Attempt:
    """One try to add files to a table."""

    def __init__(self, files: Files, label: str, *, unlocked: bool = False) -> None:
        """`unlocked`: written without the table's lock; other writers must leave it alone until it is over."""
        self.token = uuid.uuid4().hex[:12]
        if unlocked:
            _under_way.add(self.token)
        self._files = files
        self._label = label
        self._folder = f"{STAGING}/{self.token}"
        self._writes = 0
        self._staged: dict[str, TableLogFile] = {}

    @property
    def staged(self) -> list[TableLogFile]:
        """The staged files, by their paths from `data`."""
        return list(self._staged.values())

    @property
    def data(self) -> str:
        """The folder of the staged files."""
        return f"{self._folder}/{_DATA}-{self._writes}"

    def write(self, df: DataFrame, layout: Layout, generation: int, max_rows: int | None = None) -> None:
        """Let Spark write the rows aside; repeated, it takes the place of what was staged before."""
        self._writes += 1
        options = writer_options(layout) | ({"maxRecordsPerFile": str(max_rows)} if max_rows else {})
        writer = _foldable(df, layout).write.mode("error").options(**options)
        writer.partitionBy(*layout.partition_by).parquet(self._files.spark_uri(self.data))
        self._staged = self._found(generation)

    def put(self, content: bytes, rows: int, partition: Mapping[str, str | None], generation: int) -> None:
        """Stage one file that was written without Spark."""
        folders = [f"{_escaped(name)}={_folder(value)}" for name, value in partition.items()]
        inner = "/".join([*folders, f"{len(self._staged):05d}.parquet"])
        path = f"{self.data}/{inner}"
        self._files.write_atomic(path, content)
        self._staged[path] = TableLogFile(inner, len(content), rows, partition, generation)

    def publish(self, version: Version) -> tuple[TableLogFile, ...]:
        """Move the staged files into place; the log must name them next."""
        targets: dict[str, TableLogFile] = {}
        for number, (source, file) in enumerate(self._staged.items()):
            folder = posixpath.dirname(file.path)
            name = f"{self._label}-{self.token}-{number:05d}.parquet"
            targets[source] = TableLogFile(
                posixpath.join(folder, name), file.bytes, file.rows, file.partition, file.generation
            )
        moves = {"version": version, "targets": [file.path for file in targets.values()]}
        self._files.write_atomic(f"{self._folder}/{_MOVES}", json.dumps(moves))
        for source, file in targets.items():
            self._files.move(source, file.path)
        return tuple(targets.values())

    def over(self) -> None:
        _under_way.discard(self.token)
        self._files.delete(self._folder)

    def _found(self, generation: int) -> dict[str, TableLogFile]:
        written = {
            entry.path: entry
            for entry in self._files.list(self.data, recursive=True)
            if entry.name.endswith(".parquet") and not entry.name.startswith((".", "_"))
        }
        rows = row_counts(self._files, written)
        found: dict[str, TableLogFile] = {}
        for path, entry in written.items():
            inner = posixpath.relpath(path, self.data)
            if rows[path]:  # Spark writes an empty file where there are no rows at all
                partition = partition_values(posixpath.dirname(inner))
                found[path] = TableLogFile(inner, entry.bytes, rows[path], partition, generation)
        return found


def clear(files: Files, log: Log) -> None:
    """Take away what unfinished attempts have left: staged files, and moved ones that no entry names."""
    for folder in files.list(STAGING):
        if folder.name in _under_way:
            continue
        found = files.find(f"{folder.path}/{_MOVES}")
        if found is not None:
            moves = json.loads(found)
            entry = log.entry(moves["version"])
            if entry is None or entry.attempt != folder.name:
                for path in moves["targets"]:
                    files.delete(path)
        files.delete(folder.path)


def step_label(commit_tag: CommitTag | None) -> str:
    """What a step's files are called, safe in every file system and URI."""
    if commit_tag is None:
        return "append"
    flow = re.sub(r"[^A-Za-z0-9.]+", "-", commit_tag.flow).strip("-.")[:80]
    return f"{flow or 'flow'}-{commit_tag.epoch}-{commit_tag.step}"


def writer_options(layout: Layout) -> dict[str, str]:
    """The Parquet options as Spark's writer takes them; the layout's own `options` have the last word."""
    parquet = layout.parquet
    options = {"timeZone": "UTC"}
    if parquet.compression is not None:
        options["compression"] = _CODECS.get(parquet.compression, parquet.compression)
    if parquet.row_group_size is not None:
        options["parquet.block.size"] = str(parquet.row_group_size)
    if parquet.dictionary is not None:
        options["parquet.enable.dictionary"] = str(parquet.dictionary).lower()
    if parquet.bloom_filter:
        # A filter takes all it may have; the writer's own bound of 1 MiB would outweigh a small file.
        options["parquet.bloom.filter.max.bytes"] = str(_BLOOM_BYTES)
        options |= {f"parquet.bloom.filter.enabled#{name}": "true" for name in parquet.bloom_filter}
    return options | layout.options


def partition_values(folder: str) -> Mapping[str, str | None]:
    """The partition columns' values from a folder `day=2026-01-01/tenant=a%2Fb`."""
    values: dict[str, str | None] = {}
    for part in filter(None, folder.split("/")):
        name, _, value = part.partition("=")
        values[unquote(name)] = None if value == NULL_FOLDER else unquote(value)
    return values


def _folder(value: str | None) -> str:
    return NULL_FOLDER if value is None else _escaped(value)


def _escaped(text: str) -> str:
    """A name or value as Spark writes it into a folder's name."""
    return _UNFIT.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _foldable(df: DataFrame, layout: Layout) -> DataFrame:
    """Texts that no folder can be named after become NULL, here and not by the writer's accident."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    from headwater.spark.frames import column

    for name in layout.partition_by:
        if isinstance(df.schema[name].dataType, StringType):
            text = column(name)
            df = df.withColumn(name, F.when(~text.isin("", NULL_FOLDER), text))
    return df
