"""The schema `system` in SQL, without a JVM: the rows are those of the state database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError
from headwater.core.state import MaintenanceRecord, RefreshRecord, State, StepRecord
from headwater.query.system.registry import SYSTEM_TABLES
from tests.support import headwater

NOW = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=timezone.utc)
PROJECT = """
name: {name}
sources: {{landing: {{type: files, path: ./landing}}}}
topics:
  steps: {{from: landing}}
  system: {{from: landing}}
  system_events: {{from: landing}}
"""


def step(number: int, flow: str = "topics.steps", **more: Any) -> StepRecord:
    at = NOW + timedelta(minutes=number)
    known: dict[str, Any] = {
        "flow": flow,
        "kind": flow.split(".")[0][:-1],
        "epoch": 1,
        "step": number,
        "started_at": at,
        "committed_at": at + timedelta(milliseconds=150),
        "duration_ms": 150,
        "rows": number * 10,
        "rejected": 0,
        "bytes": None,
        "from_positions": "{}",
        "to_positions": json.dumps({"landing": number}),
        "version": number,
        "outcome": "committed",
        "recovered": False,
    }
    return StepRecord(**(known | more))


@pytest.fixture(scope="module", params=["shop", "system"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in which flows have run; once its project has the schema's own name."""
    root = tmp_path_factory.mktemp("lake") / "here"
    (root / "landing").mkdir(parents=True)
    (root / "headwater.yml").write_text(PROJECT.format(name=request.param))
    with Lake.open(root) as lake:
        lake.status()  # makes the state database what it is of
        state = lake._warehouse.state
        for number in range(5):
            state.note(step(number))
        state.note(step(0, "views.daily", rows=None, outcome="nothing", version=None, committed_at=None))
        message = f"can't read {root}/lake/topics/steps/part-0.parquet: no such file " + "x" * 1000
        state.note(step(5, outcome="failed", error_code="STORAGE_FAILED", error=message, recovered=True))
        for refresh_type in ("full", "incremental", "none"):
            state.note(RefreshRecord("daily", "view", refresh_type, "because", NOW, 12, 5, 2, "{}", 4))
        state.note(MaintenanceRecord("topics.steps", "compact", "small_files", NOW, 800, 3, 4, 40, 1, 9000, 8000, 5))
    return root


@pytest.fixture
def lake(root: Path) -> Iterator[Lake]:
    with Lake.open(root) as lake:
        yield lake


def test_every_column_comes_with_its_type(lake: Lake) -> None:
    for name, table in SYSTEM_TABLES.items():
        found = lake.sql(f"SELECT * FROM system.{name}")
        assert (found.engine, found.columns) == ("duckdb", list(table.columns))
        assert found.schema.equals(table.schema)
        described = lake.sql(f"DESCRIBE system.{name}").to_dicts()
        assert {row["column"]: row["type"] for row in described} == table.columns
    assert lake.sql("SELECT count(*) AS n FROM system.dead_letters").to_dicts() == [{"n": 0}]


def test_steps_are_read_as_they_were_noted(lake: Lake) -> None:
    rows = lake.sql("SELECT * FROM system.steps WHERE step = 2 AND flow = 'topics.steps'").to_dicts()
    noted = step(2)
    names = [name for name in SYSTEM_TABLES["steps"].columns if name != "id"]
    assert rows == [{"id": 3, **{name: getattr(noted, name) for name in names}}]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT flow, count(*) AS n, sum(rows) AS total FROM system.steps GROUP BY flow ORDER BY flow",
            [{"flow": "topics.steps", "n": 6, "total": 150}, {"flow": "views.daily", "n": 1, "total": None}],
        ),
        (
            "SELECT s.step, m.action FROM System.steps s JOIN system.maintenance m ON s.flow = m.relation"
            " AND s.version = m.version_after",
            [{"step": 4, "action": "compact"}],
        ),
        (
            "WITH slow AS (SELECT step FROM system.steps WHERE outcome = 'committed' AND duration_ms > 100)"
            " SELECT count(*) AS n FROM slow a JOIN slow b ON a.step = b.step",
            [{"n": 5}],
        ),
        (
            "SELECT refresh_type FROM system.refreshes WHERE view = 'daily' ORDER BY id DESC LIMIT 2",
            [{"refresh_type": "none"}, {"refresh_type": "incremental"}],
        ),
        (
            "SELECT x.flow FROM system.steps AS x WHERE x.started_at >= TIMESTAMP '2026-05-04 03:07:00' AND recovered",
            [{"flow": "topics.steps"}],
        ),
        ("SELECT count(*) AS n FROM system.steps WHERE NOT EXISTS (SELECT 1 FROM system.dead_letters)", [{"n": 7}]),
        ("SELECT step FROM system.steps WHERE to_positions LIKE '%: 3}'", [{"step": 3}]),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_they_are_joined_filtered_and_counted(
    lake: Lake, sql: str, rows: list[dict[str, object]], read_only: bool
) -> None:
    found = lake.sql(sql, read_only=read_only)
    assert found.to_dicts() == rows
    assert found.engine == "duckdb"


def test_a_second_reading_has_the_same_rows(lake: Lake) -> None:
    found = lake.sql("SELECT count(*) AS n FROM system.steps a CROSS JOIN (SELECT max(id) AS m FROM system.steps) b")
    before = found.to_dicts()
    lake._warehouse.state.note(step(9, "topics.other"))
    assert found.to_dicts() == before
    (after,) = lake.sql("SELECT count(*) AS n FROM system.steps WHERE flow = 'topics.other'").to_dicts()
    assert after["n"] > 0  # what this process has noted is there at once


def test_errors_are_short_and_name_no_folder(lake: Lake, root: Path) -> None:
    for read_only in (False, True):
        (row,) = lake.sql("SELECT * FROM system.steps WHERE outcome = 'failed'", read_only=read_only).to_dicts()
        assert row["error"].startswith("can't read topics/steps/part-0.parquet: no such file x")
        assert len(row["error"]) <= 500 and str(root) not in row["error"]
        assert row["error_code"] == "STORAGE_FAILED"


@pytest.mark.parametrize(
    ("sql", "code", "says"),
    [
        ("SELECT * FROM system.stepz", Code.UNKNOWN_REFERENCE, "did you mean 'steps'?"),
        ("DESCRIBE system.nothing", Code.UNKNOWN_REFERENCE, "there is no table 'system.nothing'"),
        ("SELECT flw FROM system.steps", Code.UNKNOWN_COLUMN, "did you mean 'flow'?"),
        ("SELECT * FROM system.steps VERSION AS OF 3", Code.NO_SUCH_VERSION, "has no versions"),
        ("DESCRIBE HISTORY system.steps", Code.UNKNOWN_REFERENCE, "queries alone read it"),
        ("REFRESH MATERIALIZED VIEW system.steps", Code.INVALID_SQL, "system.steps is not a view"),
        ("DROP MATERIALIZED VIEW IF EXISTS system.steps", Code.INVALID_SQL, "system.steps is not a view"),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM system.steps", Code.UNKNOWN_REFERENCE, "queries alone read it"),
        ("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1 AS a FROM system.steps", Code.UNKNOWN_REFERENCE, "queries"),
        ("INSERT INTO system.steps SELECT 1 AS a", Code.UNKNOWN_REFERENCE, "queries alone"),
        ("EXPORT system.steps TO DELTA 'x'", Code.UNKNOWN_REFERENCE, "queries alone"),
        ("SELECT * FROM changes('system.steps', 1)", Code.INVALID_VALUE, "names no topic, table or view"),
        ("SELECT * FROM lake.system.steps", Code.UNKNOWN_REFERENCE, "not in this lake"),
    ],
)
def test_what_they_are_not_for_is_said(lake: Lake, sql: str, code: Code, says: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        lake.sql(sql)
    assert (caught.value.code, says in str(caught.value)) == (code, True), str(caught.value)


def test_a_topic_of_the_same_name_is_another_thing(lake: Lake) -> None:
    for name in ("topics.steps", "topic('steps')", "topics.system", "system_events", "topics.system_events"):
        with pytest.raises(HeadwaterError, match="has no data yet"):
            lake.sql(f"SELECT * FROM {name}").to_dicts()


def test_a_view_of_the_project_can_t_follow_one(tmp_path: Path) -> None:
    file = tmp_path / "headwater.yml"
    file.write_text(PROJECT.format(name="shop") + "views:\n  slow: {sql: SELECT * FROM system.steps}\n")
    answer = headwater("check", "--project", tmp_path, "--json")
    assert answer.code == 2
    assert "system.steps can't be used here" in answer.out
    assert "headwater.yml" in answer.out


def test_they_are_shown(lake: Lake, root: Path) -> None:
    for statement in ("SHOW SYSTEM TABLES", "show system"):
        rows = lake.sql(statement, read_only=True).to_dicts()
        assert [row["name"] for row in rows] == [f"system.{name}" for name in SYSTEM_TABLES]
    answer = headwater("query", "SELECT flow FROM system.steps WHERE id = 1", "--output", "json", "--project", root)
    assert answer.json == [{"flow": "topics.steps"}]
    assert [table.name for table in lake.system_tables()] == list(SYSTEM_TABLES)


def test_explain_tells_of_them(lake: Lake) -> None:
    plan = "\n".join(row["plan"] for row in lake.sql("EXPLAIN SELECT flow FROM system.steps").to_dicts())
    assert "system.steps" in plan and "duckdb" in plan.lower()
    analyzed = "\n".join(row["plan"] for row in lake.sql("EXPLAIN ANALYZE SELECT * FROM system.steps").to_dicts())
    assert "system.steps" in analyzed


def test_dead_letters_without_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "headwater.yml").write_text(PROJECT.format(name="shop"))
    letter = {
        "id": "a1", "topic": "steps", "source": "landing", "reason": "malformed", "message": "m" * 9000,
        "position": "0001", "raw": b"secret", "context": None, "at": NOW, "flow": "topics.steps", "epoch": 1, "step": 3,
    }  # fmt: skip
    types = [(name, pa.timestamp("us", tz="UTC") if name == "at" else None) for name in letter]
    columns = {name: pa.array([letter[name]], type or _type(letter[name])) for name, type in types}
    deltalake.write_deltalake(str(tmp_path / "lake/_headwater/dead_letters"), pa.table(columns), partition_by=["topic"])
    with Lake.open(tmp_path) as lake:
        (row,) = lake.sql("SELECT * FROM system.dead_letters WHERE topic = 'steps'").to_dicts()
        assert row == {name: letter[name] for name in row} | {"message": "m" * 499 + "…"}
        assert list(row) == list(SYSTEM_TABLES["dead_letters"].columns) and "raw" not in row


def _type(value: object) -> pa.DataType:
    return pa.int64() if isinstance(value, int) else pa.binary() if isinstance(value, bytes) else pa.string()


def test_a_state_of_an_earlier_release_has_empty_ones(tmp_path: Path) -> None:
    import sqlite3

    State.next_to(tmp_path / ".headwater").lake()
    with sqlite3.connect(tmp_path / ".headwater/state.db") as made:
        for table in ("steps", "refreshes", "maintenance"):
            made.execute(f"DROP TABLE {table}")
    (tmp_path / "headwater.yml").write_text(PROJECT.format(name="shop"))
    with Lake.open(tmp_path) as lake:
        assert lake.sql("SELECT * FROM system.steps").to_dicts() == []
