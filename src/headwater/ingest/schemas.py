"""What is known of a topic's payload: every version of its schema, with what brought it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql.types import DataType, StructType

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files
from headwater.formats.base import Format
from headwater.formats.evolution import can_widen
from headwater.schema.changes import AddColumn, Retype, column_of, schema_changes
from headwater.schema.merge import merged_structs

_FOLDER = "schema"
_NAME = re.compile(r"^(\d{6})\.json$")


@dataclass(frozen=True)
class SchemaVersion:
    """A payload's schema and what brought it."""

    version: int
    payload: StructType
    """What records are decoded by."""
    adopted: StructType
    """What of it becomes columns; the rest goes to `_rescued`."""
    brought_by: str
    changes: tuple[str, ...] = ()
    step: int | None = None
    found_at: datetime | None = None


class SchemaLog:
    """The versions of one topic's schema, in the flow's folder of the lake."""

    def __init__(self, notes: Files) -> None:
        self._notes = notes

    def versions(self) -> list[SchemaVersion]:
        """Oldest first."""
        return [self._read(name) for name in self._names()]

    def last(self) -> SchemaVersion | None:
        names = self._names()
        return self._read(names[-1]) if names else None

    def add(
        self,
        last: SchemaVersion | None,
        payload: StructType,
        adopted: StructType,
        brought_by: str,
        step: int,
        notes: tuple[str, ...] = (),
    ) -> SchemaVersion:
        """`notes` are told with the changes."""
        before = StructType() if last is None else last.payload
        new = SchemaVersion(
            1 if last is None else last.version + 1,
            payload,
            adopted,
            brought_by,
            (*map(_described, schema_changes(before, payload)), *notes),
            step,
            datetime.now(timezone.utc),
        )
        content = {
            "payload": json.loads(payload.json()),
            "adopted": json.loads(adopted.json()),
            "brought_by": brought_by,
            "changes": new.changes,
            "step": step,
            "found_at": str(new.found_at and new.found_at.isoformat()),
        }
        self._notes.write_atomic(f"{_FOLDER}/{new.version:06d}.json", json.dumps(content))
        return new

    def _names(self) -> list[str]:
        if not self._notes.exists(_FOLDER):
            return []
        return sorted(e.name for e in self._notes.list(_FOLDER) if _NAME.match(e.name))

    def _read(self, name: str) -> SchemaVersion:
        path = f"{_FOLDER}/{name}"
        try:
            version = json.loads(self._notes.read_text(path))
            return SchemaVersion(
                int(name[:6]),
                StructType.fromJson(version["payload"]),
                StructType.fromJson(version["adopted"]),
                version["brought_by"],
                tuple(version["changes"]),
                version["step"],
                datetime.fromisoformat(version["found_at"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT, f"the schema {self._notes.join(path)} can't be read: {error}"
            ) from error


def joined(known: StructType, more: StructType, format: Format) -> StructType:
    """What is known, with what is new in `more`; a type changes only where the format widens it in place."""

    def choose(old: DataType, new: DataType) -> DataType:
        return new if can_widen(format, old, new) else old

    both = merged_structs(known, more, choose, maps=False)
    assert both is not None
    return both


def _described(change: AddColumn | Retype) -> str:
    if isinstance(change, AddColumn):
        return f"{column_of(change)} {change.field.dataType.simpleString()} added"
    return f"{column_of(change)} {change.old.simpleString()} widened to {change.new.simpleString()}"
