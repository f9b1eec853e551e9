"""Which files have been taken in, in batches; a batch is settled before it is read and never changes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from headwater.errors import Code, IntegrityError
from headwater.storage import Files

MERGED = 100
_NAME = re.compile(r"^(\d{12})-(\d{12})\.json$")


@dataclass(frozen=True)
class Taken:
    """A file as it was when it was taken in."""

    path: str
    bytes: int
    modified: str


class FileLog:
    """`<first batch>-<last batch>.json` in the flow's folder; runs of a hundred batches are merged into one file.

    All paths are held in memory, so that looking for new files costs what the folder's listing costs.
    """

    def __init__(self, notes: Files) -> None:
        self._notes = notes
        self._batches: dict[int, list[Taken]] = {}
        for first, last in self._ranges():
            self._load(first, last)
        self._seen = {file.path for batch in self._batches.values() for file in batch}

    def __contains__(self, path: str) -> bool:
        return path in self._seen

    @property
    def last(self) -> int:
        """The last batch; 0 before the first."""
        return max(self._batches, default=0)

    def add(self, files: list[Taken]) -> int:
        """Settle a new batch."""
        number = self.last + 1
        self._write(number, number, {number: files})
        self._batches[number] = files
        self._seen.update(file.path for file in files)
        if number % MERGED == 0:
            self._merge(number - MERGED + 1, number)
        return number

    def files(self, after: int, to: int) -> list[Taken]:
        return [file for number in range(after + 1, to + 1) for file in self._batches[number]]

    def _ranges(self) -> list[tuple[int, int]]:
        names = (_NAME.match(entry.name) for entry in self._notes.list("files"))
        return sorted((int(found.group(1)), int(found.group(2))) for found in names if found)

    def _load(self, first: int, last: int) -> None:
        path = _path(first, last)
        try:
            found = json.loads(self._notes.read_text(path))
            for number, files in found.items():
                self._batches[int(number)] = [Taken(*file) for file in files]
        except (ValueError, TypeError, AttributeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT, f"the list of files {self._notes.join(path)} can't be read: {error}"
            ) from error

    def _write(self, first: int, last: int, batches: dict[int, list[Taken]]) -> None:
        content = {n: [[file.path, file.bytes, file.modified] for file in files] for n, files in batches.items()}
        self._notes.write_atomic(_path(first, last), json.dumps(content))

    def _merge(self, first: int, last: int) -> None:
        """One file for many. A crash in between leaves both, which say the same."""
        self._write(first, last, {n: self._batches[n] for n in range(first, last + 1)})
        for number in range(first, last + 1):
            self._notes.delete(_path(number, number))


def _path(first: int, last: int) -> str:
    return f"files/{first:012d}-{last:012d}.json"
