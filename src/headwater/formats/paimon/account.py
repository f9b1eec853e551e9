"""What a write of a Paimon table did, told from the files that it names. Both sides tell it by this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.core.model import Commit, Version
from headwater.formats.paimon.snapshots import COMPACT, OVERWRITE, Write

DELTA, CHANGELOG = "DELTA", "CHANGELOG"


@dataclass(frozen=True)
class WrittenFile:
    """A file that a snapshot added or took away."""

    is_added: bool
    rows: int
    deletes: int
    """Rows that say that another one is gone."""


FilesOf = Callable[[Version, str], Sequence[WrittenFile]]
"""The files that a snapshot lists: of its rows (DELTA), or of their changes (CHANGELOG)."""


def as_commit(write: Write, keyed: bool, files_of: FilesOf) -> Commit:
    """A line of the history; rows are None where only a scan could tell."""
    operation, added, removed = _account(write, keyed, files_of)
    return Commit(write.last.id, write.last.at, operation, added, removed, write.last.commit_tag)


def _account(write: Write, keyed: bool, files_of: FilesOf) -> tuple[str, int | None, int | None]:
    if write.kind == COMPACT:
        return "compact", 0, 0
    files = files_of(write.first.id, DELTA)
    added = sum(file.rows for file in files if file.is_added)
    removed = sum(file.rows for file in files if not file.is_added)
    if write.kind == OVERWRITE:
        return "replace", added, None if keyed else removed
    if keyed:
        logged = [file for snapshot in write.snapshots for file in files_of(snapshot.id, CHANGELOG)]
        if not logged and added:
            return "upsert", None, None
        gone = sum(file.deletes for file in logged)
        return "upsert", sum(file.rows for file in logged) - gone, gone
    # files were replaced, and hold rows that stayed alongside those that changed
    return ("upsert", None, None) if removed else ("append", added, 0)
