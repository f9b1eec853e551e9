"""The words of the lake as values. No behaviour beyond reading and showing them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

Version = int
"""A state of a table that can be read again; the format's own number for it."""

At = Version | datetime
"""Which state to read: a version, or the newest one committed at or before a time (aware, UTC)."""

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
    positions: Mapping[str, Any] = field(default_factory=dict)

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
        """The mark in a commit's note, or None where the note is somebody else's."""
        try:
            found = json.loads(text or "")
            return CommitTag(found["flow"], int(found["epoch"]), int(found["step"]), found.get("positions") or {})
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True)
class Commit:
    """One version of a table and what made it."""

    version: Version
    committed_at: datetime
    operation: str
    rows_added: int | None = None
    rows_removed: int | None = None
    mark: CommitTag | None = None


@dataclass(frozen=True)
class DataFile:
    """A live file of a table."""

    path: str
    bytes: int
    rows: int | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnStats:
    """What is known of one column; None is 'not known'."""

    column: str
    type: str
    nulls: int | None = None
    distinct: int | None = None
    min: Any = None
    max: Any = None
    bytes: int | None = None


@dataclass(frozen=True)
class TableStats:
    """Figures of one version of a table."""

    rows: int
    bytes: int
    files: int
    columns: tuple[ColumnStats, ...] = ()
    version: Version | None = None
    """The one that they are of."""
