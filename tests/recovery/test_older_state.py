"""A state that is of another time than its lake is noticed, and rebuilt from the lake."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.formats.registry import FORMATS
from tests.recovery.lab import Moving
from tests.recovery.test_places import FIRST, NOTHING_NEW, ROWS

pytestmark = pytest.mark.usefixtures("spark")

STALE = "was rebuilt from it: "


def older_state(project: Moving) -> Path:
    """A copy of the state as it is now, to be put back later."""
    kept = project.root / "older"
    shutil.copytree(project.root / ".headwater", kept, ignore=shutil.ignore_patterns("*.sock", "logs"))
    return kept


def put_back(project: Moving, kept: Path) -> None:
    shutil.rmtree(project.root / ".headwater")
    shutil.copytree(kept, project.root / ".headwater")


@pytest.mark.parametrize(
    "format", [pytest.param(f, marks=[] if f == "iceberg" else pytest.mark.full) for f in FORMATS.names()]
)
def test_a_state_from_before_relations_were_made_knows_them(format: str, tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", format)
    project.land("a.json", ROWS)
    project.run("topics.orders")
    kept = older_state(project)
    project.land("b.json", [("3", "y", 3)])
    project.run()
    means = "SELECT kind, avg(amount) AS mean FROM topic('orders') GROUP BY kind"
    made = ["--format", "delta"] if format == "parquet" else []
    assert project.do("mv", "create", "means", means, "--json", *made).code == 0
    rows = project.kinds()
    put_back(project, kept)
    first = project.do("query", "SELECT * FROM mv('kinds') ORDER BY kind", "--output", "json")
    assert first.code == 0, first.err
    assert [tuple(row.values()) for row in first.json] == rows
    assert f"{STALE}views.kinds, views.means" in first.err
    assert project.do("query", "SELECT 1", "--output", "json").err == "", "it is said once"
    assert project.count() == 3
    assert list(project.query("SELECT * FROM mv('means')")[0]) == ["kind", "mean"], "hidden columns stay hidden"
    assert project.do("plan", "--json").json == []
    assert project.run() == ({**NOTHING_NEW, "views.means": (0, 0)}, "")
    project.land("c.json", [("4", "z", 7)])
    assert project.run()[0]["topics.orders"] == (1, 1)
    assert project.count() == 4
    for view in ("kinds", "means"):
        assert project.do("mv", "verify", view).code == 0


def test_what_was_dropped_since_does_not_come_back(tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", "delta")
    project.land("a.json", ROWS)
    project.run()
    assert project.do("mv", "create", "means", "SELECT avg(amount) AS mean FROM topic('orders')", "--json").code == 0
    kept = older_state(project)
    assert project.do("mv", "drop", "means", "--yes").code == 0
    put_back(project, kept)
    answer = project.do("mv", "list", "--json")
    assert [one["name"] for one in answer.json] == ["kinds"]
    assert f"{STALE}views.means" in answer.err


def test_a_catalog_that_lacks_commits_gets_them(tmp_path: Path) -> None:
    """Nothing was made or dropped since, so that the state itself is as it was: only Iceberg's catalog is older."""
    project = Moving.make(tmp_path / "project", "iceberg")
    project.land("a.json", ROWS)
    project.run()
    kept = older_state(project)
    project.land("b.json", [("3", "y", 3)])
    project.run()
    put_back(project, kept)
    found = project.do("query", "SELECT count(*) AS n FROM topic('orders')", "--output", "json")
    assert found.json == [{"n": 3}], found.err
    assert "the embedded catalog was older than the lake" in found.err
    assert "lake.topics.orders" in found.err and "lake.views.kinds" in found.err
    assert project.run() == (NOTHING_NEW, "")
    assert project.kinds() == [FIRST[0], ("y", 2, 5)]
    assert project.do("mv", "verify", "kinds").code == 0


def test_a_newer_state_than_the_lake_follows_the_lake(tmp_path: Path) -> None:
    """The lake was put back from a copy, and the state was not."""
    project = Moving.make(tmp_path / "project", "delta")
    project.land("a.json", ROWS)
    project.run("topics.orders")
    shutil.copytree(project.root / "lake", project.root / "earlier")
    project.run()
    shutil.rmtree(project.root / "lake")
    (project.root / "earlier").rename(project.root / "lake")
    answer = project.do("plan", "--json")
    assert [one["relation"] for one in answer.json] == ["views.kinds"]
    assert f"{STALE}views.kinds" in answer.err
    project.run()
    assert project.kinds() == FIRST


def test_a_state_of_the_same_time_is_trusted_in_silence(tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", "iceberg")
    project.land("a.json", ROWS)
    project.run()
    kept = older_state(project)
    put_back(project, kept)
    (project.root / "lake" / "_headwater" / "relations.json").write_text('{"revision": "x"}', encoding="utf-8")
    for _ in range(2):
        answer = project.do("query", "SELECT count(*) AS n FROM topic('orders')", "--output", "json")
        assert answer.json == [{"n": 2}] and answer.err == ""
