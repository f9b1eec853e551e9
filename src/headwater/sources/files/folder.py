"""The folder that files land in: which of its files are whole and wanted."""

from __future__ import annotations

import fnmatch
import posixpath
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.core.storage import FileEntry, FolderFiles
from headwater.sources.files.config import FilesSource
from headwater.sources.files.folder_walk import Walk
from headwater.sources.files.log import InputFile, fingerprint
from headwater.sources.files.wholeness import FileState, Wholeness

UNFINISHED = re.compile(
    r"(^|/)[._]|\.(tmp|temp|part|partial|filepart|crdownload|download|inprogress|_copying_)($|/)", re.IGNORECASE
)
"""How writers name files that they have not finished, and folders that are nobody's business."""

_GLOB = re.compile(r"[*?\[{]")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Folder:
    """Looks for files; knows nothing of what has been ingested."""

    def __init__(self, spec: FilesSource, location: str, storage: Mapping[str, Any]) -> None:
        self._spec = spec
        root, glob = split(spec.path, location)
        self.files = FolderFiles(root, storage)
        self._glob = None if glob is None else re.compile(translated(glob))
        self._single: str | None = None
        if glob is None and self._is_one_file():
            folder, self._single = posixpath.split(location)
            self.files = FolderFiles(folder, storage)
        self._deep = (spec.recursive or self._glob is not None) and self._single is None
        inside = self.files.inside()
        self._walk = (
            Walk(inside, self._deep, self._is_wanted, follow_links=spec.follow_links) if self.files.is_local else None
        )
        place = self.files.inside() if self.files.is_local else self.files.root
        self._wholeness = Wholeness(place, is_local=self.files.is_local, min_age=spec.min_age)

    @property
    def is_local(self) -> bool:
        return self._walk is not None

    def look(self, *, everywhere: bool = True) -> Iterator[InputFile]:
        """The files that are meant; in a local folder, if so asked, only where something came or went."""
        return (file for file in self._found(everywhere) if self._is_wanted(file.path))

    def state(self, file: InputFile) -> FileState:
        """Whether it can be ingested. If not, the next look finds it again."""
        found = self._wholeness.of(file)
        if found is not FileState.WHOLE and self._walk is not None:
            self._walk.again(file)
        return found

    def find(self, path: str) -> InputFile | None:
        """One file as it is now, or None if it is gone."""
        if self._walk is not None:
            return self._walk.find(path)
        entry = self.files.entry(path)
        return None if entry is None else _taken(entry)

    def leads_out(self, path: str) -> bool:
        """Whether it is, or lies behind, a link out of the folder that may not be followed. The one file that `path`
        names may be such a link."""
        return self._walk is not None and path != self._single and self._walk.leads_out(path)

    @property
    def refused_links(self) -> list[str]:
        """Links that the last look through the whole folder left alone, by name."""
        found = set() if self._walk is None else self._walk.refused
        return sorted(path for path in found if path != self._single and not UNFINISHED.search(path))

    def is_same(self, one: InputFile, other: InputFile) -> bool:
        """Whether a file is in the same state."""
        return one.path == other.path and fingerprint(one, self.is_local) == fingerprint(other, self.is_local)

    def _found(self, everywhere: bool) -> Iterator[InputFile]:
        try:
            if not self.files.exists():
                raise self._unavailable(f"there is no folder {self.files.root}", "make it, or correct `path`")
            if self._single is not None:
                named = self.find(self._single)
                yield from () if named is None else (named,)
                return
            if self._walk is not None:
                yield from self._walk.files(everywhere=everywhere)
            else:
                entries = self.files.list(recursive=self._deep)
                yield from (_taken(entry) for entry in entries if not entry.is_folder)
        except (HeadwaterError, OSError) as error:
            if isinstance(error, HeadwaterError) and error.code is Code.SOURCE_UNAVAILABLE:
                raise
            told = error.problem.message if isinstance(error, HeadwaterError) else str(error)
            raise self._unavailable(told, "check that the folder can be read") from error

    def _unavailable(self, message: str, hint: str) -> TransientError:
        return TransientError(Code.SOURCE_UNAVAILABLE, message, where=self._spec.where, hint=hint)

    def _is_one_file(self) -> bool:
        entry = self.files.entry("")
        return entry is not None and not entry.is_folder

    def _is_wanted(self, path: str) -> bool:
        if UNFINISHED.search(path):
            return False
        if self._single is not None:
            return path == self._single
        if self._glob is not None and not self._fits_glob(path, self._glob):
            return False
        return self._spec.pattern is None or fnmatch.fnmatchcase(posixpath.basename(path), self._spec.pattern)

    def _fits_glob(self, path: str, glob: re.Pattern[str]) -> bool:
        """The glob may name files, or folders whose files are all meant (with `recursive`, those below too)."""
        if glob.fullmatch(path):
            return True
        folder = posixpath.dirname(path)
        while folder:
            if glob.fullmatch(folder):
                return True
            if not self._spec.recursive:
                return False
            folder = posixpath.dirname(folder)
        return False


def split(path: str, location: str) -> tuple[str, str | None]:
    """A folder, and the glob below it that its files have to fit. Only `path`, which the project says, can have one:
    the folder of the project may have any name."""
    parts = posixpath.normpath(path).split("/")
    magic = next((i for i, part in enumerate(parts) if _GLOB.search(part)), None)
    if magic is None:
        return location, None
    glob = "/".join(parts[magic:])
    return location.rstrip("/").removesuffix(glob).rstrip("/") or "/", glob


def translated(glob: str) -> str:
    """A glob as a regular expression: `*` and `?` stay inside a name, `**` goes through folders, `{a,b}` is either."""
    out, i, open_braces = [], 0, 0
    while i < len(glob):
        char = glob[i]
        if glob.startswith("**/", i):
            out.append("(?:.*/)?")
            i += 2
        elif glob.startswith("**", i):
            out.append(".*")
            i += 1
        elif char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := glob.find("]", i + 2)) > 0:
            inside = glob[i + 1 : end].replace("\\", "\\\\")
            out.append(f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            i = end
        elif char == "{" and "}" in glob[i:]:
            out.append("(?:")
            open_braces += 1
        elif char == "}" and open_braces:
            out.append(")")
            open_braces -= 1
        elif char == "," and open_braces:
            out.append("|")
        else:
            out.append(re.escape(char))
        i += 1
    return "".join(out)


def age_in_seconds(modified: int) -> float:
    return max(0.0, time.time() - modified / 1_000_000)


def _taken(entry: FileEntry) -> InputFile:
    return InputFile(entry.path, entry.bytes, (entry.modified - _EPOCH) // timedelta(microseconds=1))
