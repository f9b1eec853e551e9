"""The project's name as a schema over its topics, tables and views, and look-ups as of PROCTIME()."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.sql.schemas import without_schema
from tests.support import headwater

PROJECT = """
name: acme
sources:
  landing: {type: files, path: ./landing, schema: "id bigint, who string"}
topics:
  events: {from: landing}
tables:
  people: {keys: [who], schema: "who string, name string"}
  named:
    sql: |
      SELECT e.id, p.name FROM stream(acme.events) e
      LEFT JOIN table('people') FOR SYSTEM_TIME AS OF PROCTIME() p ON e.who = p.who
views:
  counted: {sql: "SELECT acme.events.who, count(*) AS n FROM acme.events GROUP BY 1"}
"""

ENGINES = ("auto", "spark")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    root = tmp_path_factory.mktemp("acme")
    (root / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    assert headwater("check", "--project", root).code == 0
    for number, who in ((1, "a"), (2, "b")):
        with Lake.open(root) as lake:
            lake.sql(f"INSERT INTO acme.people VALUES ('{who}', 'name {number}')")
        land(root, number, who)
    return root


@pytest.fixture(scope="module")
def lake(root: Path) -> Iterator[Lake]:
    with Lake.open(root) as found:
        yield found


def land(root: Path, number: int, who: str) -> None:
    (root / "landing").mkdir(exist_ok=True)
    (root / "landing" / f"{number}.json").write_text(json.dumps({"id": number, "who": who}) + "\n", encoding="utf-8")
    ran = headwater("run", "--once", "--project", root)
    assert ran.code == 0, ran.err


def rows(lake: Lake, sql: str) -> list[dict[str, Any]]:
    """The rows, the same from both engines, and to whoever may only read."""
    found = [lake.sql(sql, engine=engine, read_only=True).rows() for engine in ENGINES]
    assert found[0] == found[1], sql
    return found[0]


def test_the_project_s_name_is_a_schema(lake: Lake) -> None:
    assert rows(lake, "SELECT id FROM acme.events ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert rows(lake, "SELECT acme.events.id, events.who FROM Acme.events WHERE id = 1") == [{"id": 1, "who": "a"}]
    assert rows(lake, "SELECT name FROM acme.people p JOIN `acme`.events e ON e.who = p.who WHERE id = 2") == [
        {"name": "name 2"}
    ]
    assert rows(lake, "SELECT who, n FROM acme.counted ORDER BY who") == [{"who": "a", "n": 1}, {"who": "b", "n": 1}]
    assert rows(lake, "WITH x AS (SELECT * FROM acme.named) SELECT name FROM x ORDER BY id") == [
        {"name": "name 1"},
        {"name": "name 2"},
    ]
    first = min(row["version"] for row in lake.sql("DESCRIBE HISTORY acme.events").rows() if row["flow"])
    assert rows(lake, f"SELECT id FROM acme.events VERSION AS OF {first}") == [{"id": 1}]
    assert rows(lake, "SELECT count(*) AS n FROM acme.events TIMESTAMP AS OF '2100-01-01'") == [{"n": 2}]
    assert lake.sql(f"SELECT id FROM changes('acme.events', {first})").rows() == [{"id": 2}]
    assert {row["column"] for row in lake.sql("DESCRIBE acme.people").rows()} >= {"who", "name"}


def test_only_a_schema_is_taken_away() -> None:
    for same in (
        "SELECT acme.id FROM events acme",
        "SELECT extract(year FROM acme.at) FROM events acme",
        "SELECT 'acme.events' FROM events",
        "SELECT * FROM lake.acme.events",
        "SELECT 1 -- acme.events",
        "SELECT FROM acme.",
    ):
        assert without_schema(same, "acme") == same
    assert without_schema("SELECT * FROM topics.x", "topics") == "SELECT * FROM topics.x"
    written = "CREATE MATERIALIZED VIEW v AS SELECT * FROM acme.events WITH (refresh = 'manual')"
    assert without_schema(written, "acme") == written.replace("acme.", "     ")


def test_a_look_up_as_of_now(root: Path, lake: Lake) -> None:
    asked = "SELECT e.id, p.name FROM topic('events') e JOIN table('people') FOR SYSTEM_TIME AS OF PROCTIME() {} ON {}"
    written = asked.format("AS p", "e.who = p.who") + " ORDER BY e.id"
    assert rows(lake, written) == [{"id": 1, "name": "name 1"}, {"id": 2, "name": "name 2"}]
    lake.sql("INSERT INTO people VALUES ('a', 'other')")
    land(root, 3, "a")
    found = rows(lake, "SELECT id, name FROM named ORDER BY id")
    assert [row["name"] for row in found] == ["name 1", "name 2", "other"]  # what was looked up before stays
    assert rows(lake, written)[0] == {"id": 1, "name": "other"}


@pytest.mark.spark
def test_a_look_up_as_of_now_needs_the_latest(tmp_path: Path) -> None:
    text = PROJECT.replace(
        '  people: {keys: [who], schema: "who string, name string"}',
        "  people: {from: topic('events'), apply: {keys: [who], sequence_by: id, history: all}}",
    )
    (tmp_path / "headwater.yml").write_text(text, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    checked = headwater("check", "--project", tmp_path)
    assert checked.code != 0 and "is for tables that keep the latest" in checked.err + checked.out
    (tmp_path / "headwater.yml").write_text(
        PROJECT.replace(
            "SELECT acme.events.who, count(*) AS n FROM acme.events GROUP BY 1",
            "SELECT e.who FROM events e JOIN table('people') FOR SYSTEM_TIME AS OF PROCTIME() p ON e.who = p.who",
        ),
        encoding="utf-8",
    )
    made = headwater("run", "--once", "--project", tmp_path)
    assert made.code != 0
