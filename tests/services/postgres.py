"""A real Postgres of our own, where its programs are on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.processes import free_port

PLACES = ("usr/lib/postgresql/*/bin/pg_ctl", "opt/homebrew/opt/postgresql*/bin/pg_ctl")


def programs() -> Path | None:
    """The folder of pg_ctl and initdb, or None if Postgres is not installed."""
    found = [str(path) for pattern in PLACES for path in sorted(Path("/").glob(pattern), reverse=True)]
    program = next(iter(found), None) or shutil.which("pg_ctl")
    return None if program is None else Path(program).parent


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a database that lives as long as this."""
    bin = programs()
    assert bin is not None
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="headwater-postgres-") as folder:
        if user is not None:
            shutil.chown(folder, user)

        def run(program: str, *arguments: str) -> None:
            command = [str(bin / program), "-D", f"{folder}/data", *arguments]
            subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL, timeout=60)

        port = free_port()
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run("initdb", "-U", "headwater", "--auth=trust", "--no-sync")
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"postgresql://headwater:hidden@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
