"""The version of a lake's layout: written down, and heeded by a Headwater that does not know it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Code
from headwater.core.state import LAKE_FORMAT
from tests.recovery.lab import Moving

pytestmark = pytest.mark.usefixtures("spark")

COMMANDS = (
    ("run", "--once", "--json"),
    ("query", "SELECT count(*) FROM topic('orders')", "--engine", "duckdb"),
    ("flow", "reset", "topics.orders", "--yes"),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Moving:
    made = Moving.make(tmp_path_factory.mktemp("format") / "project", "delta")
    made.land("a.json", [("1", "x", 1)])
    made.run()
    return made


def test_a_lake_and_its_state_carry_the_version(project: Moving) -> None:
    assert marker(project)["format"] == LAKE_FORMAT
    assert state(project) == str(LAKE_FORMAT)


def test_a_lake_without_one_is_taken_along(project: Moving) -> None:
    was = marker(project)
    put(project, {name: value for name, value in was.items() if name != "format"})
    with closing(sqlite3.connect(project.root / ".headwater" / "state.db")) as database, database:
        database.execute("ALTER TABLE lake DROP COLUMN format")
    assert project.count() == 1, "it is read"
    assert "format" not in marker(project), "and by that not written to"
    project.land("b.json", [("2", "y", 2)])
    assert project.run()[0]["topics.orders"] == (1, 1)
    assert marker(project) == was and state(project) == str(LAKE_FORMAT)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("where", ["lake", "state", "copy"])
def test_a_newer_lake_is_refused_and_left_as_it_is(
    where: str, command: tuple[str, ...], project: Moving, tmp_path: Path
) -> None:
    newer = Moving(tmp_path / "newer")
    shutil.copytree(project.root, newer.root)
    if where != "copy":  # else it is seen for the first time, while the original is still there
        assert newer.count() > 0
    if where == "state":
        with closing(sqlite3.connect(newer.root / ".headwater" / "state.db")) as database, database:
            database.execute("UPDATE lake SET format = ?", [str(LAKE_FORMAT + 1)])
    else:
        put(newer, {**marker(newer), "format": LAKE_FORMAT + 1, "new": "of a later release"})
    before = files(newer.root)
    refused = newer.do(*command)
    assert refused.code == 1
    told = refused.out + refused.err
    assert str(Code.LAKE_TOO_NEW) in told or "has format 2, and this Headwater knows formats up to 1" in told, told
    assert "lake.json" in told and "update Headwater" in told, told
    assert files(newer.root) == before


def marker(project: Moving) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.root / "lake" / "_headwater" / "lake.json").read_text())
    return found


def put(project: Moving, told: dict[str, Any]) -> None:
    (project.root / "lake" / "_headwater" / "lake.json").write_text(json.dumps(told))


def state(project: Moving) -> str:
    with closing(sqlite3.connect(project.root / ".headwater" / "state.db")) as database:
        return str(database.execute("SELECT format FROM lake").fetchone()[0])


def files(root: Path) -> dict[Path, bytes]:
    """What of the lake and its state counts: no logs, no locks."""
    found = [root / ".headwater" / "state.db", *(path for path in (root / "lake").rglob("*") if path.is_file())]
    return {path: path.read_bytes() for path in found}
