"""A quick walk through a local folder: folders in which nothing came or went since the last walk are passed by."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from headwater.sources.files.log import InputFile

SETTLED = 2.0
"""Seconds after which a folder's time of change can be told from that of the next change, on any file system."""
_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What is gone since, or a link to nowhere or to itself."""


@dataclass(frozen=True)
class _Known:
    changed: int
    folders: tuple[str, ...]
    links: tuple[str, ...]
    """Links to folders."""


class Walk:
    """Remembers of each folder when it changed, and the folders in it; of the files nothing.

    Links to what lies in the folder are followed, but for those to a file that is found under its own name. Those that
    lead out of it are not, unless `follow_links`: whoever may put a link there could have any file of this machine
    read.
    """

    def __init__(
        self, root: str, recursive: bool, is_wanted: Callable[[str], bool], *, follow_links: bool = False
    ) -> None:
        self._root = root
        self._recursive = recursive
        self._is_wanted = is_wanted
        self._follow_links = follow_links
        self._known: dict[str, _Known] = {}
        self._again: set[str] = set()
        self.refused: set[str] = set()
        """Links that lead out of the folder."""

    def files(self, *, everywhere: bool) -> Iterator[InputFile]:
        """The files in folders that may have new ones, or in all."""
        if everywhere:
            self.refused.clear()
        walked: set[tuple[int, int]] = set()
        # A folder that can be reached by a link too is always found under its own name.
        waiting, links = [""], deque[str]()
        while waiting or links:
            is_link = not waiting
            folder = links.popleft() if is_link else waiting.pop()
            place = os.path.join(self._root, folder)
            try:
                status = os.stat(place, follow_symlinks=is_link or not folder)
                if not stat.S_ISDIR(status.st_mode):  # it is something else by now
                    self._known.pop(folder, None)
                    continue
                if (status.st_dev, status.st_ino) in walked:  # a link back
                    continue
                if is_link and self.leads_out(folder):
                    self.refused.add(folder)
                    continue
                walked.add((status.st_dev, status.st_ino))
                known = self._known.get(folder)
                if everywhere or known is None or known.changed != status.st_mtime_ns or folder in self._again:
                    self._again.discard(folder)
                    known = yield from self._list(folder, status.st_mtime_ns)
            except OSError as error:
                if not folder or error.errno not in _NOWHERE:
                    raise
                continue
            waiting += known.folders
            links += known.links

    def again(self, file: InputFile) -> None:
        """The file was seen but not taken: its folder is looked into the next time, too."""
        folder = str(PurePosixPath(file.path).parent)
        self._again.add("" if folder == "." else folder)

    def find(self, path: str) -> InputFile | None:
        try:
            return _taken(path, os.stat(os.path.join(self._root, path)))
        except OSError as error:
            if error.errno not in _NOWHERE:
                raise
            return None

    def leads_out(self, path: str) -> bool:
        """Whether a path leads to something outside of the folder that may not be read."""
        return not self._follow_links and self._real(path) is None

    def _real(self, path: str) -> str | None:
        """The path without links; None if it leads out of the folder."""
        root, real = os.path.realpath(self._root), os.path.realpath(os.path.join(self._root, path))
        if real == root:
            return ""
        below = root.rstrip("/") + "/"
        return real.removeprefix(below) if real.startswith(below) else None

    def _is_found_as_itself(self, path: str) -> bool:
        """Whether the file that a link leads to is one of those that this walk finds anyway."""
        real = self._real(path)
        return bool(real) and (self._recursive or "/" not in str(real)) and self._is_wanted(str(real))

    def _list(self, folder: str, changed: int) -> Generator[InputFile, None, _Known]:
        begun = time.time()
        folders: list[str] = []
        links: list[str] = []
        with os.scandir(os.path.join(self._root, folder)) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                try:
                    if entry.is_symlink() and self.leads_out(path):
                        if os.path.exists(os.path.join(self._root, path)):
                            self.refused.add(path)
                    elif not entry.is_dir():
                        status = entry.stat()
                        if entry.is_symlink() and self._is_found_as_itself(path):
                            continue
                        if stat.S_ISREG(status.st_mode):
                            yield _taken(path, status)
                    elif self._recursive and not entry.name.startswith((".", "_")):
                        (links if entry.is_symlink() else folders).append(path)
                except OSError as error:
                    if error.errno not in _NOWHERE:
                        raise
        found = _Known(changed, tuple(folders), tuple(sorted(links)))
        if begun - changed / 1e9 > SETTLED:
            self._known[folder] = found
        else:
            self._known.pop(folder, None)
        return found


def _taken(path: str, status: os.stat_result) -> InputFile:
    return InputFile(path, status.st_size, status.st_mtime_ns // 1000)
