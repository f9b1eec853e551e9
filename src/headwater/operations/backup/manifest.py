"""What is in a backup: every file with its size and checksum, and which state of each relation they make.

A backup is a folder: `lake/` holds files of the warehouse, `project/` those of tables elsewhere in the
project's folder, `state.json` what the state database held, and `backup.json`, written last, all of this.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from headwater.core.errors import Code, IntegrityError, TerminalError, UsageError
from headwater.core.record import Record
from headwater.core.storage import Files

MANIFEST = "backup.json"
BEGUN = "backup.unfinished"
"""Lies in a backup until its manifest does."""
STATE = "state.json"
BACKUP_FORMAT = 1
"""The version of this layout; it grows with a change that an older Headwater can't follow."""

Root = Literal["lake", "project"]
ROOTS: tuple[Root, ...] = ("lake", "project")


@dataclass(frozen=True)
class BackupFile:
    """A file of the lake."""

    root: Root
    path: str
    """From the warehouse, or from the project's folder."""
    bytes: int
    modified: datetime
    sha256: str | None
    """None: it is not in the backup, which holds metadata only."""

    @property
    def stored(self) -> str:
        """Where it lies in the backup."""
        return f"{self.root}/{self.path}"


@dataclass(frozen=True)
class RelationState(Record):
    """Which state of a relation is in a backup."""

    relation: str
    """`topics.orders`, as flows are named; tables that no flow keeps by their own names."""
    format: str
    version: int | None
    """None: it had no version yet."""
    epoch: int | None = None
    step: int | None = None
    """The newest step that the ledger in the backup has."""


@dataclass(frozen=True)
class BackupManifest:
    """A backup that is whole."""

    lake: str
    """The lake's id."""
    lake_format: int
    headwater: str
    project: str
    warehouse: str
    home: str
    """Where the lake and its state were."""
    begun_at: datetime
    ended_at: datetime
    metadata_only: bool
    relations: tuple[RelationState, ...]
    state: str
    """The checksum of `state.json`."""
    files: tuple[BackupFile, ...]

    def to_json(self) -> str:
        told = {**asdict(self), "format": BACKUP_FORMAT}
        told["begun_at"], told["ended_at"] = self.begun_at.isoformat(), self.ended_at.isoformat()
        told["files"] = [
            [file.root, file.path, file.bytes, int(file.modified.timestamp() * 1_000_000 + 0.5), file.sha256]
            for file in self.files
        ]
        return json.dumps(told, sort_keys=True)

    @staticmethod
    def read(source: Files) -> BackupManifest:
        """The manifest of a backup; refused where there is none, and where it can't be one."""
        text = source.find(MANIFEST)
        if text is None:
            raise _no_backup(source)
        try:
            told = json.loads(text)
            found = None if _format(told) > BACKUP_FORMAT else _parsed(told)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise damaged(f"{source.join(MANIFEST)} can't be read: {error}") from error
        if found is None:
            raise TerminalError(
                Code.LAKE_TOO_NEW,
                f"the backup {source.root} was written by a newer Headwater ({told.get('headwater')})",
                hint="update Headwater here; nothing was changed",
            )
        _require_inside(source, found.files)
        return found


def damaged(message: str) -> IntegrityError:
    """A backup that is not as it was written."""
    return IntegrityError(
        Code.BACKUP_DAMAGED, message, hint="nothing was restored: take another backup, or fetch this one again"
    )


def _no_backup(source: Files) -> UsageError:
    if source.exists(BEGUN):
        message = f"the backup {source.root} was cut off before it was whole"
        return UsageError(Code.BACKUP_INCOMPLETE, message, hint="nothing was restored: take another backup")
    there = "has no" if source.exists() else "is not there, nor is its"
    return UsageError(
        Code.BACKUP_INCOMPLETE,
        f"{source.root} is no backup: it {there} {MANIFEST}",
        hint="name the folder that the backup was taken into",
    )


def _format(told: Any) -> int:
    return int(told["format"])


def _parsed(told: Mapping[str, Any]) -> BackupManifest:
    fields = {key: value for key, value in told.items() if key in BackupManifest.__dataclass_fields__}
    fields["begun_at"] = datetime.fromisoformat(told["begun_at"])
    fields["ended_at"] = datetime.fromisoformat(told["ended_at"])
    fields["relations"] = tuple(RelationState(**each) for each in told["relations"])
    fields["files"] = tuple(_file(*each) for each in told["files"])
    return BackupManifest(**fields)


def _file(root: Root, path: str, size: int, modified: int, sha256: str | None) -> BackupFile:
    if root not in ROOTS or not isinstance(path, str):
        raise ValueError(f"no file of a lake: {root} {path}")
    return BackupFile(root, path, int(size), datetime.fromtimestamp(int(modified) / 1e6, timezone.utc), sha256)


def _require_inside(source: Files, files: Sequence[BackupFile]) -> None:
    """Refuse names that lead out of the lake, or to what is no file of one: somebody has written them."""
    seen = set()
    for file in files:
        parts = file.path.split("/")
        climbs = any(part in ("", ".", "..") for part in parts) or "\0" in file.path
        ours = file.root == "project" and (len(parts) == 1 or parts[0].startswith(".headwater"))
        if climbs or ours or posixpath.isabs(file.path) or file.stored in seen:
            raise damaged(f"{source.join(MANIFEST)} names {file.stored!r}, which is no file of a lake")
        seen.add(file.stored)
