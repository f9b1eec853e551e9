"""The state of a lake is rebuilt from the lake; Iceberg's tables from the metadata that has landed."""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from tests.recovery.lab import Moving
from tests.recovery.test_places import FIRST, NOTHING_NEW, ROWS, as_before

pytestmark = pytest.mark.usefixtures("spark")

MORE = """\
tables:
  latest: {from: topic('orders'), apply: {keys: [kind], sequence_by: _position, delete_when: "amount < 0"}}
"""


def test_hidden_columns_stay_hidden_and_nothing_is_planned(tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", "iceberg", more=MORE)
    project.land("a.json", [*ROWS, ("3", "z", -1)])
    project.run()
    mean = "SELECT kind, avg(amount) AS mean FROM topic('orders') GROUP BY kind ORDER BY mean DESC LIMIT 2"
    assert project.do("mv", "create", "means", mean, "--json").code == 0
    asked = ["SELECT * FROM mv('means')", "SELECT kind, amount FROM table('latest') ORDER BY kind"]
    before = [project.query(sql) for sql in asked]
    assert list(before[0][0]) == ["kind", "mean"] and len(before[0]) == 2
    assert before[1] == [{"kind": "x", "amount": 1}, {"kind": "y", "amount": 2}], "z is deleted, and kept hidden"
    shutil.rmtree(project.root / ".headwater")
    first = project.do("plan", "--json")
    assert first.json == []
    assert "it was rebuilt from the lake" in first.err and "Iceberg tables registered again: 4" in first.err
    assert [project.query(sql) for sql in asked] == before
    assert project.run() == ({**NOTHING_NEW, "tables.latest": (0, 0), "views.means": (0, 0)}, "")
    project.land("b.json", [("4", "z", 7)])
    project.run()
    assert project.query(asked[0])[0] == {"kind": "z", "mean": 3.0}
    assert project.do("mv", "verify", "means").code == 0
    shutil.rmtree(project.root / ".headwater")
    assert project.do("mv", "drop", "means", "--yes").code == 0, "what a statement made is still a statement's"


def files_of(project: Moving, table: str = "topics/orders") -> list[Path]:
    return sorted((project.root / "lake" / table / "metadata").glob("*.metadata.json"))


def orphan(project: Moving, of: int, number: str = "00099") -> Path:
    """A metadata file that no catalog has ever been told of, like one that a commit that was refused has left."""
    source = files_of(project)[of]
    made = source.with_name(f"{number}-{uuid.uuid4()}.metadata.json")
    shutil.copy(source, made)
    return made


def registered(project: Moving, table: str = "orders") -> str:
    """The metadata file that the catalog says is a table's."""
    assert project.do("topic", "list", "--json").code == 0
    with closing(sqlite3.connect(project.root / ".headwater" / "iceberg.db")) as connection:
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
        return Path(connection.execute(query, [table]).fetchone()[0]).name


def test_the_newest_metadata_file_is_not_merely_taken(tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", "iceberg")
    project.land("a.json", ROWS)
    project.run("topics.orders")
    project.land("b.json", [("3", "y", 3)])
    project.run()
    orphan(project, 1)  # the table as it was after its creation or its first step
    catalog = project.root / ".headwater" / "iceberg.db"
    with sqlite3.connect(catalog) as connection:
        told = "SELECT table_namespace, metadata_location FROM iceberg_tables ORDER BY 1"
        before = connection.execute(told).fetchall()
    connection.close()
    catalog.unlink()
    found = project.do("query", "SELECT count(*) AS n FROM topic('orders')", "--output", "json")
    assert found.json == [{"n": 3}], found.err
    assert "the embedded catalog was lost" in found.err
    with sqlite3.connect(catalog) as connection:
        assert connection.execute(told).fetchall() == before
    connection.close()
    assert project.run() == (NOTHING_NEW, "")
    for notes in (project.root / "lake" / "_headwater" / "iceberg").iterdir():
        notes.unlink()  # as an earlier release has left it: there the steps tell
    shutil.rmtree(project.root / ".headwater")
    assert project.count() == 3
    assert project.run() == (NOTHING_NEW, "")
    assert project.kinds() == [FIRST[0], ("y", 2, 5)]


def test_a_step_that_landed_right_before_the_end_counts(tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", "iceberg")
    project.land("a.json", ROWS)
    project.run("topics.orders")
    note = project.root / "lake" / "_headwater" / "iceberg" / "lake.topics.orders.json"
    first = json.loads(note.read_text())["metadata"]
    project.land("b.json", [("3", "y", 3)])
    project.run("topics.orders")
    last = json.loads(note.read_text())["metadata"]
    assert registered(project) == Path(last).name != Path(first).name
    note.write_text(json.dumps({"metadata": first}))  # the process ended between the commit and its note
    shutil.rmtree(project.root / ".headwater")
    assert registered(project) == Path(last).name
    ledger = project.root / "lake" / "_headwater" / "flows" / "topics.orders"
    (ledger / "1-1.json").unlink()  # of this step the ledger knows nothing: it did not land
    (project.root / "lake" / last).touch()
    shutil.rmtree(project.root / ".headwater")
    assert registered(project) == Path(first).name


def test_a_lake_of_an_earlier_release_without_its_state(tmp_path: Path) -> None:
    project = Moving.make(tmp_path / "project", "delta", more=MORE.replace("latest: {", "latest: {format: paimon, "))
    project.land("a.json", ROWS)
    project.run()
    as_before(project)
    shutil.rmtree(project.root / ".headwater")
    assert project.kinds() == FIRST
    assert list(project.query("SELECT * FROM mv('kinds')")[0]) == ["kind", "n", "total"]
    assert [one["relation"] for one in project.do("plan", "--json").json] == ["tables.latest"]
    assert project.run()[0]["topics.orders"] == (0, 0)
    assert project.query("SELECT kind FROM table('latest') ORDER BY kind") == [{"kind": "x"}, {"kind": "y"}]
