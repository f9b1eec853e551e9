"""Small disks of their own for tests: mounted, filled to the last byte, made read-only, taken away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Disk:
    """A file system of 20 MB at a folder."""

    folder: Path

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes free, in whole blocks."""
        found = os.statvfs(self.folder)
        free = found.f_bavail * found.f_frsize
        with (self.folder / "filling").open("ab") as file:
            file.write(b"x" * max(0, free - leave))

    def empty(self) -> None:
        (self.folder / "filling").unlink()

    def make_read_only(self) -> None:
        """As a disk with errors becomes. By a mount over it: its own can't while a library keeps a file open there."""
        for options in (["--bind", str(self.folder)], ["-o", "remount,bind,ro"]):
            subprocess.run(["mount", *options, str(self.folder)], check=True)

    def make_writable(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def move(self, to: Path) -> None:
        """Mount it elsewhere: what is open on it stays open, and its folder is the one below."""
        to.mkdir(exist_ok=True)
        subprocess.run(["mount", "--move", str(self.folder), str(to)], check=True)


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """A new disk; the test is skipped where nobody may mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"needs to mount a small disk: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
