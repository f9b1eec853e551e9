"""What the Python API says of the lake: its sources, relations and dead letters."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headwater.core.model import Column, Version
from headwater.core.record import Record
from headwater.tables.tally import CheckCounts

# --- sources


@dataclass(frozen=True)
class SourceSummary(Record):
    """A source and what it feeds."""

    source: str
    type: str
    topics: tuple[str, ...]
    description: str


@dataclass(frozen=True)
class PreparedStatement(Record):
    """A statement that the other end of a source needs."""

    sql: str
    why: str
    done: bool
    """It is as it should be already."""


@dataclass(frozen=True)
class SourcePreparation(Record):
    """What the other end of a source needs, so that it is read at its best."""

    source: str
    run: bool
    """What was not done yet has been done now."""
    statements: tuple[PreparedStatement, ...]
    notes: tuple[str, ...]


# --- relations


@dataclass(frozen=True)
class RelationSummary(Record):
    """What is known of a topic or table without reading it."""

    name: str
    from_: str | None
    """What it is made from, in a word or two."""
    format: str
    location: str
    created_at: datetime | None
    """None: it has no data yet."""
    description: str


@dataclass(frozen=True)
class SystemTableSummary(Record):
    """A table of what the lake tells of its own work: `system.steps`."""

    name: str
    columns: Mapping[str, str]
    """With Spark's types."""
    description: str


@dataclass(frozen=True)
class PayloadSchema(Record):
    """A version of the schema of a topic's payload."""

    version: int
    brought_by: str
    changes: tuple[str, ...]
    step: int | None
    found_at: datetime | None
    schema: str
    """As Spark writes a struct."""


_IF_KNOWN = ("schemas", "checks", "rows", "files", "bytes")


@dataclass(frozen=True)
class RelationDescription(RelationSummary):
    """A topic or table: its columns, latest version and size."""

    version: Version | None
    partition_by: tuple[str, ...]
    columns: tuple[Column, ...]
    schemas: tuple[PayloadSchema, ...] | None = None
    """Of a topic: every version of its payload's schema, oldest first."""
    checks: CheckCounts | None = None
    """Of a table with a watermark or expectations: what they have counted."""
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Without what is not known of this one."""
        fields = super().to_dict()
        return {key: value for key, value in fields.items() if value is not None or key not in _IF_KNOWN}


# --- dead letters


@dataclass(frozen=True)
class DeadLetter(Record):
    """An event that could not be ingested."""

    id: str
    topic: str
    reason: str
    message: str
    position: str
    at: datetime


@dataclass(frozen=True)
class DeadLetterDetails(DeadLetter):
    """A dead letter whole, with its bytes and the step that left it out."""

    source: str | None
    raw: bytes | None
    context: str | None
    """What else the source said of it, as JSON."""
    flow: str | None
    epoch: int | None
    step: int | None

    def to_dict(self) -> dict[str, object]:
        """The bytes are text where they are text, else text in base 64; `encoding` says which."""
        raw: str | None = None
        encoding: str | None = None
        if self.raw is not None:
            try:
                raw, encoding = self.raw.decode("utf-8"), "utf-8"
            except UnicodeDecodeError:
                raw, encoding = base64.b64encode(self.raw).decode(), "base64"
        fields = {**super().to_dict(), "raw": raw}
        return {**{name: fields[name] for name in _LETTER}, "encoding": encoding}


_LETTER = (
    "id", "topic", "source", "reason", "message", "position", "raw", "context", "at", "flow", "epoch", "step",
)  # fmt: skip
