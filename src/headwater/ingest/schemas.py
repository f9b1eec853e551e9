"""What is known of a topic's payload: every version of its schema, with what brought it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files
from headwater.formats.base import Format
from headwater.formats.evolution import AddColumn, Retype, can_widen, schema_changes

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
            (*map(_told, schema_changes(before, payload)), *notes),
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
            found = json.loads(self._notes.read_text(path))
            return SchemaVersion(
                int(name[:6]),
                StructType.fromJson(found["payload"]),
                StructType.fromJson(found["adopted"]),
                found["brought_by"],
                tuple(found["changes"]),
                found["step"],
                datetime.fromisoformat(found["found_at"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT, f"the schema {self._notes.join(path)} can't be read: {error}"
            ) from error


def joined(known: StructType, found: StructType, format: Format) -> StructType:
    """What is known, with what is new in `found`; a type changes only where the format widens it in place."""
    new = {f.name: f for f in found.fields}
    fields = [
        StructField(f.name, _joined_type(f.dataType, new.pop(f.name).dataType, format)) if f.name in new else f
        for f in known.fields
    ]
    return StructType(fields + [StructField(f.name, f.dataType) for f in new.values()])


def beyond(payload: DataType, adopted: DataType) -> DataType | None:
    """What of the payload was not adopted, as a type of its own; None if all was."""
    if isinstance(payload, StructType) and isinstance(adopted, StructType):
        fields = []
        for f in payload.fields:
            if f.name not in adopted.names:
                fields.append(f)
            elif (rest := beyond(f.dataType, adopted[f.name].dataType)) is not None:
                fields.append(StructField(f.name, rest))
        return StructType(fields) if fields else None
    if isinstance(payload, ArrayType) and isinstance(adopted, ArrayType):
        rest = beyond(payload.elementType, adopted.elementType)
        return None if rest is None else ArrayType(rest)
    return None


def within(found: StructType, known: StructType) -> StructType:
    """What is found of what is known, at any depth, in the types that it was found in."""
    kept = [f for f in found.fields if f.name in known.names]
    return StructType([StructField(f.name, _within(f.dataType, known[f.name].dataType)) for f in kept])


def hinted(schema: StructType, hints: StructType | None) -> StructType:
    """The schema with some columns' types as they were told."""
    if hints is None:
        return schema
    told = {f.name: f for f in hints.fields}
    return StructType([told.pop(f.name, f) for f in schema.fields] + list(told.values()))


def parse_ddl(spark: SparkSession, ddl: str | None) -> StructType | None:
    """`amount decimal(12,2), at timestamp` as a schema."""
    if not ddl:
        return None
    parsed: Any = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl)  # type: ignore[union-attr]
    return StructType.fromJson(json.loads(parsed.json()))


def nullable(schema: StructType) -> StructType:
    """Every field may be missing: what must be there is checked, not assumed."""
    return StructType([StructField(f.name, f.dataType) for f in schema.fields])


def _joined_type(known: DataType, found: DataType, format: Format) -> DataType:
    if isinstance(known, StructType) and isinstance(found, StructType):
        return joined(known, found, format)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_joined_type(known.elementType, found.elementType, format))
    return found if can_widen(format, known, found) else known


def _within(found: DataType, known: DataType) -> DataType:
    if isinstance(found, StructType) and isinstance(known, StructType):
        return within(found, known)
    if isinstance(found, ArrayType) and isinstance(known, ArrayType):
        return ArrayType(_within(found.elementType, known.elementType))
    return found


def name_of(change: AddColumn | Retype) -> str:
    """The column that a change is about, with dots into structs."""
    return ".".join((*change.parent, change.field.name) if isinstance(change, AddColumn) else change.path)


def _told(change: AddColumn | Retype) -> str:
    if isinstance(change, AddColumn):
        return f"{name_of(change)} {change.field.dataType.simpleString()} added"
    return f"{name_of(change)} {change.old.simpleString()} widened to {change.new.simpleString()}"
