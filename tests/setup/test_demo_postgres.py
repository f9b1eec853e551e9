"""The demo's own Postgres starts wherever the wheel and the folder of temporary files lie."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.shop import database

WORKS = """
import sys
sys.path.insert(0, sys.argv[1])
import psycopg
from headwater.cli.shop.database import PostgresServer, data_folder, programs
assert str(programs()).startswith(sys.argv[1]), programs()
with data_folder() as folder:
    server = PostgresServer(folder)
    with psycopg.connect(server.dsn) as connection:
        print(connection.execute("SELECT 40 + 2").fetchone()[0])
    server.stop("immediate")
"""
"""Starts a server from the wheel below a folder, and asks it."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files in a folder that its owner alone can enter, with a blank in its name."""
    found = importlib.util.find_spec(database.WHEEL)
    assert found is not None and found.submodule_search_locations
    package = Path(found.submodule_search_locations[0])
    closed = tmp_path_factory.mktemp("closed") / "site packages"
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, closed / folder.name, symlinks=True)
    for path in (closed, *closed.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)  # as a umask of 077 leaves them
    return closed


@pytest.mark.parametrize("home", ["closed", "unset"])
def test_postgres_starts_from_a_closed_folder(wheel: Path, tmp_path: Path, home: str) -> None:
    temporary = tmp_path / "closed too"
    temporary.mkdir(mode=0o700)
    environment = {**os.environ, "TMPDIR": str(temporary), "HOME": str(temporary)}
    if home == "unset":
        del environment["HOME"]
    asked = subprocess.run(
        [sys.executable, "-c", WORKS, str(wheel)],
        env=environment, cwd=temporary, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.strip() == "42"
    assert not list(temporary.iterdir())
