"""A quick walk through a local folder: folders in which nothing came or went since the last walk are passed by."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from headwater.sources.files.log import Taken

SETTLED = 2.0
"""Seconds after which a folder's time of change can be told from that of the next change, on any file system."""


@dataclass(frozen=True)
class _Known:
    changed: int
    folders: tuple[str, ...]


class Walk:
    """Remembers of each folder when it changed, and the folders in it; of the files nothing."""

    def __init__(self, root: str, recursive: bool) -> None:
        self._root = root
        self._recursive = recursive
        self._known: dict[str, _Known] = {}
        self._again: set[str] = set()

    def files(self, *, everywhere: bool) -> Iterator[Taken]:
        """The files in folders that may have new ones, or in all."""
        walked: set[tuple[int, int]] = set()
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                status = os.stat(os.path.join(self._root, folder))
                if (status.st_dev, status.st_ino) in walked:  # a link back
                    continue
                walked.add((status.st_dev, status.st_ino))
                known = self._known.get(folder)
                if everywhere or known is None or known.changed != status.st_mtime_ns or folder in self._again:
                    self._again.discard(folder)
                    known = yield from self._list(folder, status.st_mtime_ns)
            except FileNotFoundError:
                if not folder:
                    raise
                continue
            waiting += known.folders

    def again(self, file: Taken) -> None:
        """The file was seen but not taken: its folder is looked into the next time, too."""
        folder = str(PurePosixPath(file.path).parent)
        self._again.add("" if folder == "." else folder)

    def find(self, path: str) -> Taken | None:
        try:
            return _taken(path, os.stat(os.path.join(self._root, path)))
        except FileNotFoundError:
            return None

    def _list(self, folder: str, changed: int) -> Generator[Taken, None, _Known]:
        begun = time.time()
        folders: list[str] = []
        with os.scandir(os.path.join(self._root, folder)) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                try:
                    if not entry.is_dir():
                        yield _taken(path, entry.stat())
                    elif self._recursive and not entry.name.startswith((".", "_")):
                        folders.append(path)
                except FileNotFoundError:  # gone since, or a link to nowhere
                    continue
        found = _Known(changed, tuple(folders))
        if begun - changed / 1e9 > SETTLED:
            self._known[folder] = found
        else:
            self._known.pop(folder, None)
        return found


def _taken(path: str, status: os.stat_result) -> Taken:
    return Taken(path, status.st_size, status.st_mtime_ns // 1000)
