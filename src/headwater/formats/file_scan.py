"""A table as the Parquet files that hold exactly its rows, for engines that read Parquet themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headwater.core.model import Version

if TYPE_CHECKING:
    import pyarrow as pa

_PATTERN = re.compile(r"[*?\[\]{}]")


@dataclass(frozen=True)
class ColumnBounds:
    """What a table's metadata says of a column in one file; None is 'not known'."""

    min: Any = None
    max: Any = None
    nulls: int | None = None


@dataclass(frozen=True)
class ScannedFile:
    """One file: every row in it is a row of the table."""

    path: str
    bytes: int
    rows: int | None = None
    partition: Mapping[str, Any] = field(default_factory=dict)
    """The values of the columns that the file does not hold itself."""
    bounds: Mapping[str, ColumnBounds] = field(default_factory=dict)


@dataclass(frozen=True)
class ParquetScan:
    """A version of a table: its schema in Spark's types, and its files."""

    version: Version | None
    schema: pa.Schema
    files: tuple[ScannedFile, ...]
    partition_columns: tuple[str, ...] = ()
    field_ids: Mapping[str, int] | None = None
    """Where the files' columns are known by number and not by name."""

    @cached_property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @cached_property
    def has_patterns(self) -> bool:
        """Whether a path has a character that stands for others where lists of files are read."""
        return any(_PATTERN.search(file.path) for file in self.files)

    @cached_property
    def rows(self) -> int | None:
        counts = [file.rows for file in self.files]
        return None if None in counts else sum(count or 0 for count in counts)
