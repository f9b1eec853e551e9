"""What one file format brings: how Spark writes it, and how a reader that is not Spark reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.core.spec import Export

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import NativeFile
    from pyspark.sql import DataFrame

OpenWriter = Callable[["NativeFile", "pa.Schema", Export], Any]
"""Opens a writer of one file, which takes batches."""


def _as_it_is(rows: DataFrame, definition: Export) -> DataFrame:
    return rows


def _no_options(definition: Export) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class FileFormat:
    """A file format as its kind's target needs it."""

    name: str
    ending: str
    source: str
    """Spark's name of it."""
    library: str
    """The Python package that reads it back; none: Python itself."""
    read: Callable[[NativeFile, pa.Schema, Export], Iterator[pa.RecordBatch]]
    """The rows of one file. Called for each file, with the columns that are in it."""
    options: Callable[[Export], Mapping[str, str]] = _no_options
    """Spark's options for writing."""
    prepare: Callable[[DataFrame, Export], DataFrame] = _as_it_is
    """The rows as the files will hold them."""
    writer: Callable[[Export], OpenWriter | None] = lambda definition: None
    """What writes its files in Spark's workers, where Spark can't write them."""
