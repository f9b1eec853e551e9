"""Which files have been ingested, in batches; a batch is fixed before it is read, and says which state was read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files

TIERS = (100, 10_000, 1_000_000)
"""So many batches are merged into one file, and so many of those again: there are never more than some hundred."""

_NAME = re.compile(r"^(\d{12})-(\d{12})\.json$")


@dataclass(frozen=True)
class InputFile:
    """A file as it was when it was ingested."""

    path: str
    bytes: int
    modified: int
    """Microseconds since 1970."""


@dataclass(frozen=True)
class FileBatch:
    """The files of one step, and in blocks of which size they are read: read again, they give the same positions."""

    files: tuple[InputFile, ...]
    block: int
    problems: Mapping[str, str] = field(default_factory=dict)
    """Files that can't be read, with the cause; found out after the batch was fixed."""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


class FileLog:
    """`files/<first batch>-<last batch>.json` in the flow's folder.

    The log is read once, when the flow starts. After that memory holds each path with a fingerprint of the file, and
    the batches that are not in the lake yet are read when they are asked for.
    """

    def __init__(self, notes: Files, *, is_local: bool = True) -> None:
        self._notes = notes
        self._is_local = is_local
        self._seen: dict[str, int] = {}
        self._latest: tuple[int, FileBatch] | None = None
        self.last = 0
        """The last batch; 0 before the first."""
        for first, last in self._ranges():
            for _, batch in sorted(self._load(_path(first, last)).items()):
                self._remember(batch.files)
            self.last = max(self.last, last)

    def __contains__(self, path: str) -> bool:
        return path in self._seen

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def is_same(self, file: InputFile) -> bool:
        """Whether the file is as it was when it was ingested."""
        return self._seen.get(file.path) == fingerprint(file, self._is_local)

    def was_empty(self, path: str) -> bool:
        """Whether there was nothing in the file when it was ingested."""
        return self._seen.get(path) == _EMPTY

    def add(self, batch: FileBatch) -> int:
        """Fix a new batch."""
        number = self.last + 1
        self._write(_path(number, number), {number: batch})
        self._remember(batch.files)
        self.last = number
        self._latest = (number, batch)
        for tier in TIERS:
            if number % tier == 0:
                self._merge(number - tier + 1, number)
        return number

    def batch(self, number: int) -> FileBatch:
        if self._latest is None or self._latest[0] != number:
            self._latest = (number, self._find(number))
        return self._latest[1]

    def after(self, number: int) -> Iterator[FileBatch]:
        """The batches after one."""
        if number >= self.last:
            return
        for first, last in self._ranges():
            if last > number:
                yield from (batch for n, batch in self._load(_path(first, last)).items() if n > number)

    def tell(self, number: int, problems: Mapping[str, str]) -> None:
        """Some files of a batch can't be read; from now on they are left out whenever it is read."""
        found = self.batch(number)
        self._notes.write_atomic(_problems(number), json.dumps(dict(problems)))
        self._latest = (number, FileBatch(found.files, found.block, problems))

    def amend(self, number: int, files: Iterable[InputFile]) -> None:
        """Some files of a batch changed before they were read: it has them as they are now."""
        found = replace(self.batch(number), files=tuple(files))
        path = _path(*self._range_of(number))
        self._write(path, {**self._load(path), number: found})
        self._remember(found.files)
        self._latest = (number, found)

    def _find(self, number: int) -> FileBatch:
        found = self._load(_path(*self._range_of(number)))[number]
        told = self._notes.find(_problems(number))
        return found if told is None else FileBatch(found.files, found.block, json.loads(told))

    def _range_of(self, number: int) -> tuple[int, int]:
        for first, last in self._ranges():
            if first <= number <= last:
                return first, last
        raise IntegrityError(
            Code.LEDGER_CORRUPT,
            f"the list of files {self._notes.join('files')} has no batch {number}",
            hint="put it back from a copy, or reset the flow",
        )

    def _remember(self, files: Iterable[InputFile]) -> None:
        for file in files:
            self._seen[file.path] = fingerprint(file, self._is_local)

    def _ranges(self) -> list[tuple[int, int]]:
        """The files of the log; where a crash left the parts of a merged one, only the merged one."""
        names = (_NAME.match(entry.name) for entry in self._notes.list("files"))
        found = sorted((int(one.group(1)), -int(one.group(2))) for one in names if one)
        ranges: list[tuple[int, int]] = []
        for first, last in ((first, -last) for first, last in found):
            if not ranges or first > ranges[-1][1]:
                ranges.append((first, last))
        return ranges

    def _load(self, path: str) -> dict[int, FileBatch]:
        try:
            found: dict[str, Any] = json.loads(self._notes.read_text(path))
            return {
                int(number): FileBatch(tuple(InputFile(*file) for file in batch["files"]), int(batch["block"]))
                for number, batch in found.items()
            }
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"the list of files {self._notes.join(path)} can't be read: {error}",
                hint="put it back from a copy, or reset the flow",
            ) from error

    def _write(self, path: str, batches: Mapping[int, FileBatch]) -> None:
        content = {
            number: {"block": batch.block, "files": [[file.path, file.bytes, file.modified] for file in batch.files]}
            for number, batch in batches.items()
        }
        self._notes.write_atomic(path, json.dumps(content, separators=(",", ":")))

    def _merge(self, first: int, last: int) -> None:
        """One file for many. A crash in between leaves both, which say the same."""
        parts = [part for part in self._ranges() if first <= part[0] and part[1] <= last]
        merged: dict[int, FileBatch] = {}
        for part in parts:
            merged |= self._load(_path(*part))
        self._write(_path(first, last), merged)
        for part in parts:
            self._notes.delete(_path(*part))


def restamped(notes: Files, now: Callable[[InputFile], InputFile | None]) -> None:
    """Write down for files that were ingested how they are `now`, where it gives that: they are the same files."""
    for entry in notes.list("files"):
        if not _NAME.match(entry.name):
            continue
        path = f"files/{entry.name}"
        found = json.loads(notes.read_text(path))
        changed = False
        for batch in found.values():
            states = [now(InputFile(*file)) for file in batch["files"]]
            changed |= any(state is not None for state in states)
            batch["files"] = [
                file if state is None else [state.path, state.bytes, state.modified]
                for file, state in zip(batch["files"], states, strict=True)
            ]
        if changed:
            notes.write_atomic(path, json.dumps(found, separators=(",", ":")))


_EMPTY = 0


def fingerprint(file: InputFile, is_local: bool) -> int:
    """Another one is another state. Some object stores tell fractions of seconds in a listing and not of a file."""
    if not file.bytes:
        return _EMPTY
    return hash((file.bytes, file.modified if is_local else file.modified // 1_000_000))


def _path(first: int, last: int) -> str:
    return f"files/{first:012d}-{last:012d}.json"


def _problems(number: int) -> str:
    return f"unreadable/{number:012d}.json"
