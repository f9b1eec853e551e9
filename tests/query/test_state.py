"""Which relations a lake has, read from SQLite at once: what others write is seen, and an older database is read."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

from headwater.core.model import Kind
from headwater.core.state import RelationRecord, State

OLDER = (
    "CREATE TABLE relations (kind VARCHAR, name VARCHAR, format VARCHAR, path VARCHAR, catalog_table VARCHAR, "
    "hidden VARCHAR, origin VARCHAR, definition VARCHAR, created_at VARCHAR, PRIMARY KEY (kind, name))"
)
ROW = "INSERT INTO relations VALUES ('topic', 'x', 'delta', '/p', NULL, '[]', 'project', 'd', '2026-01-01T00:00:00')"


def names(state: State, kind: Kind | None = None) -> list[str]:
    return [record.name for record in state.relations(kind)]


def test_what_another_has_written_is_seen(tmp_path: Path) -> None:
    ours, theirs = State.next_to(tmp_path), State.next_to(tmp_path)
    assert names(ours) == []
    for name in ("b", "a"):
        theirs.put(RelationRecord(Kind.TOPIC, name, "delta", path="/x"))
    assert names(ours) == ["a", "b"]
    theirs.remove(Kind.TOPIC, "b")
    assert (names(ours, Kind.TOPIC), names(ours, Kind.VIEW), ours.relation(Kind.TOPIC, "b")) == (["a"], [], None)
    ours.close()
    assert names(ours) == ["a"]
    theirs.close()


def test_a_database_of_an_earlier_release(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as made:
        made.execute(OLDER)
        made.execute(ROW)
    state = State.next_to(tmp_path)
    for _ in range(2):
        (record,) = state.relations()
        assert (record.name, record.shown, record.made_from) == ("x", None, None)
    state.close()


def test_reading_needs_no_sqlalchemy(tmp_path: Path) -> None:
    state = State.next_to(tmp_path)
    state.put(RelationRecord(Kind.TOPIC, "a", "delta", path="/x"))
    program = (
        "import sys, pathlib\nfrom headwater.core.state import State\n"
        f"assert [r.name for r in State.next_to(pathlib.Path({str(tmp_path)!r})).relations()] == ['a']\n"
        "assert 'sqlalchemy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    state.close()
