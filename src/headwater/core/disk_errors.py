"""Errors of disks and file systems: which of them may go away by themselves, and how much room is left."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError
from headwater.core.units import format_size

_NAMES = (
    # full
    *("ENOSPC", "EDQUOT"),
    # a disk that fails, is mounted read-only, or is away
    *("EIO", "EREMOTEIO", "EROFS", "ESTALE", "ENOTCONN", "ENODEV", "ENXIO", "ENOMEDIUM", "ESHUTDOWN"),
    # a server of files that can't be reached
    *("ETIMEDOUT", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENETRESET"),
    *("ECONNRESET", "ECONNREFUSED", "ECONNABORTED"),
    # somebody else is using it, or too much is in use
    *("EBUSY", "EAGAIN", "EINTR", "ENOLCK", "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"),
)
PASSING = frozenset(getattr(errno, name) for name in _NAMES if hasattr(errno, name))
"""Errors that end when somebody frees some space, mounts a disk again, or brings a server back."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_FULL_TEXT = re.compile(
    r"No space left on device|Disk quota exceeded|database or disk is full|SQLITE_FULL|os error (?:28|122)\b",
    re.IGNORECASE,
)
_PASSING_TEXT = re.compile(
    rf"{_FULL_TEXT.pattern}|Input/output error|Read-only file system|Stale (?:NFS )?file handle"
    r"|Transport endpoint is (?:not connected|shut)|No such device|Too many open files|disk I/O error|SQLITE_IOERR"
    r"|SQLITE_READONLY|SQLITE_CANTOPEN|attempt to write a readonly database|unable to open database file"
    r"|os error (?:5|30|107|108|116)\b",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?:\bfile:(?://)?)?(/[^\s'\"`,;()\[\]{}<>]*[^\s'\"`,;:.()\[\]{}<>])")


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it, each once: PySpark's errors may be their own cause."""
    seen: set[int] = set()
    here: BaseException | None = error
    while here is not None and id(here) not in seen:
        seen.add(id(here))
        yield here
        here = here.__cause__


def is_passing(error: OSError) -> bool:
    """Whether it may go away by itself."""
    return error.errno in PASSING or (error.errno is None and tells_passing(str(error)))


def tells_passing(text: str) -> bool:
    """The same of a text in which Java, Rust, SQLite or a Python worker says what the file system said."""
    return _PASSING_TEXT.search(text) is not None


def tells_full(text: str) -> bool:
    return _FULL_TEXT.search(text) is not None


def disk_error(message: str, cause: OSError, *paths: str) -> HeadwaterError:
    """An error of the file system as one of ours. `paths`: where it was, if `cause` does not name the file."""
    named = [os.fsdecode(name) for name in (cause.filename, cause.filename2) if isinstance(name, (str, bytes))]
    full = cause.errno in _FULL or tells_full(str(cause))
    kind = TransientError if is_passing(cause) else TerminalError
    return kind(Code.STORAGE_FAILED, f"{message}: {cause_of(cause)}{room([*named, *paths])}", hint=hint_for(full=full))


def cause_of(error: OSError) -> str:
    """What the file system said, with the name of the file."""
    if error.strerror is None:
        return str(error) or type(error).__name__
    name = "" if error.filename is None else f": {os.fsdecode(error.filename)}"
    return f"{error.strerror}{name}"


def hint_for(*, full: bool) -> str | None:
    return "free some space on the disk; it goes on by itself then" if full else None


def room(paths: Iterable[str]) -> str:
    """How much is free where these paths lie: `; 12KB of 20MB are free at /data`. Nothing where none is local."""
    said: dict[int, str] = {}
    for path in paths:
        full_at = _room_at(path)
        if full_at is not None:
            said.setdefault(*full_at)
    return "".join(f"; {text}" for text in said.values())


def paths_in(text: str) -> list[str]:
    """Local paths that a text names, as far as their folders are there."""
    paths = (unquote(path) if "file:" in match else path for match, path in _matches(text))
    return [path for path in paths if path.count("/") > 1 and os.path.isdir(os.path.dirname(path))]


def _matches(text: str) -> Iterator[tuple[str, str]]:
    for match in _PATH.finditer(text):
        yield match.group(0), match.group(1)


def _room_at(path: str) -> tuple[int, str] | None:
    """The disk that a path lies on, and what is free there; told by the folder that it is mounted at."""
    here = os.path.abspath(path.removeprefix("file://").removeprefix("file:"))
    while not os.path.exists(here) and here != os.path.dirname(here):
        here = os.path.dirname(here)
    try:
        disk, device = os.statvfs(here), os.stat(here).st_dev
        while here != (above := os.path.dirname(here)) and os.stat(above).st_dev == device:
            here = above
    except OSError:
        return None
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    text = f"{_size(free)} of {_size(size)} are free at {here}"
    if disk.f_files and not disk.f_favail:
        text += ", and no more files fit (no inodes are free)"
    return device, text


def _size(size: int) -> str:
    """To be read by people: three figures at most."""
    for unit, bytes in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= bytes:
            return f"{size / bytes:.3g} {unit}"
    return format_size(size)
