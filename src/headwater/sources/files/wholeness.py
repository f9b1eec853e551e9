"""Whether a file is whole, or somebody is still writing it."""

from __future__ import annotations

import errno
import os
import signal
import time
from datetime import timedelta
from enum import Enum
from pathlib import Path

from headwater.sources.files.log import InputFile

QUIET = 2.0
"""Seconds without a change after which a file counts as whole where its writer can't be seen."""
WATCHED = 3600.0
"""Seconds after its last change for which a file's writer is looked for."""
ATOMIC = ("s3://", "s3a://", "gs://")
"""Stores in which a file is there whole or not at all."""

_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "bcachefs", "jfs"})
"""File systems that nobody writes to but processes of this machine."""
_MOUNTS = Path("/proc/self/mountinfo")
_REMEMBERED = 10_000


class FileState(Enum):
    """What is known of a file that could be ingested."""

    WHOLE = "whole"
    WRITTEN = "written"
    """A process has it open, or it is younger than the source wants."""
    RESTING = "resting"
    """It changed a moment ago, and nobody can tell whether it will again."""


class Wholeness:
    """Judges the files of one source."""

    def __init__(self, location: str, *, is_local: bool, min_age: timedelta | None) -> None:
        self._root = location if is_local else None
        self._min_age = None if min_age is None else min_age.total_seconds()
        self._always = self._min_age == 0 or (self._min_age is None and location.lower().startswith(ATOMIC))
        self._seen: dict[str, tuple[InputFile, float]] = {}
        self._local: dict[str, bool] = {}

    def of(self, file: InputFile) -> FileState:
        if self._always:
            return FileState.WHOLE
        age = time.time() - file.modified / 1e6
        if self._min_age is not None and age < self._min_age:
            return FileState.WRITTEN
        written = self._is_written(file) if age < WATCHED else None
        if written:
            return FileState.WRITTEN
        if written is False or self._min_age is not None or age > QUIET or self._has_rested(file):
            self._seen.pop(file.path, None)
            return FileState.WHOLE
        return FileState.RESTING

    def _is_written(self, file: InputFile) -> bool | None:
        if self._root is None:
            return None
        path = os.path.join(self._root, file.path)
        folder = os.path.dirname(path)
        if folder not in self._local:
            self._local[folder] = kind_of(folder) in _LOCAL
        return is_being_written(path) if self._local[folder] else None

    def _has_rested(self, file: InputFile) -> bool:
        """By this machine's clock: the file's time of change may be another's."""
        now = time.monotonic()
        known = self._seen.get(file.path)
        if known is not None and known[0] == file:
            return now - known[1] > QUIET
        if len(self._seen) > _REMEMBERED:  # files that came and went
            self._seen.clear()
        self._seen[file.path] = (file, now)
        return False


def is_being_written(path: str) -> bool | None:
    """Whether a process of this machine has the file open for writing; None if that can't be told.

    Linux grants a lease for reading only on a file that nobody has open for writing. It is asked for and given back at
    once, which takes some microseconds; it is granted to the file's owner and to whoever may take any lease.
    """
    try:
        import fcntl

        ask, let_go, told_by = fcntl.F_SETLEASE, fcntl.F_UNLCK, _F_SETSIG
    except (ImportError, AttributeError):
        return None
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        # Whoever opens it in between has to wait for us, and we are told so by a signal: one that does nothing.
        fcntl.fcntl(opened, told_by, signal.SIGURG)
        fcntl.fcntl(opened, ask, fcntl.F_RDLCK)
        fcntl.fcntl(opened, ask, let_go)
    except OSError as error:
        return True if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK) else None
    finally:
        os.close(opened)
    return False


_F_SETSIG = 10


def kind_of(folder: str) -> str:
    """The kind of file system that a folder lies in; nothing if that can't be told."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    real = os.path.realpath(folder)
    best, kind = "", ""
    for parts in mounts:
        at = parts[4].encode().decode("unicode_escape") if "\\" in parts[4] else parts[4]
        inside = real == at or real.startswith(at.rstrip("/") + "/")
        if inside and len(at) >= len(best):  # a later one lies over an earlier one
            best, kind = at, parts[parts.index("-") + 1]
    return kind
