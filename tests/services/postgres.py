"""A real Postgres of a test's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from headwater.cli.shop import database
from headwater.cli.shop.database import LOGICAL, data_folder, free_port


class Server(database.PostgresServer):
    """One server: `dsn` is its first database; `database()` makes another, for a test of its own."""

    def database(self) -> str:
        """The address of a new and empty database."""
        name = f"db_{uuid4().hex[:12]}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.address(name)

    def ask_to_stop(self) -> None:
        """As soon as all have left; nobody new is let in."""
        self._run("pg_ctl", "-W", "-m", "smart", "stop")

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


class Standby(Server):
    """A server that follows another, and may take over from it, at the other's address."""

    def __init__(self, folder: Path, primary: Server, *, has_slots: bool = True) -> None:
        """`has_slots`: it takes over the slots for changes, too; before Postgres 17 there is no such setting."""
        self.folder, self.port = folder, free_port()
        self._user, self._bin = primary._user, primary._bin
        self._settings = {**primary._settings, "hot_standby_feedback": "on"}
        if has_slots:
            self._settings["sync_replication_slots"] = "on"
        if self._user is not None:
            shutil.chown(folder, self._user)
        source = f"host=127.0.0.1 port={primary.port} user=headwater dbname=postgres"
        self._run("pg_basebackup", "-d", source, "-R", "-c", "fast", "-C", "-S", folder.name, "--no-sync")
        self.start()

    def start_at(self, primary: Server) -> None:
        """Where the other one was, which is gone; it does not take over by that."""
        self.port = primary.port
        self.start()

    def promote(self) -> None:
        self._run("pg_ctl", "-w", "promote")


@contextmanager
def server(settings: Mapping[str, str] = LOGICAL) -> Iterator[Server]:
    """A server that lives as long as this."""
    with data_folder() as folder:
        started = Server(folder, settings)
        try:
            yield started
        finally:
            started.stop("immediate")


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a database that lives as long as this."""
    with server() as started:
        yield started.dsn
