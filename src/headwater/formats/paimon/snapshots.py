"""Paimon's snapshots as the versions that users see. Plain values: nothing here needs Spark.

One write of a keyed table makes two snapshots, APPEND (or OVERWRITE) and COMPACT, of the same commit user and
identifier and with the same rows. They are one version, named by the last of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import groupby

from headwater.core.model import CommitTag, Version

APPEND, OVERWRITE, COMPACT = "APPEND", "OVERWRITE", "COMPACT"


@dataclass(frozen=True)
class PaimonSnapshot:
    """What Paimon records of one snapshot."""

    id: Version
    kind: str
    user: str
    identifier: int
    millis: int
    schema_id: int

    @staticmethod
    def from_json(text: str) -> PaimonSnapshot:
        found = json.loads(text)
        return PaimonSnapshot(
            id=found["id"],
            kind=found["commitKind"],
            user=found["commitUser"],
            identifier=found["commitIdentifier"],
            millis=found["timeMillis"],
            schema_id=found["schemaId"],
        )

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.millis / 1000, timezone.utc)

    @property
    def commit_tag(self) -> CommitTag | None:
        """The step that made it: its commit tag is the name of the commit's user."""
        return CommitTag.from_json(self.user)


@dataclass(frozen=True)
class Write:
    """The snapshots of one write, oldest first."""

    snapshots: tuple[PaimonSnapshot, ...]

    @property
    def first(self) -> PaimonSnapshot:
        return self.snapshots[0]

    @property
    def last(self) -> PaimonSnapshot:
        return self.snapshots[-1]

    @property
    def kind(self) -> str:
        """What it did: compaction is told only where there was nothing else."""
        kinds = [snapshot.kind for snapshot in self.snapshots]
        return next((kind for kind in kinds if kind != COMPACT), COMPACT)


def writes(newest_first: Iterable[PaimonSnapshot]) -> Iterator[Write]:
    """The writes that the snapshots belong to, newest first."""
    for _, group in groupby(newest_first, key=lambda snapshot: (snapshot.user, snapshot.identifier)):
        yield Write(tuple(group)[::-1])


def version_at(newest_first: Iterable[PaimonSnapshot], at: datetime) -> Version | None:
    """The newest version whose rows were there at a time."""
    return next((write.last.id for write in writes(newest_first) if write.first.at <= at), None)


def landed(newest_first: Iterable[PaimonSnapshot], commit_tag: CommitTag) -> Version | None:
    """The version that the step made. A writer's steps come in order: an older one of it ends the search."""
    for snapshot in newest_first:
        found = snapshot.commit_tag
        if found is None or found.writer != commit_tag.writer:
            continue
        if found.step <= commit_tag.step:
            return snapshot.id if found.step == commit_tag.step else None
    return None


def oldest_to_keep(found: Collection[Write], older_than: datetime, keep: Collection[Version]) -> Version:
    """The first snapshot that must stay, given all writes newest first; Paimon forgets from the oldest on.

    The newest marked write of every writer stays too: it is what tells that a step has landed.
    """
    ordered = list(found)
    kept = {ordered[0].first.id}
    kept |= {write.first.id for write in ordered if write.last.at >= older_than}
    kept |= {write.first.id for write in ordered if any(s.id in keep for s in write.snapshots)}
    marked: dict[str, Version] = {}
    for write in ordered:
        if write.last.commit_tag is not None:
            marked.setdefault(write.last.commit_tag.writer, write.first.id)
    return min(kept | set(marked.values()))
