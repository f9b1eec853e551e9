"""Whether a commit of a Delta table on a local disk is still the one that was seen, by a look at its file."""

from __future__ import annotations

import os

from headwater.model import Version

Stamp = tuple[int, int]


def stamp(path: str, version: Version) -> Stamp | None:
    """What tells a commit from one of the same number in a table that was made anew; None: there is none here."""
    try:
        found = os.stat(f"{path.removeprefix('file://')}/_delta_log/{version:020d}.json")
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
