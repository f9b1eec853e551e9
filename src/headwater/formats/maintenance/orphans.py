"""Files that nothing names: found by a listing against everything that names files, and deleted.

A file is deleted only on proof. So what names files has to be read whole, and every live file has to be met again in
the listing under the name that it has there: where the two write paths differently, all files would look like orphans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from headwater.core.errors import Code, HeadwaterError, IntegrityError, UsageError
from headwater.core.model import DataFile, Expiry, Version
from headwater.core.storage import FileEntry, Files
from headwater.formats.base import Address

INTEROP = "_delta_log/"
"""Where a table of another format says that it is made of the same files; Delta's own tables keep their log there."""
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:/+", re.IGNORECASE)


def find(
    address: Address,
    files: Files,
    named: Collection[str],
    live: Iterable[str],
    older_than: datetime,
    is_theirs: Callable[[FileEntry], bool],
) -> list[DataFile]:
    """The listed files that are not named; `is_theirs` tells which of the files there may be one at all.

    Names are paths from the table's folder on.
    """
    listed = {entry.path: entry for entry in files.list(recursive=True) if not entry.is_folder}
    lost = sorted(path for path in live if path not in listed)
    if lost:
        raise unreadable(address, f"the live file {lost[0]} is not found in its folder")
    return [
        DataFile(files.join(path), entry.bytes, committed_at=entry.modified)
        for path, entry in listed.items()
        if path not in named
        and not path.startswith(INTEROP)
        and entry.modified < older_than
        and not _is_checksum(entry.name)
        and is_theirs(entry)
    ]


def remove(files: Files, paths: Iterable[str]) -> int:
    """Delete files of a table; returns how many there were."""
    chosen = list(paths)
    outside = [path for path in chosen if inside(files, path) is None]
    if outside:
        raise UsageError(Code.USAGE, f"{outside[0]} does not lie in {files.root}")
    found = [path for path in chosen if files.exists(path)]
    for path in found:
        _delete(files, path)
    return len(found)


def expired(files: Files, versions: Iterable[Version], paths: Iterable[str], *, dry_run: bool) -> Expiry:
    """Delete what only forgotten versions needed, unless only asked, and say how much it is."""
    entries = [entry for path in sorted(set(paths)) if (entry := files.entry(path)) is not None]
    if not dry_run:
        for entry in entries:
            _delete(files, entry.path)
    return Expiry(tuple(versions), len(entries), sum(entry.bytes for entry in entries))


def _delete(files: Files, path: str) -> None:
    """Delete a file with the checksum that Hadoop has put next to it on a local disk."""
    files.delete(path)
    if files.is_local:
        folder, _, name = path.rpartition("/")
        files.delete(f"{folder}/.{name}.crc" if folder else f".{name}.crc")


def _is_checksum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


def inside(files: Files, path: str) -> str | None:
    """A file's path from the table's folder on; None where it lies elsewhere."""
    root = _bare(files.inside())
    whole = _bare(path)
    return whole.removeprefix(f"{root}/") if whole.startswith(f"{root}/") else None


def _bare(path: str) -> str:
    """A path without what different writers put in front of it."""
    return _SCHEME.sub("/", path).replace("//", "/").strip("/")


@contextmanager
def reading_references(address: Address) -> Iterator[None]:
    """Whatever fails while it is read what names files ends the clean-up."""
    try:
        yield
    except HeadwaterError as error:
        if error.code is Code.REFERENCE_UNREADABLE:
            raise
        raise unreadable(address, error.problem.message) from error
    except Exception as error:
        raise unreadable(address, str(error).split("\n")[0]) from error


def unreadable(address: Address, why: str) -> IntegrityError:
    return IntegrityError(
        Code.REFERENCE_UNREADABLE,
        f"{address}: what its files are needed for can't be read whole, so none is deleted: {why}",
    )
