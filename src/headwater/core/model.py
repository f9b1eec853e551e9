"""The words of the lake as values. No behaviour beyond reading and showing them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TypeAlias

from headwater.core.record import Record

Version = int
"""A state of a table that can be read again; the format's own number for it."""

At = Version | datetime
"""Which state to read: a version, or the newest one committed at or before a time (aware, UTC)."""

HINT_MARK = "; hint: "
"""Between a dead letter's message and what can be done about it."""
OLDER_HINT_MARK = "; cure: "
"""The same in lakes of earlier releases."""

Scalar: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | timedelta | None
"""A value without parts: decimals are `Decimal`, whole numbers `int`, moments have a zone."""

Value: TypeAlias = "Scalar | Sequence[Value] | Mapping[str, Value] | Mapping[Scalar, Value]"
"""A value of a row: structs are dicts, arrays lists, maps dicts, or lists of pairs where their keys have parts."""

Row = dict[str, Value]
"""A row by its columns' names."""

WEIGHT = "_weight"
"""The column of signed changes: +1 came, -1 went."""

DELETED = "_deleted"
"""The boolean column of an upsert's input that marks the keys to delete."""


class Kind(str, Enum):
    """What a relation of the lake is."""

    TOPIC = "topic"
    TABLE = "table"
    VIEW = "view"

    @property
    def plural(self) -> str:
        return f"{self.value}s"


@dataclass(frozen=True)
class CommitTag:
    """What a commit carries of the step that made it, so that the step is never done twice."""

    flow: str
    epoch: int
    step: int
    positions: Mapping[str, object] = field(default_factory=dict)

    @property
    def writer(self) -> str:
        """One writer of numbered steps: an old epoch's numbers never swallow a new one's."""
        return f"{self.flow}@{self.epoch}"

    def same_step(self, other: CommitTag) -> bool:
        return (self.flow, self.epoch, self.step) == (other.flow, other.epoch, other.step)

    def to_json(self) -> str:
        return json.dumps(
            {"flow": self.flow, "epoch": self.epoch, "step": self.step, "positions": dict(self.positions)},
            sort_keys=True,
        )

    @staticmethod
    def from_json(text: str | None) -> CommitTag | None:
        """The tag in a commit's note, or None where the note is somebody else's."""
        try:
            fields = json.loads(text or "")
            return CommitTag(fields["flow"], int(fields["epoch"]), int(fields["step"]), fields.get("positions") or {})
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True)
class Commit(Record):
    """One version of a table and what made it."""

    version: Version
    committed_at: datetime
    operation: str
    rows_added: int | None = None
    rows_removed: int | None = None
    commit_tag: CommitTag | None = None
    """The step that made it; None: another writer, or no step."""

    def to_dict(self) -> dict[str, object]:
        """A line of the history: `flow`, `epoch`, `step` and `positions` are those of the step that made it."""
        tag = self.commit_tag
        return {
            "version": self.version,
            "committed_at": self.committed_at,
            "operation": self.operation,
            "rows_added": self.rows_added,
            "rows_removed": self.rows_removed,
            "flow": tag and tag.flow,
            "epoch": tag and tag.epoch,
            "step": tag and tag.step,
            "positions": dict(tag.positions) if tag else None,
        }


@dataclass(frozen=True)
class Column(Record):
    """A column by its name and its type as Spark writes it."""

    name: str
    type: str


@dataclass(frozen=True)
class DataFile(Record):
    """A live file of a table."""

    path: str
    bytes: int
    rows: int | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    deleted_rows: int | None = field(default=None, compare=False)
    """How many of `rows` are deleted, by a deletion vector or a delete file; None: not known. Spark's side tells it,
    and the next; two lists of the same files are equal without them."""
    committed_at: datetime | None = field(default=None, compare=False)
    """When it was added, as far as the table's own records tell."""


@dataclass(frozen=True)
class Rewrite(Record):
    """What one commit of maintenance did: other files, the same rows."""

    before: Version
    after: Version
    files_read: int
    files_written: int
    bytes_read: int
    bytes_written: int
    rows: int
    checksum: str
    """Of the rows of the files that were read and, which was checked, of those that were written."""


@dataclass(frozen=True)
class Expiry(Record):
    """What expiry took away, or would take away: versions, and the files that only they needed."""

    versions: tuple[Version, ...] = ()
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class ColumnStats(Record):
    """What is known of one column; None is 'not known'."""

    column: str
    type: str
    nulls: int | None = None
    distinct: int | None = None
    min: Value = None
    max: Value = None
    bytes: int | None = None


@dataclass(frozen=True)
class TableStats(Record):
    """Figures of one version of a table."""

    rows: int
    bytes: int
    files: int
    columns: tuple[ColumnStats, ...] = ()
    version: Version | None = None
    """The one that they are of."""
