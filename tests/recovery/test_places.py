"""Where a lake may lie, what of it may be moved or copied, and who may write to it then."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError
from headwater.core.state import LeaseRecord, State
from headwater.runner.holders import Holder
from tests.hints.followed import follows
from tests.recovery.lab import Moving
from tests.services.postgres import postgres

pytestmark = pytest.mark.usefixtures("spark")

ROWS = [("1", "x", 1), ("2", "y", 2)]
FIRST = [("x", 1, 1), ("y", 1, 2)]
NOTHING_NEW = {"topics.orders": (0, 0), "views.kinds": (0, 0)}


def once(root: Path, format: str = "delta", **more: str) -> Moving:
    """A project after one run."""
    project = Moving.make(root, format, **more)
    project.land("a.json", ROWS)
    project.run()
    return project


def identity(project: Moving, lake: str = "lake") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.root / lake / "_headwater" / "lake.json").read_text())
    return found


def test_only_the_warehouse_is_moved_and_the_project_says_where(tmp_path: Path) -> None:
    project = once(tmp_path / "project", "iceberg", warehouse=str(tmp_path / "far" / "lake"))
    (tmp_path / "far" / "lake").rename(tmp_path / "other lake")
    text = (project.root / "headwater.yml").read_text()
    there = str(tmp_path / "other lake")
    (project.root / "headwater.yml").write_text(text.replace(str(tmp_path / "far" / "lake"), there))
    ran, said = project.run()
    assert ran == NOTHING_NEW
    assert f"{there} was moved from {tmp_path / 'far' / 'lake'}" in said
    project.land("b.json", [("3", "y", 3)])
    assert project.run()[0]["topics.orders"] == (1, 1)
    assert project.kinds() == [FIRST[0], ("y", 2, 5)]


def test_a_project_is_moved_and_its_warehouse_stays(tmp_path: Path) -> None:
    project = once(tmp_path / "project", "iceberg", warehouse=str(tmp_path / "lake"), on_change="fail")
    moved = Moving(tmp_path / "renamed")
    shutil.copytree(project.root, moved.root, copy_function=shutil.copy)  # over a border of file systems, say
    shutil.rmtree(project.root)
    assert moved.kinds() == FIRST
    assert moved.run() == (NOTHING_NEW, "")


@follows("copy the lake too and name the copy as `warehouse`, or let both share a `state` in a database")
def test_a_copied_project_does_not_write_to_the_lake_of_the_original(tmp_path: Path) -> None:
    project = once(tmp_path / "project", warehouse=str(tmp_path / "lake"))
    copy = Moving(tmp_path / "copy")
    shutil.copytree(project.root, copy.root)
    copy.land("b.json", [("3", "y", 3)])
    assert copy.kinds() == FIRST, "it may read"
    refused = copy.do("run", "--once", "--json")
    assert refused.code == 1 and "LAKE_COPIED" in refused.out + refused.err
    assert str(project.root) in refused.out + refused.err
    assert project.run() == (NOTHING_NEW, "")
    second = Moving(tmp_path / "second")
    shutil.copytree(copy.root, second.root)
    shutil.copytree(tmp_path / "lake", tmp_path / "copied")
    text = (second.root / "headwater.yml").read_text()
    (second.root / "headwater.yml").write_text(text.replace(str(tmp_path / "lake"), str(tmp_path / "copied")))
    assert second.run()[0]["topics.orders"] == (1, 1)
    assert project.run() == (NOTHING_NEW, "")
    shutil.rmtree(project.root)
    assert copy.run()[0]["topics.orders"] == (1, 1), "the original is gone: this is the project now"


@follows("give the copy's project a `state` of its own")
def test_a_copied_lake_with_a_shared_state_is_refused_until_it_has_its_own(tmp_path: Path) -> None:
    """The original's rows, leases and tables are in that state: the copy neither reads nor changes them."""
    with postgres() as address:
        project = once(tmp_path / "project", more=f"state: {address}")
        copy = Moving(tmp_path / "copy")
        shutil.copytree(project.root, copy.root)
        copy.land("b.json", [("3", "y", 3)])
        refused = copy.do("run", "--once", "--json")
        assert refused.code == 1 and "LAKE_COPIED" in refused.out + refused.err
        assert project.run() == (NOTHING_NEW, "") and project.kinds() == FIRST
        text = (copy.root / "headwater.yml").read_text()
        (copy.root / "headwater.yml").write_text(text.replace(address, "sqlite"))
        assert copy.run()[0]["topics.orders"] == (1, 1)
        assert copy.kinds() == [FIRST[0], ("y", 2, 5)] and project.kinds() == FIRST


def test_a_lake_whose_old_place_can_not_be_read_is_a_copy(tmp_path: Path) -> None:
    """It was taken to be moved: it kept the id, and went on with what the original alone may use."""
    project = once(tmp_path / "project")
    copy = Moving(tmp_path / "copy")
    shutil.copytree(project.root, copy.root)
    file = project.root / "lake" / "_headwater" / "lake.json"
    file.rename(tmp_path / "away")
    file.symlink_to(file)  # as good as a folder of another user, also where tests may read everything
    assert copy.kinds() == FIRST
    file.unlink()
    (tmp_path / "away").rename(file)
    assert identity(project)["id"] == identity(copy)["copied_from"] != identity(copy)["id"]


def test_links_lead_to_the_same_lake(tmp_path: Path) -> None:
    project = once(tmp_path / "project", "iceberg")
    (tmp_path / "link").symlink_to(project.root)
    linked = Moving(tmp_path / "link")
    assert linked.run() == (NOTHING_NEW, "")
    (project.root / "lake").rename(tmp_path / "disk")
    (project.root / "lake").symlink_to(tmp_path / "disk")
    ran, said = linked.run()
    assert ran == NOTHING_NEW
    assert f"{tmp_path / 'disk'} was moved from" in said
    assert project.kinds() == FIRST


def test_only_the_warehouse_is_copied_for_another_target(tmp_path: Path) -> None:
    project = once(tmp_path / "project", "iceberg")
    shutil.copytree(project.root / "lake", project.root / "second")
    with (project.root / "headwater.yml").open("a") as file:
        file.write("targets: {second: {warehouse: ./second}, empty: {warehouse: ./empty}}\n")
    project.land("b.json", [("3", "y", 3)])
    ran, said = project.run("--target", "second")
    assert ran["topics.orders"] == (1, 1) and "is a copy of" in said
    assert identity(project)["id"] == identity(project, "second")["copied_from"] != identity(project, "second")["id"]
    assert project.kinds("--target", "second") == [FIRST[0], ("y", 2, 5)]
    assert project.kinds() == FIRST, "back in the first one, which has its own state again"
    ran, said = project.run("--target", "empty")
    assert ran["topics.orders"] == (1, 3), "an empty lake reads everything, and takes nothing for its own"
    assert project.run()[0]["topics.orders"] == (1, 1)
    assert sorted(path.name for path in (project.root / "empty" / "topics").iterdir()) == ["orders"]


@follows("stop that runner before you go to another lake")
def test_a_lake_that_a_runner_keeps_is_not_left_for_another(tmp_path: Path) -> None:
    project = once(tmp_path / "project")
    with (project.root / "headwater.yml").open("a") as file:
        file.write("targets: {other: {warehouse: ./other}}\n")
    with closing(State.next_to(project.root / ".headwater")) as state:
        now = state.now()
        assert state.take_lease(LeaseRecord("topics.orders", "t", Holder.here().record(), now, now + 600), None)
        refused = project.do("run", "--once", "--target", "other")
        assert refused.code == 2 and "FLOW_HELD" in refused.err
        state.drop_lease("topics.orders", "t")
    assert project.run("--target", "other")[0]["topics.orders"] == (1, 2)


@follows("delete it; it will be created again", "delete it, and run the project once: it is written again")
def test_what_the_lake_says_of_itself_can_be_lost(tmp_path: Path) -> None:
    project = once(tmp_path / "project")
    notes = project.root / "lake" / "_headwater"
    for file in (notes / "lake.json", notes / "relations" / "topics.orders.json"):
        whole = file.read_text()
        file.write_text(whole[:20])
        shutil.rmtree(project.root / ".headwater")
        refused = project.do("query", "SELECT * FROM mv('kinds')")
        assert refused.code == 1 and "LEDGER_CORRUPT" in refused.err and file.name in refused.err
        file.unlink()
        assert project.do("run", "--once").code == 0
        assert project.kinds() == FIRST and set(json.loads(file.read_text())) == set(json.loads(whole))


@follows("mount its disk, or put the lake back; to begin an empty one there, {}")
def test_a_warehouse_that_is_not_mounted_is_not_begun_anew(tmp_path: Path) -> None:
    project = once(tmp_path / "project")
    project.land("b.json", [("3", "y", 3)])
    lake, disk = project.root / "lake", tmp_path / "disk"
    lake.rename(disk)
    for there in (True, False):
        if there:
            lake.mkdir()
        for words in ("run", "run --once", "plan", "flow rebuild orders --yes", "topic history orders"):
            refused = project.do(*words.split())
            assert refused.code == 1 and f"the lake {lake} is gone" in refused.err, (words, refused)
            assert "mount its disk" in refused.err and "STORAGE_FAILED" in refused.err
        for engine in ("duckdb", "spark"):
            refused = project.do("query", "SELECT * FROM mv('kinds')", "--engine", engine)
            assert refused.code == 1 and f"the lake {lake} is gone" in refused.err
        for words in ("status", "flow list", "flow pause orders", "flow resume orders", "check"):
            assert project.do(*words.split()).code == 0, words
        if there:
            assert list(lake.iterdir()) == []
            lake.rmdir()
        assert not lake.exists()
    disk.rename(lake)
    assert project.kinds() == FIRST
    assert project.run()[0]["topics.orders"] == (1, 1)
    lake.rename(disk)
    shutil.rmtree(project.root / ".headwater")
    assert project.run()[0]["topics.orders"] == (1, 3), "as the message says: an empty lake is begun there"


@pytest.mark.parametrize("copied", [False, True], ids=["moved", "copied"])
def test_a_lake_of_an_earlier_release_had_absolute_paths_and_no_id(copied: bool, tmp_path: Path) -> None:
    project = once(tmp_path / "project")
    as_before(project)
    other = Moving(tmp_path / "other")
    if copied:
        shutil.copytree(project.root, other.root)
    else:
        project.root.rename(other.root)
    found = other.do("query", "SELECT * FROM mv('kinds') ORDER BY kind", "--output", "json", "--engine", "duckdb")
    assert [tuple(row.values()) for row in found.json] == FIRST, found.err
    assert ("is a copy of" if copied else "was moved from") in found.err
    other.land("b.json", [("3", "y", 3)])
    assert other.run()[0]["topics.orders"] == (1, 1)
    assert project.root.exists() == copied
    if copied:
        assert project.kinds() == FIRST and identity(project)["id"] != identity(other)["id"]
        assert project.run() == (NOTHING_NEW, "")


def as_before(project: Moving) -> None:
    """Make it what an earlier release has left."""
    shutil.rmtree(project.root / "lake" / "_headwater" / "relations")
    (project.root / "lake" / "_headwater" / "lake.json").unlink()
    with sqlite3.connect(project.root / ".headwater" / "state.db") as state:
        state.execute("DROP TABLE lake")
        state.execute("UPDATE relations SET path = ? || path", [f"{project.root / 'lake'}/"])
    state.close()


def test_the_copy_of_a_held_flow_neither_waits_for_nor_ends_its_holder(tmp_path: Path) -> None:
    project = once(tmp_path / "project")
    state = State.next_to(project.root / ".headwater")
    now = state.now()
    here = Holder.here().record()
    assert state.take_lease(LeaseRecord("topics.orders", "t", {**here, "pid": 1}, now, now + 600), None)
    state.close()
    copy = Moving(tmp_path / "copy")
    shutil.copytree(project.root, copy.root)
    copy.land("b.json", [("3", "y", 3)])
    assert copy.run()[0]["topics.orders"] == (1, 1)
    other = State.next_to(project.root / ".headwater")
    assert other.lease("topics.orders") is not None
    other.close()


def test_an_append_goes_to_the_lake_of_the_original_alone(tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", "delta", warehouse=str(tmp_path / "lake"))
    text = (project.root / "headwater.yml").read_text()
    text = text.replace("landing: {type: files", "landing: {type: append}\n  unused: {type: files")
    (project.root / "headwater.yml").write_text(text)
    with Lake.open(project.root) as lake:
        assert lake.topic("orders").append([{"event_id": "1", "kind": "x", "amount": 1}]).committed
    copy = Moving(tmp_path / "copy")
    shutil.copytree(project.root, copy.root)
    with Lake.open(copy.root) as lake, pytest.raises(HeadwaterError) as refused:
        lake.topic("orders").append([{"event_id": "2", "kind": "x", "amount": 1}])
    assert refused.value.code is Code.LAKE_COPIED


CATALOG = """\
name: shop
warehouse: ./lake
catalogs: {{bi: {{type: jdbc, uri: "jdbc:sqlite:{database}"}}}}
sources: {{landing: {{type: files, path: ./landing}}}}
topics: {{orders: {{from: landing, format: iceberg, table: bi.sales.orders}}}}
"""


@pytest.mark.full
@follows("move the lake back, or make it the embedded catalog: `type: jdbc`, without a `uri`")
@follows("in the copy's project make it the embedded catalog: `type: jdbc`, without a `uri`")
def test_tables_in_the_warehouse_that_another_catalog_keeps(tmp_path: Path) -> None:
    """Only that catalog can say where they are: nothing is read at a place that it does not know."""
    project, other = Moving(tmp_path / "project"), Moving(tmp_path / "other")
    (project.root / "landing").mkdir(parents=True)
    text = CATALOG.format(database=tmp_path / "bi.db")
    (project.root / "headwater.yml").write_text(text)
    project.land("a.json", ROWS)
    assert project.run()[0] == {"topics.orders": (1, 2)}

    project.root.rename(other.root)
    refused = other.do("run", "--once", "--json")
    assert refused.code == 1 and "LAKE_MOVED" in refused.out + refused.err
    other.root.rename(project.root)
    project.land("b.json", [("3", "y", 3)])
    assert project.run()[0] == {"topics.orders": (1, 1)} and project.count() == 3

    shutil.copytree(project.root, other.root)
    refused = other.do("run", "--once", "--json")
    assert refused.code == 1 and "LAKE_COPIED" in refused.out + refused.err
    embedded = text.replace(f', uri: "jdbc:sqlite:{tmp_path / "bi.db"}"', "")
    (other.root / "headwater.yml").write_text(embedded)
    other.land("c.json", [("4", "y", 4)])
    assert other.run()[0] == {"topics.orders": (1, 1)} and other.count() == 4
    assert project.run()[0] == {"topics.orders": (0, 0)} and project.count() == 3

    last = Moving(tmp_path / "last")
    project.root.rename(last.root)
    assert "LAKE_MOVED" in last.do("run", "--once").err
    (last.root / "headwater.yml").write_text(embedded)
    last.land("d.json", [("5", "y", 5)])
    assert last.run()[0] == {"topics.orders": (1, 1)} and last.count() == 4
