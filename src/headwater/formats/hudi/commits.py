"""What a commit of a Hudi table says of itself. Both sides tell history and steps by this; plain values, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headwater.core.errors import Code, TerminalError
from headwater.core.model import Commit, CommitTag, Version
from headwater.formats.hudi.instants import Instant

COMMIT_TAG = "headwater.mark"
REPLACE = "replacecommit"

_NEUTRAL = {"CLUSTER", "COMPACT", "LOG_COMPACT"}


@dataclass(frozen=True)
class Written:
    """A base file that a commit wrote, and the one that it takes the place of."""

    partition: str
    path: str
    before: str | None
    rows: int
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class CommitRecord:
    """One commit: what it did, by which step, and which files it wrote."""

    operation: str
    commit_tag: CommitTag | None
    schema: str
    written: tuple[Written, ...]
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Partition path → the file groups that the commit took away whole."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What its writer has added to that."""

    @staticmethod
    def of(said: Mapping[str, Any], action: str) -> CommitRecord:
        """From Hudi's own record of it."""
        extra = said.get("extraMetadata") or {}
        return CommitRecord(
            operation=said.get("operationType") or action.upper(),
            commit_tag=CommitTag.from_json(extra.get(COMMIT_TAG)),
            schema=extra.get("schema") or "",
            written=tuple(_written(said.get("partitionToWriteStats") or {})),
            replaced=said.get("partitionToReplaceFileIds") or {},
            notes=extra,
        )

    @property
    def moves_only(self) -> bool:
        return self.operation in _NEUTRAL

    def as_version(self, instant: Instant, committed_at: datetime) -> Commit:
        """The line of the history that it makes."""
        moved = self.moves_only
        added = 0 if moved else sum(w.inserted + w.updated for w in self.written)
        removed = 0 if moved else sum(w.deleted + w.updated for w in self.written)
        return Commit(
            version=instant.version,
            committed_at=committed_at,
            operation=self.operation.lower(),
            rows_added=added,
            rows_removed=None if self.replaced and not moved else removed,
            commit_tag=self.commit_tag,
        )


def landed(
    newest_first: Iterable[Instant], commit: Callable[[Instant], CommitRecord], commit_tag: CommitTag
) -> Version | None:
    """The version that a step made, among all commits that the timeline still has."""
    later: Version | None = None
    for instant in newest_first:
        found = commit(instant).commit_tag
        if found is None or found.writer != commit_tag.writer:
            continue
        if found.step == commit_tag.step:
            return instant.version
        if found.step < commit_tag.step:
            break
        later = instant.version
    # steps are numbered in order: a later one that landed says that this one did, though it is forgotten
    return later


def _written(by_partition: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Written]:
    for partition, stats in by_partition.items():
        for stat in stats:
            if not stat.get("path"):
                raise TerminalError(
                    Code.TABLE_CORRUPT,
                    f"a commit wrote file group {stat.get('fileId')} and names no file",
                    hint="the writer ignored a write error; roll back that commit",
                )
            before = stat.get("prevBaseFile")
            yield Written(
                partition=partition,
                path=stat["path"],
                before=None if before is None else (f"{partition}/{before}" if partition else before),
                rows=stat.get("numWrites") or 0,
                inserted=stat.get("numInserts") or 0,
                updated=stat.get("numUpdateWrites") or 0,
                deleted=stat.get("numDeletes") or 0,
            )
