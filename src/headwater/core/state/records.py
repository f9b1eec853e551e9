"""What the state database holds, as data."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from headwater.core.model import Kind, Version

SQLITE = "sqlite:///"
"""How the address of a database next to the project begins."""
BUSY = 30
"""Seconds to wait for another process that writes to SQLite."""


@dataclass(frozen=True)
class RelationRecord:
    """A topic, table or view that exists, and where."""

    kind: Kind
    name: str
    format: str
    path: str | None = None
    table: str | None = None
    hidden: tuple[str, ...] = ()
    origin: str = "project"
    definition: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    shown: str | None = None
    """How its stored rows are shown: a query over STORED in Spark's SQL; None: as they are."""
    statement: str | None = None
    """The definition as JSON, of one that was made by a statement (`origin` is `statement`)."""
    made_from: str | None = None
    """The project's definition that it was last kept by, as JSON; None: of a release that did not say."""
    source: str | None = None
    """Of a topic: the definition of its source then, as JSON without secrets; None: of a release that did not say."""


STORED = "headwater_stored"
"""What stands for the stored table in `shown`."""


LAKE_FORMAT = 1
"""The version of the layout that this Headwater gives a lake: its folder `_headwater` and its state database.

It grows with a change that an older Headwater can't follow. A lake that names none has version 1."""


@dataclass(frozen=True)
class LakeRecord:
    """The lake that a state belongs to, and where both were seen last."""

    id: str
    warehouse: str
    home: str
    """The folder `.headwater` that holds the state of this machine."""
    format: int | None = None
    """The version of the lake's layout; None: of a release that wrote none."""
    revision: str | None = None
    """What the lake called its relations when they were last changed: a state that has another is of another time."""

    @staticmethod
    def of(row: Mapping[str, Any]) -> LakeRecord:
        """A row of the table `lake`."""
        text = row.get("format")
        format = None if text is None else int(text)
        return LakeRecord(row["id"], row["warehouse"], row["home"], format, row.get("revision"))


@dataclass(frozen=True)
class LeaseRecord:
    """Who may write for a flow, and until when if nothing more is heard. Times are seconds since 1970."""

    flow: str
    token: str
    holder: Mapping[str, Any]
    renewed_at: float
    expires_at: float


@dataclass(frozen=True)
class Control:
    """What people have told a flow to do."""

    paused: bool = False
    resumed: int = 0
    """Grows with every `resume`: a flow that was given up is tried again."""


@dataclass(frozen=True)
class HoldRecord:
    """A version of a relation that somebody still reads: it is not to be expired."""

    kind: Kind
    name: str
    version: Version
    holder: str
    """Who it is, as messages name it."""
    expires_at: float | None = None
    """Seconds since 1970 after which it is void, whatever became of the holder; None: until it is dropped."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def row(self) -> dict[str, Any]:
        """As a row of the table `holds`."""
        return {**asdict(self), "kind": self.kind.value}

    @staticmethod
    def of(row: Mapping[str, Any]) -> HoldRecord:
        """A row of the table `holds`."""
        return HoldRecord(**{**row, "kind": Kind(row["kind"]), "version": int(row["version"])})


COLUMNS = (
    "kind", "name", "format", "path", "catalog_table", "hidden", "origin", "definition", "created_at", "shown",
    "statement", "made_from", "source",
)  # fmt: skip
"""Of the table `relations`."""


def record_of(row: Mapping[str, Any]) -> RelationRecord:
    """A row of `relations`."""
    return RelationRecord(
        kind=Kind(row["kind"]),
        name=row["name"],
        format=row["format"],
        path=row["path"],
        table=row["catalog_table"],
        hidden=tuple(json.loads(row["hidden"])),
        origin=row["origin"],
        definition=row["definition"],
        created_at=datetime.fromisoformat(row["created_at"]),
        shown=row["shown"],
        statement=row["statement"],
        made_from=row["made_from"],
        source=row.get("source"),  # what the lake keeps of a release before has none
    )


def lease_of(row: Mapping[str, Any]) -> LeaseRecord:
    """A row of `leases`."""
    return LeaseRecord(**{**row, "holder": json.loads(row["holder"])})


def control_of(row: Mapping[str, Any]) -> Control:
    """A row of `flow_controls`."""
    return Control(bool(row["paused"]), int(row["resumed"]))


def status_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `flow_statuses`."""
    return {**json.loads(row["status"]), "updated_at": row["updated_at"]}
