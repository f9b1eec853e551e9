"""A table's metadata as the Iceberg specification writes it: shared by the Spark and the native side."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from headwater.core.errors import Code, IntegrityError
from headwater.core.model import At, Commit, CommitTag, Version

COMMIT_TAG = "headwater.mark"
"""The snapshot property that holds the step which made the snapshot."""

KEPT = "headwater.kept"
"""The table property that lists old snapshots of the lineage whose successors have been expired."""

_ROW_COUNTS = (
    "added-records",
    "deleted-records",
    "added-position-deletes",
    "removed-position-deletes",
    "added-equality-deletes",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)


def unreadable(table: str, file: str | None, why: str) -> IntegrityError:
    """A table whose newest metadata file is cut, overwritten or gone."""
    named = "its metadata file" if file is None else f"its metadata file {file}"
    return IntegrityError(
        Code.TABLE_CORRUPT,
        f"Iceberg table {table}: {named} can't be read: {why}",
        hint="put the file back from a copy of the lake; without one, drop the topic, table or view"
        " (`headwater topic drop NAME --yes`, and so on): the next run makes it again",
    )


@dataclass(frozen=True)
class IcebergSnapshot:
    """One version of the table."""

    id: Version
    parent: Version | None
    sequence: int
    committed_ms: int
    operation: str
    summary: dict[str, str]
    schema_id: int | None

    @property
    def commit_tag(self) -> CommitTag | None:
        return CommitTag.from_json(self.summary.get(COMMIT_TAG))

    @property
    def has_deletes(self) -> bool:
        """Whether rows may be deleted by delete files; a writer that does not tell is not trusted."""
        return self.summary.get("total-delete-files") != "0"

    def commit(self) -> Commit:
        added, removed = self._rows()
        return Commit(
            version=self.id,
            committed_at=_EPOCH + self.committed_ms * _MILLISECOND,
            operation=self.operation,
            rows_added=added,
            rows_removed=removed,
            commit_tag=self.commit_tag,
        )

    def _rows(self) -> tuple[int | None, int | None]:
        if self.operation == "replace":
            return 0, 0  # files were rewritten, no row came or went
        if "total-records" not in self.summary:
            return None, None  # a writer that counts nothing; else a count that is left out is zero
        added, deleted, hidden, shown, unknown = (int(self.summary.get(key, 0)) for key in _ROW_COUNTS)
        # Nobody has counted the rows that an equality delete matches.
        return added, None if unknown else deleted + hidden - shown


class Metadata:
    """One state of a table's metadata file."""

    def __init__(self, text: str) -> None:
        self._raw: dict[str, Any] = json.loads(text)

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._raw.get("properties") or {})

    @property
    def location(self) -> str:
        return str(self._raw["location"])

    @property
    def schema_id(self) -> int:
        return int(self._raw["current-schema-id"])

    @property
    def format_version(self) -> int:
        return int(self._raw["format-version"])

    @cached_property
    def snapshots(self) -> dict[Version, IcebergSnapshot]:
        return {snapshot.id: snapshot for snapshot in map(_snapshot, self._raw.get("snapshots") or ())}

    @property
    def current(self) -> IcebergSnapshot | None:
        found = self._raw.get("current-snapshot-id")
        return None if found is None else self.snapshots.get(int(found))

    @property
    def referenced(self) -> set[Version]:
        """Heads of branches and tags, which nobody may expire."""
        return {int(ref["snapshot-id"]) for ref in (self._raw.get("refs") or {}).values()}

    def schema_at(self, version: Version) -> int:
        """The schema of a version; the latest is read under the present one, which may be newer than it."""
        found = self.snapshots[version].schema_id
        return self.schema_id if found is None or self.current == self.snapshots[version] else found

    def fields(self, schema_id: int | None) -> list[dict[str, Any]]:
        """The top-level columns of a schema, as the specification writes them."""
        wanted = self.schema_id if schema_id is None else schema_id
        found = next(s for s in self._raw["schemas"] if s["schema-id"] == wanted)
        return list(found["fields"])

    def identifier_columns(self) -> tuple[str, ...]:
        schema = next(s for s in self._raw["schemas"] if s["schema-id"] == self.schema_id)
        names = {f["id"]: f["name"] for f in schema["fields"]}
        return tuple(names[i] for i in schema.get("identifier-field-ids") or () if i in names)

    def spec(self, spec_id: int | None = None) -> list[dict[str, Any]]:
        """The fields of a partition spec, the present one by default."""
        wanted = self._raw["default-spec-id"] if spec_id is None else spec_id
        return next(list(s["fields"]) for s in self._raw["partition-specs"] if s["spec-id"] == wanted)

    def named_files(self) -> set[str]:
        """The files that this file names itself."""
        raw = self._raw
        found = [entry["metadata-file"] for entry in raw.get("metadata-log") or ()]
        found += [snapshot["manifest-list"] for snapshot in raw.get("snapshots") or () if "manifest-list" in snapshot]
        statistics = [*(raw.get("statistics") or ()), *(raw.get("partition-statistics") or ())]
        return {str(path) for path in (*found, *(entry["statistics-path"] for entry in statistics))}

    # --- versions

    def lineage(self) -> Iterator[IcebergSnapshot]:
        """The versions that led to the present one, newest first; what was rolled back is not among them."""
        told: set[Version] = set()
        at = self.current
        while at is not None:
            told.add(at.id)
            yield at
            at = self.snapshots.get(at.parent) if at.parent is not None else None
        kept = (self.snapshots.get(int(i)) for i in json.loads(self.properties.get(KEPT, "[]")))
        rest = [snapshot for snapshot in kept if snapshot is not None and snapshot.id not in told]
        yield from sorted(rest, key=lambda snapshot: snapshot.sequence, reverse=True)

    def find(self, at: At) -> Version | None:
        """The version that `at` names, if it can still be read."""
        if not isinstance(at, datetime):
            return at if at in self.snapshots else None
        wanted = (at - _EPOCH) // _MILLISECOND
        # The log tells what was current when, rollbacks included; expiry cuts off what it can no longer tell.
        for entry in reversed(self._raw.get("snapshot-log") or ()):
            if int(entry["timestamp-ms"]) <= wanted:
                found = int(entry["snapshot-id"])
                return found if found in self.snapshots else None
        return None

    def landed(self, commit_tag: CommitTag) -> Version | None:
        for snapshot in self.lineage():
            found = snapshot.commit_tag
            if found is not None and found.same_step(commit_tag):
                return snapshot.id
        return None

    def between(self, start: Version, end: Version) -> list[IcebergSnapshot] | None:
        """The snapshots of (start, end], newest first; None if `end` does not follow from `start`."""
        found: list[IcebergSnapshot] = []
        at = self.snapshots.get(end)
        while at is not None and at.id != start:
            found.append(at)
            at = self.snapshots.get(at.parent) if at.parent is not None else None
        return None if at is None else found

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        """How many of the versions, each the child of the one before, only added files or rewrote them."""
        for done, version in enumerate(versions):
            snapshot = self.snapshots.get(version)
            if snapshot is None or snapshot.parent != start or snapshot.operation not in ("append", "replace"):
                return done
            start = version
        return len(versions)

    def expirable(self, older_than: datetime, keep: Collection[Version]) -> set[Version]:
        """What may go: not the latest, a reference, a flow's newest step, any since the oldest of `keep`."""
        before = (older_than - _EPOCH) // _MILLISECOND
        needed = [self.snapshots[v].sequence for v in keep if v in self.snapshots]
        since = min(needed, default=None)
        spared = set(keep) | self.referenced
        if self.current is not None:
            spared.add(self.current.id)
        marked: set[str] = set()
        for snapshot in self.lineage():
            commit_tag = snapshot.commit_tag
            if commit_tag is not None and commit_tag.flow not in marked:
                marked.add(commit_tag.flow)
                spared.add(snapshot.id)
        return {
            snapshot.id
            for snapshot in self.snapshots.values()
            if snapshot.committed_ms < before
            and snapshot.id not in spared
            and (since is None or snapshot.sequence < since)
        }


def _snapshot(raw: dict[str, Any]) -> IcebergSnapshot:
    summary = {key: str(value) for key, value in (raw.get("summary") or {}).items()}
    parent, schema = raw.get("parent-snapshot-id"), raw.get("schema-id")
    return IcebergSnapshot(
        id=int(raw["snapshot-id"]),
        parent=None if parent is None else int(parent),
        sequence=int(raw.get("sequence-number") or 0),
        committed_ms=int(raw["timestamp-ms"]),
        operation=summary.get("operation", "unknown"),
        summary=summary,
        schema_id=None if schema is None else int(schema),
    )


def field_ids(node: Any) -> list[int]:
    """All field ids in a field of a schema."""
    if isinstance(node, list):
        return [i for item in node for i in field_ids(item)]
    if not isinstance(node, dict):
        return []
    own = [node[key] for key in ("id", "element-id", "key-id", "value-id") if key in node]
    return own + [i for value in node.values() for i in field_ids(value)]
