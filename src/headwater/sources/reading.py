"""The seam for reading sources: a range is settled first, and can then be read again with the same records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.storage import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Position = Any
"""How far a source has been read; JSON, and the source's own business."""

RAW = "_raw"
POSITION = "_position"


@dataclass(frozen=True)
class ReaderContext:
    """What a reader works with."""

    spark: SparkSession
    notes: Files
    """A folder of the flow's own in the lake, for what the reader has to remember."""
    locate: Callable[[str], str]
    """A path of the project file as Spark and pyarrow take it."""
    storage: dict[str, Any]


class Reader(ABC):
    """Reads one source for one flow."""

    @abstractmethod
    def next(self, start: Position | None) -> Position | None:
        """The end of the next range after `start` (None: from the beginning), or None if nothing is new."""

    @abstractmethod
    def read(self, start: Position | None, end: Position) -> DataFrame:
        """The records of the range: `_raw` (binary, as they came) and `_position` (sorts in order of arrival)."""

    def committed(self, end: Position) -> None:  # noqa: B027 - most sources have nobody to tell
        """The range is in the lake."""
