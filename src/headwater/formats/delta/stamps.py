"""Commits of a Delta table on a local disk, by a look at their files: whether one is still the one that was seen."""

from __future__ import annotations

import os

from headwater.core.model import Version

Stamp = tuple[int, int]


def stamp(path: str, version: Version) -> Stamp | None:
    """What tells a commit from one of the same number in a table that was rebuilt; None: there is none here."""
    try:
        found = os.stat(_file(path, version))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def text(path: str, version: Version) -> str | None:
    """What a commit says; None: there is none here."""
    try:
        with open(_file(path, version), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def _file(path: str, version: Version) -> str:
    return f"{path.removeprefix('file://')}/_delta_log/{version:020d}.json"
