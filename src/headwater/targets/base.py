"""The seam for exports: what a kind of target can hold is data, what it does is one class for one copy.

A kind is a `TargetKind` value (registered in `targets/registry.py`) and an `ExportTarget`. `headwater check` reads the
value, so an export that the target can't hold is refused before Spark starts. `exports/` calls the class: it stages a
copy, has foreign readers read it, and publishes or discards it; or it applies the change of each step of a stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from headwater.core.errors import Unsupported
from headwater.core.model import CommitTag, Version
from headwater.core.record import Record
from headwater.core.spec import Export
from headwater.core.storage import Files
from headwater.formats.base import LakeContext
from headwater.sources.base import SourceSpec
from headwater.spark.session import SessionNeeds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Ability = Literal[
    "stream", "updates", "nested", "binary", "partitions", "partition expressions", "file size", "z-order", "header"
]
"""What a target may be able to do; the reason for one that is missing stands in `TargetKind.notes`."""


@dataclass(frozen=True)
class TargetKind:
    """A kind of target as data."""

    name: str
    """What `format:` says."""
    title: str
    """Its name for people."""
    abilities: frozenset[Ability]
    codecs: frozenset[str]
    """What `compression` may say; none: it takes no such option."""
    open: Callable[[Destination], ExportTarget]
    """Makes the target of one export. Called for each snapshot and when a stream is opened."""
    needs: Callable[[LakeContext], SessionNeeds] = lambda context: SessionNeeds()
    """What Spark's session must have. Called before Spark starts, for each export of the project."""
    locate: Callable[[Export, Callable[[str], str], LakeContext], str] = lambda export, locate, context: locate(
        export.to
    )
    """The full destination behind `to`, with what makes paths of the project absolute. Called before the target is
    opened, and for checks."""
    in_catalogs: bool = False
    """Whether `to` may be a name in a catalog: `lake.bi.orders`, `rest://catalog/bi/orders`."""
    column_name: str | None = None
    """A regular expression that names of columns have to match."""
    single_pass: bool = True
    """Whether it writes each row once as Spark computes it: then rows are summed up on the way."""
    notes: Mapping[Ability, str] = field(default_factory=dict)
    """Why an ability is missing, and what to do instead."""

    def can(self, ability: Ability) -> bool:
        return ability in self.abilities

    def refusal(self, ability: Ability) -> tuple[str, str | None]:
        """What to say where an ability is asked for in vain: the message, and what to do."""
        return f"{self.title} {_LACKING[ability]}", self.notes.get(ability)

    def require(self, ability: Ability) -> None:
        if not self.can(ability):
            message, hint = self.refusal(ability)
            raise Unsupported(message, hint=hint)


_LACKING: Mapping[Ability, str] = {
    "stream": "can't be kept up to date",
    "updates": "can't hold updates and deletes",
    "nested": "can't hold structs, arrays and maps",
    "binary": "can't hold binary values",
    "partitions": "can't be partitioned",
    "partition expressions": "can't be partitioned by expressions",
    "file size": "takes no target file size",
    "z-order": "can't be clustered",
    "header": "has no header and no delimiter",
}


@dataclass(frozen=True)
class Destination:
    """Where one export goes, and how it is to be written."""

    definition: Export
    context: LakeContext
    spark: SparkSession
    location: str
    """`to`: a full path or URI, or a name in a catalog."""
    sources: Mapping[str, SourceSpec] = field(default_factory=dict)
    """The project's sources: a target of the same kind takes its address and its login from there."""

    @property
    def files(self) -> Files:
        """The files of a destination that is a folder."""
        return Files(self.location, self.context.storage)


@dataclass(frozen=True)
class SourceState:
    """What a copy is of. The target carries it, so that anybody can see how far the copy is."""

    label: str
    """`topics.orders`, or `query`."""
    versions: Mapping[str, Version | None]
    """By the relation's label."""
    run: str
    """The job's id."""

    def to_json(self) -> dict[str, object]:
        return {"source": self.label, "versions": dict(self.versions), "run": self.run}


@dataclass(frozen=True)
class Checksum:
    """How many rows there are, and their checksum, whatever order they come in."""

    rows: int
    value: str


@dataclass(frozen=True)
class StagedCopy:
    """What was staged."""

    rows: int | None
    """As the target counts them; None: it does not."""
    bytes: int
    files: int
    version: Version | None = None
    """Of a target that has versions."""


@dataclass(frozen=True)
class RejectedRow(Record):
    """A row that a target has refused, while it has taken the others."""

    key: Mapping[str, object]
    reason: str
    step: str
    """The one that has tried it last."""
    since: datetime
    tried_at: datetime
    tried_again: bool
    """Whether it is with the next step; else the source has to give it again."""


@dataclass(frozen=True)
class ForeignReader:
    """One reader that is not ours: `pyarrow 19.0.1`. It gives batches, or a frame where it is Spark."""

    name: str
    version: str
    batches: Callable[[pa.Schema], Iterable[pa.RecordBatch]] | None = None
    """Reads what was staged, with the source's columns. Its types are the reader's own where the target keeps types."""
    frame: Callable[[], DataFrame] | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class ExportTarget(ABC):
    """One copy. One for each snapshot, or for each open stream, which calls it from one thread."""

    def __init__(self, kind: TargetKind, destination: Destination) -> None:
        self.kind = kind
        self.destination = destination
        self.reads_whole = False
        """Whether readers read all of a target that a snapshot is appended to, and not only what was staged."""
        self.checks_whole = True
        """Whether `readers` read the whole copy of a stream; if not each step is checked by itself: `verify_step`."""
        self.verify_step: Callable[[ForeignReader, DataFrame], Checksum] | None = None
        """Has a reader find the rows of a step, and gives their checksum; raises if it finds others. A target that can
        write a step aside calls it in `apply`, before the step shows."""

    @property
    def definition(self) -> Export:
        return self.destination.definition

    @abstractmethod
    def exists(self) -> bool:
        """Whether something is there already. Called before a snapshot is staged, and when a stream is opened."""

    def check(self, schema: StructType) -> None:
        """Raise if the target can't hold these columns, though `check_schema` has let them through. Called before
        anything is written."""
        return

    def prepared(self, rows: DataFrame) -> DataFrame:
        """The rows as the target will hold them: what a foreign reader has to find. Called before they are staged."""
        return rows

    # --- snapshots

    @abstractmethod
    def stage(self, rows: DataFrame, source: SourceState) -> StagedCopy:
        """Write the prepared rows: aside where the target can, else by one commit. Called once for a snapshot; what a
        run that was killed has left aside may be removed."""

    @abstractmethod
    def readers(self, *, sample: bool = False) -> Iterator[ForeignReader]:
        """Readers that are not ours, over what was staged or published last; `sample`: over a part of it. Called after
        `stage`, and for a stream now and then."""

    @abstractmethod
    def publish(self, written: StagedCopy, source: SourceState, checksum: Checksum | None) -> None:
        """Make what was staged the target, at once. Called when the readers have found the source's rows."""

    @abstractmethod
    def discard(self) -> None:
        """Remove what was staged: the target is as before. Called when something failed after `stage` was called."""

    # --- streams

    def landed(self, commit_tag: CommitTag) -> bool:
        """Whether a step is in the target. Called for the newest step when a stream is opened."""
        raise self._no_stream()

    def apply(self, change: DataFrame, commit_tag: CommitTag, *, first: bool) -> StagedCopy:
        """Write a step's change: rows to append, or with `primary_key` at most one for each key, with `_deleted`. Doing
        so again for the same step changes nothing. Called for each step; `first`: the target is made by it."""
        raise self._no_stream()

    def visible(self) -> Mapping[str, object]:
        """The source's state that the target says it has: `SourceState.to_json()`, or a stream's positions; nothing if
        there is no target. Called by `status` and monitors."""
        return {}

    def comparable(self, rows: DataFrame) -> DataFrame:
        """Those of the source's prepared rows that `readers` have to find: without what the target refuses. Called when
        the whole copy of a stream is read back."""
        return rows

    def rejected(self) -> Sequence[RejectedRow]:
        """The rows that the target refuses now. Called after each step of a stream."""
        return ()

    def close(self) -> None:
        """Let go of connections. Called once, when nothing more is asked of the target."""
        return

    def _no_stream(self) -> Unsupported:
        message, hint = self.kind.refusal("stream")
        return Unsupported(message, hint=hint)
