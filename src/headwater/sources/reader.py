"""The seam for reading sources: a range is fixed first, and can then be read again with the same records."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.errors import Code, UsageError
from headwater.core.model import At, Commit, Version
from headwater.core.record import Record
from headwater.core.storage import Files
from headwater.sources.base import SourceSpec
from headwater.sources.decoders.base import POSITION, RAW, Decoder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "POSITION",
    "RAW",
    "Lag",
    "OffsetRange",
    "OpenTable",
    "Position",
    "ReadableTable",
    "Reader",
    "ReaderContext",
    "Sharing",
    "open_reader",
]

Position = Any
"""How far a source has been read; JSON, and the source's own business."""


class ReadableTable(Protocol):
    """A lakehouse table as a source sees it: only read, version by version. A format's `SparkTable` is one.

    The reader of the source type `table` calls these, in its own `next`, `read` and `lag`.
    """

    def exists(self) -> bool:
        """Whether it is there. Called when the reader opens it."""

    def schema(self) -> StructType:
        """Its columns. Called when the reader opens it."""

    def version(self) -> Version | None:
        """Its latest version. Called at each look for something new."""

    def version_at(self, at: At) -> Version:
        """The version that a number or a time names. Called for `start:`, and to see whether a position can still be
        read."""

    def versions_after(self, version: Version | None) -> list[Version]:
        """The versions that came after one, oldest first. Called at each look for something new."""

    def committed_at(self, version: Version) -> datetime | None:
        """When a version was made. Called to tell a table from another one that was made in its place."""

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        """How many of the versions have only added rows. Called to choose how many of them one step takes."""

    def changes(self, start: Version | None, end: Version) -> DataFrame:
        """The signed changes between two versions. Called by `read`, for each try of a step."""

    def history(self, limit: int | None = None) -> list[Commit]:
        """Its commits, newest first. Called to count the rows that wait."""


OpenTable = Callable[[str, str | None, str | None], ReadableTable]
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
class OffsetRange:
    """The next range of an input: where it ends, and how much is in it as far as the input can tell."""

    end: Position
    rows: int | None = None
    bytes: int | None = None
    full: bool = False
    """The range is as large as a step may be: more waits behind it."""
    due: bool = False
    """Read it now: waiting for more would not help."""


@dataclass(frozen=True)
class Lag(Record):
    """How far a flow is behind its source; None is 'not known'."""

    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    detail: Mapping[str, object] = field(default_factory=dict)


class Reader(ABC):
    """Reads one source for one flow.

    The runner opens one when a topic's flow begins (`open_reader`), and closes it when the flow ends, is paused or has
    failed. A step calls `next`, `fix_range`, `read`, `confirm` and `committed`, in this order and in the flow's own
    thread; `probe` alone is called from another one. `headwater init --from` opens one too, to look at what is there.
    """

    @property
    @abstractmethod
    def decoder(self) -> Decoder:
        """What makes events of the records that `read` gives. Called once, when the flow begins; each of its steps
        decodes with it."""

    @property
    def raw_decoder(self) -> Decoder:
        """What makes events of `_raw` alone. Called when dead letters are replayed and when a topic is remapped: then
        `read` is not asked."""
        return self.decoder

    @property
    def metadata_columns(self) -> StructType:
        """Columns that `read` gives alongside `_raw` and `_position`; the topic keeps them. Names begin with `_`.
        Called when the topic's pipeline is made, before the first step."""
        from pyspark.sql.types import StructType

        return StructType()

    @property
    def hidden(self) -> StructType:
        """Columns that `read` gives for the decoder and the standard columns alone; dead letters keep them, the topic
        does not. Called when the topic's pipeline is made."""
        from pyspark.sql.types import StructType

        return StructType()

    def recalled(self, topic: Collection[str]) -> list[Column]:
        """The hidden columns, made of a topic's own columns (whose names it is given). Called once by a remap, which
        has the topic's rows and not the source's."""
        return []

    @abstractmethod
    def next(self, start: Position | None) -> OffsetRange | None:
        """The next range after `start` (None: from the beginning), or None if nothing is new. The runner calls it
        before each step, and again and again while it waits for more to share the step: it changes nothing."""

    def fix_range(self, start: Position | None, ahead: OffsetRange) -> Position:
        """Write down whatever must be known to read the range again, and return its end. The flow calls it once for
        a range, when the step begins and before its intent is in the ledger."""
        return ahead.end

    @abstractmethod
    def read(self, start: Position | None, end: Position) -> DataFrame:
        """The records of the range: `_raw` (binary, as they came), `_position` (a string that sorts in order of
        arrival), the metadata_columns, and what the decoder asks for beyond them. The flow calls it for each try of a
        step; after a crash another process calls it with the range of the last intent. The records are the same each
        time."""

    def confirm(self) -> None:  # noqa: B027 - what most sources have read can't change
        """Raise if the records that `read` gave last are not what the source holds any more: the step is then tried
        again. The topic calls it when the records have been computed, right before each commit."""

    def inspect(self, start: Position | None, end: Position, error: Exception) -> bool:
        """A step over the range failed. True: something in the source was to blame and is set aside, so that `read`
        gives the rest of the range, and a record with its PROBLEM in place of what can't be read. The flow calls it
        after a failed try, and tries once more where it is True."""
        return False

    def probe(self) -> None:  # noqa: B027 - what most sources are read by fails at once when they are gone
        """Raise if the source can't be reached now. The runner calls it, from another thread, while a step takes long:
        Spark's tasks may be waiting for a source that is gone."""

    def freeze(self) -> None:  # noqa: B027 - a source that can't tell its end goes on
        """From now on `next` ends where the source ends at this moment. Called once, when a run begins that is to come
        to an end (`--once`)."""

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Return when something may be new, or it is time to stop, or the time is over. The runner calls it between
        steps, when `next` has nothing or more should share the step."""
        stopping.wait(seconds)

    def lag(self, start: Position | None) -> Lag | None:
        """How much waits after `start`; None if the source can't tell. The runner calls it every few seconds, for
        `headwater status`."""
        return None

    def committed(self, end: Position) -> None:  # noqa: B027 - most sources have nobody to tell
        """The range up to `end` is in the lake: tell whoever waits for that, and forget what only it needed. The flow
        calls it after the commit, and after a restart once more for the last range."""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing
        """Let go of connections. The runner calls it last, and opens a new reader for the next run."""


def open_reader(spec: SourceSpec, context: ReaderContext) -> Reader:
    """A reader of a source for one flow, of the class that its settings name."""
    if spec.reader_class is None:
        message = f"sources.{spec.name} can't run yet: nothing reads a source of type {spec.type}"
        hint = "`headwater check` names what can't run"
        raise UsageError(Code.NOT_RUNNABLE_YET, message, where=spec.where, hint=hint)
    module, _, name = spec.reader_class.partition(":")
    reader: Reader = getattr(import_module(module), name)(spec, context)
    return reader
