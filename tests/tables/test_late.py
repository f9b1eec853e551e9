"""Late events: the watermark, what becomes of the rows behind it, and windows of event time."""

from __future__ import annotations

import json
import random
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from headwater import Lake
from headwater.runner.setups.tables import table_flow
from headwater.spark.session import fork
from tests.docs.test_examples import ROOT, blocks
from tests.support import headwater
from tests.tables.lab import SCHEMA, Event, Lab, event, on_time

pytestmark = pytest.mark.usefixtures("spark")

STREAM = "stream(topic('events'))"
DELAY = timedelta(minutes=10)
QUERIES = {
    "tumbling": "SELECT who, date_format(window.start, 'HH:mm') AS began, count(*) AS events, sum(n) AS total, "
    "max(n) AS most FROM {events} GROUP BY who, window(at, '10 minutes')",
    "sliding": "SELECT date_format(window.start, 'HH:mm') AS began, count(*) AS events, sum(n) AS total "
    "FROM {events} GROUP BY window(at, '10 minutes', '5 minutes')",
    "sessions": "SELECT who, date_format(session_window.start, 'HH:mm:ss') AS began, "
    "date_format(session_window.end, 'HH:mm:ss') AS ended, count(*) AS events, sum(n) AS total "
    "FROM {events} GROUP BY who, session_window(at, '4 minutes')",
    "named": "SELECT DISTINCT id, n, name FROM (SELECT e.id, e.n, p.name FROM {events} e "
    "LEFT JOIN {people} p ON p.who = e.who WHERE e.n > 0 UNION ALL SELECT id, n, 'none' FROM {events} WHERE n IS NULL)",
}
POLICIES = {
    "update": ["tumbling", "sliding", "sessions"],
    "drop": ["sessions"],
    "quarantine": ["named"],
}


def table(query: str, late: str) -> dict[str, Any]:
    sql = QUERIES[query].format(events=STREAM, people="table('people')")
    return {"sql": sql, "watermark": {"column": "at", "delay": "10m", "late": late}}


def stream(dice: random.Random, count: int) -> list[list[Event]]:
    """Events roughly in order, some of them far behind, some doubled, in steps of any size."""
    times = [minute + (dice.uniform(-40, 0) if dice.random() < 0.3 else dice.uniform(-5, 0)) for minute in range(count)]
    events = [
        event(id, round(at, 2), dice.choice(["a", "b", None]), dice.choice([None, *range(5)]))
        for id, at in enumerate(times)
    ]
    events = [again for one in events for again in [one] * (2 if dice.random() < 0.2 else 1)]
    cuts = [dice.randint(15, 30), dice.randint(35, 55)]
    steps = [events[start:end] for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    steps[-1].append(event(count, 0))  # late whatever the dice say
    for step in steps:
        dice.shuffle(step)
    return steps


def batch(spark: SparkSession, query: str, events: list[Event]) -> list[tuple[Any, ...]]:
    """The same query over all events at once, by Spark alone."""
    lines = spark.createDataFrame([(json.dumps(one),) for one in events], "line string")
    lines.selectExpr(f"inline(array(from_json(line, '{SCHEMA}')))").createOrReplaceTempView("all_events")
    spark.createDataFrame([("a", "Ann"), ("b", "Bea")], "who string, name string").createOrReplaceTempView("all_people")
    rows = spark.sql(QUERIES[query].format(events="all_events", people="all_people")).collect()
    return sorted(map(tuple, rows), key=repr)


def test_a_shuffled_doubled_late_stream_gives_the_rows_of_a_batch(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    print(f"HEADWATER_SEED={seed}")
    steps = stream(random.Random(seed), 60)
    shapes = {f"{query}_{late}": (query, late) for late, queries in POLICIES.items() for query in queries}
    lab = Lab(tmp_path, {name: table(query, late) for name, (query, late) in shapes.items()})
    with Lake.open(tmp_path) as lake:
        flows = [table_flow(lake._warehouse, name, fork(spark), lambda: None) for name in shapes]
        for step in steps:
            lab.land(step)
            lake.run(["topics.events", "tables.people"], once=True)
            for flow in flows:
                while flow.step() is not None:
                    pass
    every = [one for step in steps for one in step]
    kept, late_ones = on_time(steps, DELAY)
    assert 0 < late_ones < len(every) / 2, "the stream should have late events"
    counted = {one["flow"]: one["checks"] for one in lab.answer("status", "--json").json}
    for name, (query, late) in shapes.items():
        expected = batch(spark, query, every if late == "update" else kept)
        assert lab.rows(name) == expected, f"{name}, HEADWATER_SEED={seed}"
        assert counted[f"tables.{name}"]["late"] == late_ones, name
    assert lab.answer("dlq", "replay", "tables.named_quarantine").code == 0
    assert lab.rows("named_quarantine") == batch(spark, "named", every), "what was set aside is in after a replay"
    assert lab.dead_letters("named_quarantine") == []


def test_what_was_set_aside_can_be_let_in(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"sessions": table("sessions", "quarantine")}, "iceberg")
    lab.fed(event(1, 0), event(2, 30))
    lab.fed(event(3, 19.9), event(4, 20), event(5, 2))
    began = [
        ("a", f"00:{minute}:00", f"00:{end}:00", 1, 1) for minute, end in (("00", "04"), ("20", "24"), ("30", "34"))
    ]
    assert lab.rows("sessions") == began, "late is what lies before the newest event less the delay"
    assert lab.checks("sessions") == {"watermark": "2026-01-01T00:20:00+00:00", "late": 2, "violations": {}}
    dead_letters = lab.dead_letters("sessions")
    assert [(one["reason"], "the watermark was 2026-01-01 00:20:00" in one["message"]) for one in dead_letters] == [
        ("late", True)
    ] * 2
    shown = lab.answer(
        "dlq", "show", next(one["id"] for one in dead_letters if "00:02" in one["message"]), "--json"
    ).json
    assert json.loads(shown["raw"])["id"] == 5

    lab.fed(event(6, 23))
    assert lab.rows("sessions")[1] == ("a", "00:20:00", "00:27:00", 2, 2), "what was left out stays out"
    (done,) = lab.answer("dlq", "replay", "tables.sessions", "--id", shown["id"][:12], "--json").json
    assert done == {"topic": "tables.sessions", "tried": 1, "came_through": 1, "rows": 1, "still_dead": 0}
    assert lab.rows("sessions")[0] == ("a", "00:00:00", "00:06:00", 2, 2)
    assert [one["message"][:30] for one in lab.dead_letters("sessions")] == ["at is 2026-01-01 00:19:54, and"]
    lab.fed(event(7, 5))
    assert len(lab.rows("sessions")) == 3 and lab.checks("sessions")["late"] == 3

    assert lab.answer("flow", "rebuild", "sessions", "--yes").code == 0
    assert lab.run().code == 0
    assert [row[3] for row in lab.rows("sessions")] == [3, 3, 1], "rebuilt, nothing is late"
    assert lab.dead_letters("sessions") == [] and lab.checks("sessions")["late"] == 0


def test_a_step_that_is_done_again_counts_once(tmp_path: Path, spark: SparkSession) -> None:
    checked = {
        "sql": f"SELECT id, n FROM {STREAM}",
        "watermark": {"column": "at", "delay": "10m", "late": "quarantine"},
        "expect": {"few": {"check": "n < 5", "on_violation": "quarantine"}},
    }
    lab = Lab(tmp_path, {"checked": checked})
    lab.fed(event(1, 30))
    lab.land([event(2, 1), event(3, 31), event(4, 2), event(5, 32, n=9)])
    assert lab.run("topics.events").code == 0

    def cut_off() -> None:
        raise KeyboardInterrupt

    def counted() -> tuple[dict[str, Any], int, list[tuple[Any, ...]]]:
        (status,) = [one for one in lab.answer("status", "--json").json if one["flow"] == "tables.checked"]
        return status["checks"], len(lab.dead_letters("checked")), lab.rows("checked", "id")

    with Lake.open(tmp_path) as lake:
        flow = table_flow(lake._warehouse, "checked", fork(spark), cut_off)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                flow.step()
    told = {"watermark": "2026-01-01T00:22:00+00:00", "late": 2, "violations": {"few": 1}}
    assert counted() == (told, 3, [(1,)])
    ran = lab.run()
    (step,) = [one for one in ran.events if one["event"] == "step" and one["flow"] == "tables.checked"]
    assert (step["recovered"], step["rejected"], step["checks"]) == (True, 3, told)
    assert counted() == (told, 3, [(1,), (3,)])
    lab.fed(event(6, 3))
    assert counted() == (told | {"late": 3}, 4, [(1,), (3,)]), "counted though nothing else came"
    lab.fed(event(7, 33))
    assert counted() == (told | {"late": 3, "watermark": "2026-01-01T00:23:00+00:00"}, 4, [(1,), (3,), (7,)])


def test_watermarks_that_make_no_sense(tmp_path: Path) -> None:
    def watermark(column: str, late: str = "update", of: str = STREAM) -> dict[str, Any]:
        return {"sql": f"SELECT id FROM {of}", "watermark": {"column": column, "delay": "1m", "late": late}}

    lab = Lab(tmp_path, {"wrong": watermark("att")})
    answer = lab.answer("check", "--json")
    (problem,) = answer.json["problems"]
    assert answer.code == 2 and problem["code"] == "INVALID_VALUE"
    assert problem["message"] == "no input that drives the table has a column 'att'"
    text = (tmp_path / "headwater.yml").read_text(encoding="utf-8").splitlines()
    assert (problem["file"], problem["line"]) == ("headwater.yml", text.index("      column: att") + 1)
    assert "did you mean 'at'" in problem["hint"]

    other = {"sql": f"SELECT id, at FROM {STREAM}"}
    chained = watermark("at", "drop", "stream(table('other'))")
    lab.write({"untimed": watermark("n"), "other": other, "chained": chained})
    lab.land([event(1, 0)])
    ran = lab.run()
    failed = {one["flow"]: one["error"] for one in ran.events if one["event"] == "failed"}
    assert "'n' of topics.events is bigint, and a watermark needs a time" in failed["tables.untimed"]
    assert "headwater.yml:" in failed["tables.untimed"] and "watermark.column" in failed["tables.untimed"]
    assert "rows of tables.other may be changed or deleted" in failed["tables.chained"]


def test_the_page(tmp_path: Path) -> None:
    page = [
        yaml.safe_load(one) for one in blocks("docs/tables.md", "yaml") if "sittings" in one or "clean_views" in one
    ]
    source = {"type": "files", "path": "./seen", "schema": "id bigint, customer bigint, country string, at timestamp"}
    project: dict[str, Any] = {"name": "shop", "sources": {"seen": source}, "topics": {"views": {"from": "seen"}}}
    project["tables"] = {name: one for part in page for name, one in part["tables"].items()}
    (tmp_path / "headwater.yml").write_text(yaml.safe_dump(project), encoding="utf-8")
    (tmp_path / "seen").mkdir()
    for file, events in enumerate([[(1, 7, "10:00"), (2, None, "12:00")], [(3, 7, "10:05")]]):
        seen = [{"id": id, "customer": who, "at": f"2026-01-01T{at}:00Z"} for id, who, at in events]
        (tmp_path / "seen" / f"{file}.json").write_text("\n".join(map(json.dumps, seen)), encoding="utf-8")
        assert headwater("run", "--once", "--project", tmp_path).code == 0
    commands = re.findall(r"^headwater dlq .* ?tables\.sittings$", (ROOT / "docs/tables.md").read_text("utf-8"), re.M)
    answers = [headwater(*line.split()[1:], "--json", "--project", tmp_path) for line in commands]
    assert [len(answers[0].json), answers[1].json[0]["came_through"]] == [1, 1]
    sql = "SELECT count(*) AS sittings, sum(n) AS events, (SELECT count(*) FROM table('clean_views')) AS clean"
    found = headwater("query", f"{sql} FROM table('sittings')", "--json", "--project", tmp_path).json
    assert found == [{"sittings": 2, "events": 3, "clean": 2}]
    (letter,) = headwater("dlq", "list", "--json", "--project", tmp_path).json
    assert (letter["topic"], letter["message"]) == ("tables.clean_views", "not met: customer_known")
