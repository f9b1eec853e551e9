"""Histories by a sequence that is no time: every state, in every format, also of tables of an earlier release."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.tables.apply.shape import Shape
from tests.scale import in_formats
from tests.support import Answer, headwater

pytestmark = pytest.mark.usefixtures("spark")

KEYS, STATES, STEPS = 13, 717, 3
AT = "2026-03-01T00:00:00Z"
TABLES: dict[str, Any] = {
    "states": {
        "from": "topic('log')",
        "apply": {"keys": ["id"], "sequence_by": "version", "history": "all", "delete_when": "gone"},
    },
    "asked": {
        "sql": "SELECT q.n, s.v, s.seq_from FROM stream(topic('questions')) q "
        "LEFT JOIN table('states') FOR SYSTEM_TIME AS OF q.at s ON s.id = q.n"
    },
}
VIEWS = {"counted": {"sql": "SELECT id, count(*) AS n, sum(v) AS total FROM table('states') GROUP BY id"}}


class Lab:
    """A lake of a log of states, some of which go, and of questions about them."""

    def __init__(
        self, root: Path, format: str, seed: int, log: str = "id bigint, version bigint, v bigint, gone boolean"
    ) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.versions = dict.fromkeys(range(KEYS), 0)
        self.states: list[dict[str, Any]] = []
        sources = {"log": log, "questions": "n bigint, at timestamp"}
        project = {
            "name": "histories",
            "format": format,
            "sources": {n: {"type": "files", "path": f"./{n}", "schema": ddl} for n, ddl in sources.items()},
            "topics": {n: {"from": n, "format": "delta"} for n in sources},
            "tables": TABLES,
            "views": VIEWS,
        }
        (root / "headwater.yml").write_text(yaml.safe_dump(project))
        for name in sources:
            (root / name).mkdir()

    def land(self, name: str, rows: list[dict[str, Any]]) -> None:
        number = len(list((self.root / name).iterdir()))
        (self.root / name / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def changes(self, count: int) -> None:
        """So many states of keys at random, in any order; a few of them are deletes."""
        more = []
        for _ in range(count):
            key = self.random.randrange(KEYS)
            self.versions[key] += 1
            v = self.random.randrange(100)
            more.append({"id": key, "version": self.versions[key], "v": v, "gone": self.random.randrange(9) == 0})
        self.states += more
        self.random.shuffle(more)
        self.land("log", more)

    def call(self, *words: str) -> Answer:
        return headwater(*words, "--project", self.root)

    def run(self) -> None:
        ran = self.call("run", "--once", "--json")
        assert ran.code == 0, ran.out + ran.err

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found = self.call("query", sql, "--json")
        assert found.code == 0, found.err
        return sorted((tuple(row.values()) for row in found.json), key=repr)

    def expected(self) -> list[tuple[Any, ...]]:
        """Key, value, the sequence, the next one, and whether it is current."""
        found = []
        for state in self.states:
            following = [
                s["version"] for s in self.states if s["id"] == state["id"] and s["version"] > state["version"]
            ]
            if not state["gone"]:
                end = min(following, default=None)
                found.append((state["id"], state["v"], state["version"], end, end is None))
        return sorted(found, key=repr)

    def check(self) -> None:
        assert self.rows("SELECT id, v, seq_from, seq_to, is_current FROM table('states')") == self.expected()
        times = self.rows("SELECT id, seq_from, valid_from, valid_to FROM table('states') WHERE valid_from IS NULL")
        assert times == []
        backwards = (
            "SELECT id FROM table('states') WHERE valid_to < valid_from OR (valid_to IS NULL) <> (seq_to IS NULL)"
        )
        assert self.rows(backwards) == []
        assert self.call("mv", "verify", "counted").code == 0
        by_key: dict[int, list[int]] = {}
        for key, v, *_ in self.expected():
            by_key.setdefault(key, []).append(v)
        assert self.rows("SELECT id, n, total FROM mv('counted')") == sorted(
            ((key, len(vs), sum(vs)) for key, vs in by_key.items()), key=repr
        )

    def last(self, key: int) -> tuple[int, int | None, int | None]:
        """What a question about a key is answered with at its last moment, where all states have one."""
        newest = max((s for s in self.states if s["id"] == key), key=lambda s: int(s["version"]))
        return (key, None, None) if newest["gone"] else (key, newest["v"], newest["version"])


@pytest.mark.parametrize("format", in_formats("delta", "iceberg", full=["hudi", "paimon"]))
def test_every_state_is_kept_and_a_temporal_join_picks_the_last(tmp_path: Path, format: str, seed: int) -> None:
    lab = Lab(tmp_path, format, seed)
    lab.changes(STATES - 100)
    lab.run()
    lab.check()
    lab.land("questions", [{"n": key, "at": "2100-01-01T00:00:00Z"} for key in range(KEYS)])
    lab.changes(100)
    lab.run()
    lab.check()
    assert len(lab.states) == STATES
    assert lab.rows("SELECT n, v, seq_from FROM table('asked')") == sorted(map(lab.last, range(KEYS)), key=repr)


@pytest.mark.parametrize("format", in_formats("delta", full=["hudi", "iceberg", "paimon"]))
def test_a_history_that_an_earlier_release_made(
    tmp_path: Path, format: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the states that it hid with the next run, though nothing has come, and what reads it gets them too."""
    lab = Lab(tmp_path, format, seed)
    (tmp_path / "headwater.yml").write_text((tmp_path / "headwater.yml").read_text().replace(", s.seq_from", ""))
    with monkeypatch.context() as earlier:
        earlier.setattr(Shape, "sequenced", property(lambda self: False))
        lab.changes(60)
        lab.land("questions", [{"n": key, "at": "2100-01-01T00:00:00Z"} for key in range(KEYS)])
        lab.run()
    hidden = lab.rows("SELECT id, v FROM table('states')")
    assert len(hidden) < len(lab.expected()), "as an earlier release shows it"
    version = lab.call("table", "history", "states", "--json").json[0]["version"]
    lab.run()
    lab.check()
    assert lab.rows(f"SELECT id, v FROM table('states') VERSION AS OF {version}") == hidden
    steps = [one["step"] for one in lab.call("table", "history", "states", "--json").json if one["flow"]]
    lab.run()
    assert [one["step"] for one in lab.call("table", "history", "states", "--json").json if one["flow"]] == steps
    lab.changes(20)
    lab.run()
    lab.check()
    assert lab.rows("SELECT n, v FROM table('asked')") == sorted((lab.last(key)[:2] for key in range(KEYS)), key=repr)


def test_states_of_one_moment_are_in_order_and_the_join_as_of_it_finds_the_last(tmp_path: Path, seed: int) -> None:
    log = "id bigint, version bigint, v bigint, gone boolean, event_timestamp timestamp"
    lab = Lab(tmp_path, "delta", seed, log)
    rows = [
        {"id": 1, "version": n, "v": n, "gone": False, "event_timestamp": AT if n < 4 else "2026-03-02T00:00:00Z"}
        for n in (3, 1, 2, 4)
    ]
    lab.land("log", rows[:2])
    lab.land(
        "questions",
        [{"n": 1, "at": AT}, {"n": 1, "at": "2026-03-01T12:00:00Z"}, {"n": 1, "at": "2026-02-01T00:00:00Z"}],
    )
    lab.run()
    lab.land("log", rows[2:])
    lab.run()
    day = ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"]
    assert lab.rows("SELECT v, valid_from, valid_to, seq_from, seq_to, is_current FROM table('states')") == [
        (1, day[0], day[0], 1, 2, False),
        (2, day[0], day[0], 2, 3, False),
        (3, day[0], day[1], 3, 4, False),
        (4, day[1], None, 4, None, True),
    ]
    assert lab.rows("SELECT n, v, seq_from FROM table('asked')") == [(1, 3, 3), (1, 3, 3), (1, None, None)]
    described = lab.call("table", "describe", "states", "--json").json
    names = ["valid_from", "valid_to", "is_current", "seq_from", "seq_to"]
    assert [c["name"] for c in described["columns"] if c["name"] in names] == names
