"""The files of a backup that is being written: each is copied once, and again only if it has changed meanwhile."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timezone

from headwater.core.progress import Report
from headwater.core.storage import FileEntry, Files, FolderFiles
from headwater.operations.backup.manifest import BackupFile, Root


class Gone(Exception):
    """A file went away while it was to be copied: its table has let go of the version that named it."""


class BackupWriter:
    """Copies files into the folder of a backup, and knows what is in it."""

    def __init__(self, target: FolderFiles, report: Report) -> None:
        self.target = target
        self._report = report
        self._files: dict[str, BackupFile] = {}
        self._seen: dict[str, tuple[int, datetime]] = {}
        self._copied = 0

    @property
    def files(self) -> tuple[BackupFile, ...]:
        return tuple(self._files[name] for name in sorted(self._files))

    def copy(self, root: Root, path: str, source: Files, entry: FileEntry) -> str:
        """Have a file in the backup as it is now; returns its name there. Gone where it is no more."""
        stored, state = posixpath.join(root, path), (entry.bytes, entry.modified)
        if self._seen.get(stored) == state:
            return stored
        content = source.chunks(entry.path)
        if content is None:
            raise Gone(source.join(entry.path))
        counted = _Counted(content)
        self.target.write_chunks(stored, counted)
        self._seen[stored] = state
        self._files[stored] = BackupFile(root, path, counted.bytes, entry.modified, counted.checksum)
        self._copied += counted.bytes
        self._report(self._copied, 0, posixpath.basename(path))
        return stored

    def put(self, root: Root, path: str, content: bytes) -> str:
        """A file of the lake with what it has to say in the backup."""
        stored, now = posixpath.join(root, path), datetime.now(timezone.utc)
        self.target.write_chunks(stored, [content])
        self._seen.pop(stored, None)
        self._files[stored] = BackupFile(root, path, len(content), now, hashlib.sha256(content).hexdigest())
        return stored

    def name(self, root: Root, path: str, entry: FileEntry) -> str:
        """A file of the lake that the backup does not hold, and that has to be there when it is restored."""
        stored = posixpath.join(root, path)
        self._files[stored] = BackupFile(root, path, entry.bytes, entry.modified, None)
        return stored

    def keep_only(self, stored: Collection[str], of: Callable[[str], bool]) -> None:
        """Forget files that are in the backup by an earlier try, and are no part of the lake any more."""
        for name in [name for name in self._files if of(name) and name not in stored]:
            if self._files.pop(name).sha256 is not None:
                self._seen.pop(name, None)
                self.target.delete(name)


class _Counted:
    """Pieces of a file as they go by."""

    def __init__(self, content: Iterator[bytes]) -> None:
        self._content = content
        self._hash = hashlib.sha256()
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._content:
            self._hash.update(piece)
            self.bytes += len(piece)
            yield piece

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()
