"""Files and folders that are their owner's alone, such as all of `.headwater`."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077
"""What a group and everybody else may do."""


def make_private(folder: Path) -> None:
    """Make a folder for its owner alone; what is in it is tightened. Raises OSError if it can't be made.

    Called by whoever is about to write into it. Links are not followed: what they lead to is somebody else's.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.is_symlink():
        return
    _tighten(folder)
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            _tighten(Path(path, name))


def create_private(file: Path) -> None:
    """Have a file there before somebody writes it who would let others read it. One that is there stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _tighten(path: Path) -> None:
    with suppress(OSError):  # gone meanwhile, or another user's: the folder above keeps others out
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & _OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
