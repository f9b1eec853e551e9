"""The seam for reading sources: a range is settled first, and can then be read again with the same records."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.model import At, Commit, Version
from headwater.core.storage import Files
from headwater.sources.decoders.base import POSITION, RAW, Decoder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "POSITION",
    "RAW",
    "Ahead",
    "ForeignTable",
    "Lag",
    "OpenTable",
    "Position",
    "Reader",
    "ReaderContext",
    "Sharing",
]

Position = Any
"""How far a source has been read; JSON, and the source's own business."""


class ForeignTable(Protocol):
    """A lakehouse table as a source sees it: only read, version by version. The formats' own seam says more of each."""

    def exists(self) -> bool: ...

    def schema(self) -> StructType: ...

    def version(self) -> Version | None: ...

    def version_at(self, at: At) -> Version: ...

    def versions_after(self, version: Version | None) -> list[Version]: ...

    def committed_at(self, version: Version) -> datetime | None: ...

    def appending(self, start: Version, versions: Sequence[Version]) -> int: ...

    def changes(self, start: Version | None, end: Version) -> DataFrame: ...

    def history(self, limit: int | None = None) -> list[Commit]: ...


OpenTable = Callable[[str, str | None, str | None], ForeignTable]
"""Opens a table by its format and its path (as the project file has it) or its name in a catalog."""


@dataclass(frozen=True)
class Sharing:
    """What the flows that read one source have in common."""

    project: str
    files: Files
    """A folder of the source's own in the lake."""
    flows: tuple[str, ...]
    """All of them, this one too."""
    table: str | None = None
    """Which of the source's tables this flow follows, where it has to choose."""


@dataclass(frozen=True)
class ReaderContext:
    """What a reader works with."""

    spark: SparkSession
    flow: str
    """The flow's name, `topics.orders`: unique in the lake."""
    notes: Files
    """A folder of the flow's own in the lake, for what the reader has to remember."""
    locate: Callable[[str], str]
    """A path of the project file as Spark and pyarrow take it."""
    storage: dict[str, Any]
    lasting: Files | None = None
    """The flow's folder itself: what has to outlive a start over of the flow. Without it, `notes`."""
    tables: OpenTable | None = None
    """Tables of the lake and of others: sources know no formats."""
    sharing: Sharing | None = None
    """For sources whose flows have to know of each other."""


@dataclass(frozen=True)
class Ahead:
    """The next range of a source: where it ends, and how much is in it as far as the source can tell."""

    end: Position
    rows: int | None = None
    bytes: int | None = None
    full: bool = False
    """The range is as large as a step may be: more waits behind it."""
    due: bool = False
    """The source asks for it to be taken now."""


@dataclass(frozen=True)
class Lag:
    """How far a flow is behind its source; None is 'not known'."""

    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


class Reader(ABC):
    """Reads one source for one flow."""

    @property
    @abstractmethod
    def decoder(self) -> Decoder:
        """What makes events of the records that `read` gives."""

    @property
    def raw_decoder(self) -> Decoder:
        """What makes events of `_raw` alone: for dead letters and remapping."""
        return self.decoder

    @property
    def extras(self) -> StructType:
        """Columns that `read` gives beside `_raw` and `_position`; the topic keeps them. Names begin with `_`."""
        from pyspark.sql.types import StructType

        return StructType()

    @property
    def hidden(self) -> StructType:
        """Columns that `read` gives for the decoder and the standard columns alone; dead letters keep them, the topic
        does not."""
        from pyspark.sql.types import StructType

        return StructType()

    def recalled(self, topic: Collection[str]) -> list[Column]:
        """Hidden columns as a topic's own columns tell them, for rows that are mapped anew."""
        return []

    @abstractmethod
    def next(self, start: Position | None) -> Ahead | None:
        """The next range after `start` (None: from the beginning), or None if nothing is new. Changes nothing."""

    def settle(self, start: Position | None, ahead: Ahead) -> Position:
        """The range will be taken: whatever must be known to read it again is written down. Returns its end."""
        return ahead.end

    @abstractmethod
    def read(self, start: Position | None, end: Position) -> DataFrame:
        """The records of the range: `_raw` (binary, as they came), `_position` (a string that sorts in order of
        arrival), the extras, and what the decoder asks for beyond them."""

    def confirm(self) -> None:  # noqa: B027 - what most sources have read can't change
        """The records that `read` gave last are about to be committed: raise if they are not what the source holds any
        more, so that the step is tried again."""

    def inspect(self, start: Position | None, end: Position, error: Exception) -> bool:
        """A step over the range failed. True: something in the source was to blame and is set aside, so that `read`
        gives the rest of the range, and a record with its PROBLEM in place of what can't be read."""
        return False

    def probe(self) -> None:  # noqa: B027 - what most sources are read by fails at once when they are gone
        """A step takes long, and Spark's tasks may be waiting for the source: raise if it can't be reached now. Called
        from another thread."""

    def freeze(self) -> None:  # noqa: B027 - a source that can't tell its end goes on
        """From now on `next` ends where the source ends at this moment: for a run that is to come to an end."""

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Return when something may be new, or it is time to stop, or the time is over."""
        stopping.wait(seconds)

    def lag(self, start: Position | None) -> Lag | None:
        """How much waits after `start`; None if the source can't tell."""
        return None

    def committed(self, end: Position) -> None:  # noqa: B027 - most sources have nobody to tell
        """The range is in the lake. May be called again for the same range after a restart."""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Let go of connections."""
