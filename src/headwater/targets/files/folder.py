"""The folder of a copy: files are written aside and moved in; what a run that was killed has left is cleared away."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator

from headwater.core.errors import Code, UsageError
from headwater.core.file_systems import split_uri
from headwater.core.storage import FileEntry, Files
from headwater.targets.files.manifest import CopyManifest, ManifestFile

STAGING = "_staging-"
KEPT = "files-"
"""Where files can't be moved those of each run stay in a folder of their own."""
_MOVES = "_moves.json"
_RENAMES = ("", "file", "hdfs")
"""Schemes of file systems that rename at once; a store would copy each file."""


class ExportFolder:
    """One destination. Nobody else writes to it meanwhile: its job sees to that."""

    def __init__(self, files: Files, run: str) -> None:
        self.files = files
        self.run = run
        self.moves = split_uri(files.root)[0] in _RENAMES
        self.aside = f"{STAGING if self.moves else KEPT}{run}"

    def is_empty(self) -> bool:
        """Whether nothing is there, but for what was left aside."""
        return not any(True for entry in self.files.list() if not self._is_aside(entry.name))

    def require_own(self, ending: str) -> None:
        """Raise where an overwrite would delete files that are no copy of this kind."""
        if CopyManifest.read(self.files) is not None:
            return
        for entry in self.files.list(recursive=True):
            if not entry.is_folder and ending not in entry.name and not entry.name.startswith(("_", ".")):
                raise UsageError(
                    Code.ALREADY_EXISTS,
                    f"{self.files.root} holds other files, such as {entry.path}: nothing is overwritten there",
                    hint="export to another folder",
                )

    def staged(self) -> list[FileEntry]:
        """The files that were written aside, by their path in the destination."""
        return [entry for entry in self.files.list(self.aside, recursive=True) if _is_data(entry)]

    def target_of(self, path: str) -> str:
        """Where a staged file ends up."""
        return posixpath.relpath(path, self.aside) if self.moves else path

    def move_in(self, staged: Iterable[FileEntry]) -> tuple[ManifestFile, ...]:
        """Move the staged files to their places; what is to be moved is written down first."""
        files = tuple(ManifestFile(self.target_of(entry.path), entry.bytes) for entry in staged)
        if self.moves:
            listed = json.dumps([file.path for file in files])
            self.files.write_atomic(f"{self.aside}/{_MOVES}", listed)
            for file in files:
                self.files.move(f"{self.aside}/{file.path}", file.path)
        return files

    def remove(self, files: Iterable[str]) -> None:
        """Delete files, and the folders that are empty without them."""
        folders = set[str]()
        for path in files:
            self.files.delete(path)
            folder = posixpath.dirname(path)
            while folder:
                folders.add(folder)
                folder = posixpath.dirname(folder)
        for folder in sorted(folders, key=len, reverse=True):
            if not self.files.list(folder):
                self.files.delete(folder)

    def clear(self) -> None:
        """Remove what was staged by this run."""
        self._clear(self.aside)

    def clear_left(self) -> None:
        """Remove what runs that were killed have left: staged files, and files that no manifest names."""
        manifest = CopyManifest.read(self.files)
        named = frozenset(() if manifest is None else (file.path for file in manifest.files))
        for entry in self.files.list():
            if self._is_aside(entry.name) and not any(path.startswith(f"{entry.name}/") for path in named):
                self._clear(entry.name, named)

    def _clear(self, folder: str, named: frozenset[str] = frozenset()) -> None:
        moved = self.files.find(f"{folder}/{_MOVES}")
        if moved is not None:
            self.remove(path for path in json.loads(moved) if path not in named)
        self.files.delete(folder)

    def others(self, but: Iterable[str]) -> Iterator[str]:
        """The data files of the folder that a new manifest does not name."""
        named = set(but)
        for entry in self.files.list(recursive=True):
            staged = entry.path.startswith(STAGING)
            if _is_data(entry) and entry.path not in named and not staged:
                yield entry.path

    def _is_aside(self, name: str) -> bool:
        return name.startswith((STAGING, KEPT))


def _is_data(entry: FileEntry) -> bool:
    return not entry.is_folder and not entry.name.startswith(("_", "."))
