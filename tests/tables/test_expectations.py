"""Expectations and keys of tables by SQL: counted, dropped, set aside, or the end of the flow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tables.lab import Lab, event

pytestmark = pytest.mark.usefixtures("spark")

STREAM = "stream(topic('events'))"
ROWS = f"SELECT id, who, n FROM {STREAM}"


CODE = """\
from headwater import transform
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@transform("made")
def made(events: DataFrame) -> DataFrame:
    return events.select("id", "who", F.coalesce("n", F.lit(0)).alias("n"))
"""


def expecting(*, sql: str = ROWS, **expect: tuple[str, str]) -> dict[str, Any]:
    return {"sql": sql, "expect": {name: {"check": check, "on_violation": do} for name, (check, do) in expect.items()}}


def test_each_kind_of_violation(tmp_path: Path) -> None:
    tables = {
        "dropped": expecting(few=("n < 5", "drop")),
        "set_aside": expecting(few=("n < 5", "quarantine"), known=("who IS NOT NULL", "drop"), old=("id > 1", "warn")),
        "totals": expecting(
            sql=f"SELECT who, sum(n) AS total FROM {STREAM} GROUP BY who HAVING count(*) < 9",
            small=("total < 10", "warn"),
        ),
    }
    made = expecting(few=("n < 5", "drop")) | {"sql": None, "transform": "made"}
    made["watermark"] = {"column": "at", "delay": "0s", "late": "drop"}
    tables["made"] = {key: value for key, value in made.items() if value is not None}
    lab = Lab(tmp_path, tables, code=CODE)
    lab.fed(event(1, 0, n=1), event(2, 1, n=7), event(3, 2, who=None))
    lab.fed(event(4, 3, n=9), event(5, 4, n=None), event(6, 5, n=9, who=None), event(2, 6, n=7))
    assert lab.rows("dropped", "id") == [(1,), (3,)], "what is not known to hold does not hold"
    assert lab.rows("set_aside", "id") == [(1,)]
    told = {"watermark": None, "late": 0, "violations": {"few": 5, "known": 2, "old": 1}}
    assert lab.checks("set_aside") == told
    dead_letters = lab.dead_letters("set_aside")
    assert {(one["reason"], one["message"]) for one in dead_letters} == {("expectation", "not met: few")}
    shown = [lab.answer("dlq", "show", one["id"], "--json").json["raw"] for one in dead_letters]
    assert sorted(json.loads(raw)["id"] for raw in shown) == [2, 4, 5, 6], "the same row twice is one dead letter"
    assert lab.answer("dlq", "replay", "tables.set_aside", "--json").json[0]["still_dead"] == 4
    assert lab.rows("made", "id") == [(1,), (3,), (5,)], "a function's rows are looked at as a query's are"
    assert lab.checks("made")["violations"] == {"few": 4}
    assert lab.checks("totals")["violations"] == {"small": 2} and lab.rows("totals") == [("a", 24), (None, 10)]
    (status,) = [one for one in lab.answer("status", "--json").json if one["flow"] == "tables.dropped"]
    assert status["checks"]["violations"] == {"few": 5} == {"few": status["rejected"]}, "over both runs"

    tables["dropped"] = expecting(few=("n < 8", "drop"))
    lab.write(tables)
    lab.fed(event(7, 7, n=7), flows=["topics.events", "tables.dropped"])
    assert lab.rows("dropped", "id") == [(1,), (3,), (7,)], "from the next step on"


def test_a_failed_expectation_ends_the_flow_and_commits_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"strict": expecting(few=("n < 5", "fail"))})
    lab.fed(event(1, 0))
    failed = lab.failed(event(2, 1), event(3, 2, n=8))["tables.strict"]
    assert failed["code"] == "EXPECTATION_FAILED"
    assert '\'few\' (n < 5) is not met by {"id":3,"who":"a","n":8}' in failed["error"]
    assert "headwater.yml:" in failed["error"] and "tables.strict.expect.few" in failed["error"]
    assert lab.rows("strict", "id") == [(1,)]
    lab.write({"strict": expecting(few=("n < 5", "drop"))})
    assert lab.run().code == 0
    assert lab.rows("strict", "id") == [(1,), (2,)]


def test_keys_are_looked_after(tmp_path: Path) -> None:
    grouped = f"SELECT id, count(*) AS n FROM {STREAM} GROUP BY id"
    last = (
        "SELECT id, who, n FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY at DESC) AS rank "
        f"FROM {STREAM}) WHERE rank = 1"
    )
    tables = {"grouped": {"sql": grouped, "keys": ["id"]}, "last": {"sql": last, "keys": ["id"]}}
    plain, nulls = {"sql": ROWS, "keys": ["id"]}, {"sql": ROWS, "keys": ["n", "who"]}
    lab = Lab(tmp_path, {**tables, "plain": plain, "nulls": nulls})
    lab.fed(event(1, 0), event(2, 1, n=2))
    failed = lab.failed(event(3, 2, n=3), event(1, 3, who=None, n=4))
    assert set(failed) == {"tables.plain", "tables.nulls"}
    said = failed["tables.plain"]["error"]
    assert failed["tables.plain"]["code"] == "DUPLICATE_KEY" and "tables.plain.keys" in said
    assert '{"id":1,"who":"a","n":1}' in said and '{"id":1,"who":null,"n":4}' in said
    assert (
        failed["tables.nulls"]["code"] == "NULL_KEY" and '{"id":1,"who":null,"n":4}' in failed["tables.nulls"]["error"]
    )
    assert lab.rows("plain", "id") == [(1,), (2,)], "nothing was committed"
    assert lab.rows("grouped") == [(1, 2), (2, 1), (3, 1)], "another row for a group takes its place"
    assert lab.rows("last") == [(1, None, 4), (2, "a", 2), (3, "a", 3)]


def test_expectations_that_make_no_sense(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"wrong": expecting(few=("n < = 5", "warn"), many=("m > 5", "warn"))})
    problems = lab.answer("check", "--json").json["problems"]
    text = (tmp_path / "headwater.yml").read_text(encoding="utf-8").splitlines()
    for problem, line in zip(problems, ("        check: n < = 5", "        check: m > 5"), strict=True):
        assert problem["code"] == "INVALID_SQL"
        assert (problem["file"], problem["line"]) == ("headwater.yml", text.index(line) + 1)
    totals = f"SELECT who, sum(n) AS total FROM {STREAM} GROUP BY who"
    lab.write(
        {
            "groups": expecting(sql=totals, small=("total < 10", "drop")),
            "clock": expecting(sql=f"SELECT at FROM {STREAM}", past=("at < current_timestamp()", "quarantine")),
            "number": expecting(sql=f"SELECT * FROM {STREAM}", few=("n + 1", "warn")),
            "unknown": expecting(sql=f"SELECT * FROM {STREAM}", few=("m > 5", "warn")),
        }
    )
    lab.land([event(1, 0)])
    failed = {one["flow"]: one["error"] for one in lab.run().events if one["event"] == "failed"}
    assert "write it as HAVING" in failed["tables.groups"] and "tables.groups.expect.small" in failed["tables.groups"]
    assert "says something else of the same row at another time" in failed["tables.clock"]
    assert "'n + 1' is bigint, and a check is a condition" in failed["tables.number"]
    assert "INVALID_SQL" in failed["tables.unknown"] and "tables.unknown.expect.few.check" in failed["tables.unknown"]
