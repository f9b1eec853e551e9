"""A real Postgres of a test's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from headwater.cli.shop import database
from headwater.cli.shop.database import LOGICAL


class Server(database.Server):
    """One server: `dsn` is its first database; `database()` makes another, for a test of its own."""

    def database(self) -> str:
        """The address of a new and empty database."""
        name = f"db_{uuid4().hex[:12]}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.address(name)

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


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
