"""Makes a lake of a backup. All of it is read and compared with its checksums before anything is written."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from headwater.catalogs.embedded import EmbeddedCatalog, Row, embedded
from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError
from headwater.core.progress import Report, byte_ticks
from headwater.core.record import Record
from headwater.core.state import LAKE_FORMAT, LakeRecord, State
from headwater.core.state.paths import PROJECT, Roots, is_absolute
from headwater.core.storage import FolderFiles
from headwater.formats.iceberg.names import lake_location
from headwater.formats.iceberg.recovery import noted_metadata
from headwater.formats.relocation import inside
from headwater.operations.backup.manifest import STATE, BackupFile, BackupManifest, RelationState, Root, damaged
from headwater.operations.backup.take import location_of
from headwater.project.definition import ProjectDefinition
from headwater.recovery.identity import PATH as IDENTITY
from headwater.recovery.identity import LakeIdentity, require_known_format
from headwater.recovery.manifest import Manifest
from headwater.recovery.reconciliation import reconcile, require_idle
from headwater.recovery.unfinished import begin_restore, end_restore, restored_from

_PLACES = {"_headwater/relations": "path", "_headwater/iceberg": "metadata"}
"""Folders of the lake whose files say where a table is, and the key that does."""


@dataclass(frozen=True)
class RestoreResult(Record):
    """A lake that was restored."""

    warehouse: str
    lake: str
    """Its id: that of the original, or a new one where the original is still there."""
    copied_from: str | None
    """The original's id, where that is still there."""
    taken_at: datetime
    """When the backup was begun."""
    files: int
    bytes: int
    relations: tuple[RelationState, ...]


def restore_backup(project: ProjectDefinition, source: str) -> RestoreResult:
    """Put a backup where the project has its lake; the place has to be empty."""
    project.require_whole()
    context = project.lake_context
    backup = FolderFiles(location_of(source), context.storage)
    manifest = BackupManifest.read(backup)
    require_known_format(backup, manifest.lake_format)
    roots: dict[Root, FolderFiles] = {
        "lake": FolderFiles(context.warehouse, context.storage),
        "project": FolderFiles(str(project.root)),
    }
    state = State.of(project.settings.state, project.home, Roots(context.warehouse, str(project.root)))
    try:
        restoring = _Restoring(project, state, backup, manifest, roots)
        again = restoring.require_place()
        with byte_ticks("checking the backup") as report:
            restoring.verify(report)
        with byte_ticks("restoring") as report:
            restoring.write(again, report)
        reconcile(project, state)
    finally:
        state.close()
    found = LakeIdentity.read(roots["lake"])
    assert found is not None
    held = [file for file in manifest.files if file.sha256 is not None]
    return RestoreResult(
        context.warehouse,
        found.id,
        found.copied_from if found.id != manifest.lake else None,
        manifest.begun_at,
        len(held),
        sum(file.bytes for file in held),
        manifest.relations,
    )


@dataclass(frozen=True)
class _Restoring:
    project: ProjectDefinition
    state: State
    backup: FolderFiles
    manifest: BackupManifest
    roots: dict[Root, FolderFiles]

    # --- before anything is written

    def require_place(self) -> list[str]:
        """Refuse a place that holds something; returns what an earlier try, which was cut off, has left there."""
        lake = self.roots["lake"]
        known = self.state.lake()
        earlier = restored_from(lake, str(self.project.home))
        if earlier is not None:
            return list(earlier[1])
        if lake.exists(IDENTITY):
            raise self._taken(f"there is a lake at {lake.root} already")
        for path, root in self._new():
            if self.roots[root].entry(path) is not None and (not self._is_folder(root, path) or self._has(root, path)):
                raise self._taken(f"there is something already at {self.roots[root].join(path)}")
        if known is not None and (known.id, known.warehouse) != (self.manifest.lake, lake.root):
            there = "the shared state" if self.state.is_shared else f"the state in {self.project.home}"
            raise self._taken(f"{there} is that of the lake {known.warehouse}")
        if known is not None:
            require_idle(self.state, str(self.project.home), known.warehouse)
        return []

    def _new(self) -> list[tuple[str, Root]]:
        """What must not be there: the folders of the lake, or, where its data files are, the files of metadata."""
        if self.manifest.metadata_only:
            return [(file.path, file.root) for file in self._held()]
        tops = {file.path.split("/")[0] for file in self.manifest.files if file.root == "lake"}
        tables = {(posixpath.dirname(file.path), file.root) for file in self.manifest.files if file.root == "project"}
        return sorted([*((top, "lake") for top in tops), *tables])

    def _is_folder(self, root: Root, path: str) -> bool:
        entry = self.roots[root].entry(path)
        return entry is not None and entry.is_folder

    def _has(self, root: Root, path: str) -> bool:
        return bool(self.roots[root].list(path))

    def _taken(self, message: str) -> UsageError:
        return UsageError(
            Code.BACKUP_NOT_EMPTY,
            f"{message}, and a lake is restored into an empty place",
            hint="restore in another folder: a copy of the project's files, with a `warehouse` of its own",
        )

    def verify(self, report: Report) -> None:
        """Compare every file with the manifest. Files that the backup does not hold have to be in place."""
        held, done = self._held(), 0
        total = sum(file.bytes for file in held)
        state = self._content(STATE)
        if hashlib.sha256(state).hexdigest() != self.manifest.state:
            raise damaged(f"{self.backup.join(STATE)} is not as it was written: its checksum differs")
        for file in held:
            for _ in self._compared(file):
                pass
            done += file.bytes
            report(done, total, posixpath.basename(file.path))
            self._require_within(file)
        for file in self.manifest.files:
            if file.sha256 is None:
                self._require_in_place(file)

    def _require_within(self, file: BackupFile) -> None:
        """Refuse a record or note that leads out of the lake: whoever restored it would write there."""
        key = _PLACES.get(posixpath.dirname(file.path))
        if file.root != "lake" or key is None or not file.path.endswith(".json"):
            return
        text = self._content(file.stored)
        try:
            place = json.loads(text)[key]
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(f"{self.backup.join(file.stored)} can't be read: {error}") from error
        rest = str(place or "").removeprefix(PROJECT)
        ours = [self.manifest.warehouse, posixpath.dirname(self.manifest.home)]
        outside = is_absolute(rest) and all(inside(rest, own) is None for own in ours)
        if outside or ".." in rest.split("/"):
            raise damaged(f"{self.backup.join(file.stored)} leads out of the lake, to {place}")

    def _require_in_place(self, file: BackupFile) -> None:
        found = self.roots[file.root].entry(file.path)
        if found is None or found.bytes != file.bytes:
            place = self.roots[file.root].join(file.path)
            what = "is not there" if found is None else f"has {found.bytes} bytes, and had {file.bytes}"
            raise UsageError(
                Code.BACKUP_INCOMPLETE,
                f"the backup {self.backup.root} holds metadata only, and the data file {place} {what}",
                hint="put the data files there first; nothing was restored",
            )

    def _held(self) -> list[BackupFile]:
        return [file for file in self.manifest.files if file.sha256 is not None]

    def _content(self, name: str) -> bytes:
        found = self.backup.find(name)
        if found is None:
            raise damaged(f"the backup lacks {self.backup.join(name)}")
        return found

    def _compared(self, file: BackupFile) -> Iterator[bytes]:
        """A file of the backup, which is damaged if it is not the one that was written."""
        found, size = hashlib.sha256(), 0
        for piece in self._pieces(file):
            found.update(piece)
            size += len(piece)
            yield piece
        place = self.backup.join(file.stored)
        if size != file.bytes:
            raise damaged(f"{place} is not as it was written: it has {size} bytes, and had {file.bytes}")
        if found.hexdigest() != file.sha256:
            raise damaged(f"{place} is not as it was written: its checksum differs")

    def _pieces(self, file: BackupFile) -> Iterator[bytes]:
        if self.backup.is_local and _leads_away(self.backup.inside(), self.backup.inside(file.stored)):
            raise damaged(f"{self.backup.join(file.stored)} is a link, or lies behind one")
        pieces = self.backup.chunks(file.stored)
        if pieces is None:
            raise damaged(f"the backup lacks {self.backup.join(file.stored)}")
        return pieces

    # --- writing

    def write(self, again: Iterable[str], report: Report) -> None:
        """The files, the state, and last what makes a lake of them."""
        lake, home = self.roots["lake"], str(self.project.home)
        if not self.manifest.metadata_only:
            for folder in again:
                lake.delete(folder)
        folders = [] if self.manifest.metadata_only else [path for path, root in self._new() if root == "lake"]
        begin_restore(lake, home, self.backup.root, folders)
        try:
            self._write_files(report)
            self._write_state()
        except HeadwaterError as error:
            if error.code is not Code.STORAGE_FAILED:
                raise
            message = f"the lake was restored in part only: {error.problem.message}"
            hint = "free some space there, and restore it again"
            raise TransientError(error.code, message, hint=hint) from error
        lake.write_atomic(IDENTITY, self._content(f"lake/{IDENTITY}"))
        end_restore(lake, home)

    def _write_files(self, report: Report) -> None:
        held, done = self._held(), 0
        total = sum(file.bytes for file in held)
        for file in held:
            if (file.root, file.path) == ("lake", IDENTITY):
                continue
            self.roots[file.root].write_chunks(file.path, self._compared(file), file.modified)
            done += file.bytes
            report(done, total, posixpath.basename(file.path))

    def _write_state(self) -> None:
        """State and catalog as they were, with the places of then: what is elsewhere now is put right after that."""
        manifest, lake = self.manifest, self.roots["lake"]
        self.state.clear()
        self.state.load(json.loads(self._content(STATE)))
        self.state.set_lake(LakeRecord(manifest.lake, manifest.warehouse, manifest.home, LAKE_FORMAT))
        for record in Manifest(lake).records():
            self.state.put(record)
        context = self.project.lake_context
        catalog = EmbeddedCatalog(lake_location(context))
        catalog.remove(row for row in catalog.rows() if inside(row.metadata, context.warehouse) is not None)
        rows = [
            Row(parts[0], ".".join(parts[1:-1]), parts[-1], posixpath.join(manifest.warehouse, metadata))
            for parts, metadata in noted_metadata(lake)
            if parts[0] in embedded(context.catalogs)
        ]
        if rows:
            catalog.put(rows)


def _leads_away(root: str, path: str) -> bool:
    real = os.path.realpath(root)
    return os.path.realpath(path) != os.path.join(real, os.path.relpath(path, root))
