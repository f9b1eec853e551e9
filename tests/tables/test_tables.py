"""Tables through the project file and the commands: applied changes, reference tables, plan, replay, restore."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.operations.load import insert
from headwater.views.stored_table import Storage
from tests.docs.test_examples import ROOT, blocks
from tests.hints.followed import follows
from tests.support import Answer, headwater

pytestmark = pytest.mark.usefixtures("spark")

PROJECT = blocks("docs/tables.md", "yaml")[0]
COMMANDS = re.findall(r"^```\n(headwater.*?)^```", (ROOT / "docs/tables.md").read_text(encoding="utf-8"), re.M | re.S)
BY_HAND, BACK = (
    [shlex.split(line)[1:] for line in next(body for body in COMMANDS if word in body).splitlines()]
    for word in ("table load", "topic replay")
)
"""The commands of the page."""


CUT_OFF = """\
name: cut
sources: {landing: {type: files, path: ./landing}}
topics: {log: {from: landing}}
tables:
  odd: {sql: "SELECT id, v FROM stream(topic('log')) WHERE n % 2 = 1"}
views:
  counted: {sql: "SELECT gone, count(*) AS k FROM topic('log') GROUP BY gone"}
"""


class Crm:
    """A project with a table of applied changes and two reference tables."""

    def __init__(self, root: Path, project: str = PROJECT) -> None:
        self.root = root
        (root / "landing").mkdir()
        self.write(project)
        (root / "countries.csv").write_text("code,name,digits\nde,Germany,049\nfr,France,033\n", encoding="utf-8")

    def write(self, project: str) -> None:
        (self.root / "headwater.yml").write_text(project, encoding="utf-8")

    def land(self, name: str, rows: Iterable[tuple[int, int, str, bool]]) -> None:
        lines = (json.dumps(dict(zip(("id", "n", "v", "gone"), row, strict=True))) + "\n" for row in rows)
        (self.root / "landing" / f"{name}.json").write_text("".join(lines), encoding="utf-8")

    def call(self, *arguments: str | Path) -> Answer:
        answer = headwater(*arguments, "--json", "--project", self.root)
        assert "Traceback" not in answer.err + answer.out, answer.err
        return answer

    def run(self, *arguments: str) -> Answer:
        return self.call("run", *arguments, "--once")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with Lake.open(self.root) as lake:
            return sorted(tuple(row.values()) for row in lake.sql(sql).rows())

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        with Lake.open(self.root) as lake:
            return sorted(tuple(row) for row in lake.table(name).df().drop("event_date").collect())


def problem(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.err)["errors"][0]
    return found


def test_changes_are_applied_replayed_and_restored(tmp_path: Path) -> None:
    crm = Crm(tmp_path)
    created = {one["relation"]: one for one in crm.call("plan").json}
    assert {name: one["action"] for name, one in created.items()} == {
        "topics.log": "create",
        "tables.people": "create",
        "tables.countries": "create",
    }
    assert created["tables.people"]["reads"] == [{"name": "topics.log", "bytes": None}]

    crm.land("a", [(1, 1, "a", False), (2, 2, "b", False), (1, 3, "a3", False)])
    first = crm.run()
    assert first.code == 0, first.out + first.err
    flows = {flow["flow"]: flow for flow in first.events[-1]["flows"]}
    assert (flows["tables.people"]["steps"], flows["tables.people"]["rows"]) == (1, 3)
    assert crm.rows("people") == [(1, 3, "a3", False), (2, 2, "b", False)]
    assert crm.rows("countries") == [("de", "Germany", "049"), ("fr", "France", "033")]
    assert crm.call("plan").json == []

    # Late, twice, deleted: in the next run; and a run without news makes no commit.
    crm.land("b", [(2, 4, "b", True), (1, 2, "late", False), (3, 5, "c", False)])
    crm.land("c", [(2, 3, "later than the delete", False)])
    assert crm.run().code == 0
    assert crm.rows("people") == [(1, 3, "a3", False), (3, 5, "c", False)]
    with Lake.open(tmp_path) as lake:
        commit_tags = [commit.commit_tag for commit in lake.table("people").history() if commit.commit_tag]
        assert [commit_tag.step for commit_tag in commit_tags] == [1, 0]
        assert commit_tags[0].positions["topics.log"]["version"] == lake.topic("log").history(1)[0].version
        topic_version = int(commit_tags[1].positions["topics.log"]["version"])
    quiet = {flow["flow"]: flow["steps"] for flow in crm.run().events[-1]["flows"]}
    assert quiet == {"topics.log": 0, "tables.people": 0, "tables.countries": 0}
    described = crm.call("table", "describe", "people").json
    assert [column["name"] for column in described["columns"]] == ["id", "n", "v", "gone", "event_date"]
    assert [row["name"] for row in crm.call("table", "list").json] == ["countries", "people", "rates"]

    # The state of then, made from the topic; the flow waits there, and goes on when it is told.
    whole, then, asked, done = BACK
    assert then[-2:] == ["--at", str(topic_version)]
    replayed = crm.call(*then)
    assert replayed.code == 0, replayed.err
    assert (replayed.json["paused"], replayed.json["changes"]) == (True, 3)
    crm.run()
    assert crm.rows("people") == [(1, 3, "a3", False), (2, 2, "b", False)], "paused"
    crm.call("flow", "resume", "people")
    assert crm.run().code == 0
    assert crm.rows("people") == [(1, 3, "a3", False), (3, 5, "c", False)]
    before = crm.call("table", "history", "people").json
    replayed = crm.call(*whole)
    assert (replayed.json["paused"], replayed.json["changes"]) == (False, 7)
    assert crm.rows("people") == [(1, 3, "a3", False), (3, 5, "c", False)]
    assert crm.call("table", "history", "people").json[1:] == before, "it takes its place by one commit"

    # Back to a version: said first, done then; what came since is done again by a rebuild.
    said = crm.call(*asked)
    assert said.code == 2 and said.json["version"] is None
    assert "headwater flow rebuild tables.people" in said.json["consequences"][0]
    restored = crm.call(*done)
    assert restored.code == 0 and restored.json["version"] > restored.json["from_version"]
    assert crm.rows("people") == [(1, 3, "a3", False), (2, 2, "b", False)]
    wrong = crm.call("topic", "replay", "log", "--into", "countries")
    assert (wrong.code, problem(wrong)["code"]) == (2, "USAGE")
    assert crm.call("table", "drop", "people", "--yes").json == {"table": "people", "defined": True}


def test_a_topic_that_was_rebuilt_makes_its_table_anew(tmp_path: Path) -> None:
    crm = Crm(tmp_path)
    crm.land("a", [(1, 1, "a", False), (2, 2, "b", False)])
    assert crm.run("log", "people").code == 0
    (tmp_path / "landing" / "a.json").unlink()
    crm.land("b", [(3, 1, "c", False)])
    assert crm.call("flow", "rebuild", "log", "--yes").code == 0
    again = crm.run("log", "people")
    assert again.code == 0, again.out + again.err
    (retry,) = [event for event in again.events if event["event"] == "retry"]
    assert retry["code"] == "SOURCE_CHANGED" and "filled again, in epoch 2" in retry["error"]
    assert crm.rows("people") == [(3, 1, "c", False)]


def test_a_build_that_ends_right_after_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the table shows is written down when it is looked at again: its own columns stay hidden."""
    crm = Crm(tmp_path, CUT_OFF)
    crm.land("1", [(1, 1, "a", False), (2, 2, "b", False)])

    def killed(*_: object) -> None:
        raise ConnectionError("the process has ended")

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "adopt", killed)
        assert crm.run().code == 1
    crm.land("2", [(3, 3, "c", False)])
    assert crm.run().code == 0
    with Lake.open(tmp_path) as lake:
        assert sorted(map(tuple, lake.table("odd").df().collect())) == [(1, "a"), (3, "c")]
        assert lake.view("counted").df().columns == ["gone", "k"]
        assert [commit.commit_tag.step for commit in lake.table("odd").history() if commit.commit_tag is not None] == [
            1,
            0,
        ]


def test_a_changed_definition_is_refused_until_it_may_be_applied(tmp_path: Path) -> None:
    crm = Crm(tmp_path)
    crm.land("a", [(1, 1, "a", False), (1, 2, "b", False)])
    assert crm.run("log", "people").code == 0
    crm.write(PROJECT.replace("keys: [id], s", "keys: [id, n], s"))
    refused = crm.run("log", "people")
    assert (refused.code, problem(refused)["code"]) == (2, "DESTRUCTIVE_CHANGE")
    assert problem(refused)["line"] and "apply.keys" in problem(refused)["message"]
    step = next(one for one in crm.call("plan").json if one["relation"] == "tables.people")
    assert step["reads"][0]["name"] == "topics.log" and step["reads"][0]["bytes"] > 0
    assert crm.rows("people") == [(1, 2, "b", False)]
    # What is changed in place is no reason to read anything again.
    crm.write(PROJECT.replace('"gone"}', '"gone", tombstones: 1d}'))
    assert [one["action"] for one in crm.call("plan").json if one["relation"] == "tables.people"] == ["change"]
    assert {flow["flow"]: flow["steps"] for flow in crm.run("log", "people").events[-1]["flows"]} == {
        "topics.log": 0,
        "tables.people": 0,
    }
    assert [one["relation"] for one in crm.call("plan").json] == ["tables.countries"]
    crm.write(PROJECT.replace("keys: [id], s", "keys: [id, n], s"))
    assert "\nheadwater plan\nheadwater run --once --apply\n" in (ROOT / "docs/plan.md").read_text(encoding="utf-8")
    assert crm.run("log", "people", "--apply").code == 0
    assert crm.rows("people") == [(1, 1, "a", False), (1, 2, "b", False)]


@follows(
    "declare the types with `schema`, or rebuild the table: headwater flow rebuild {} --yes",
    "nothing was inserted",
    "the file's name ends in {}",
)
def test_reference_tables_are_loaded_checked_and_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crm = Crm(tmp_path)
    seed = tmp_path / "countries.csv"
    assert crm.run("countries").code == 0
    seed.write_text("code,name,digits\nde,Germany,049\nit,Italy,039\n", encoding="utf-8")
    assert crm.run("countries").code == 0
    assert crm.rows("countries") == [("de", "Germany", "049"), ("it", "Italy", "039")]
    for content, code, line, said in [
        ("code,name\nde,Germany\nfr,France\nde,Deutschland\n", "DUPLICATE_KEY", 4, "first on line 2"),
        ("code,name\nde,Germany\n,Nowhere\n", "NULL_KEY", 3, "no value for the key (code)"),
        ("code,name\nde,Germany,3\n", "INVALID_VALUE", 2, "3 values for 2 columns"),
    ]:
        seed.write_text(content, encoding="utf-8")
        answer = crm.run("countries")
        failed = next(event for event in answer.events if event["event"] == "failed")
        assert (answer.code, failed["code"]) == (1, code)
        assert f"countries.csv:{line}" in failed["error"] and said in failed["error"]
    seed.write_text("code,name,digits\nde,1,049\n", encoding="utf-8")
    failed = next(event for event in crm.run("countries").events if event["event"] == "failed")
    assert failed["code"] == "SCHEMA_MISMATCH" and "headwater.yml:10 tables.countries.seed" in failed["error"], failed
    assert "'name'" in failed["error"] and "headwater flow rebuild tables.countries --yes" in failed["error"]
    assert crm.call("flow", "rebuild", "tables.countries", "--yes").code == 0
    assert crm.rows("countries") == [("de", "Germany", "049"), ("it", "Italy", "039")], "until the other rows are there"
    assert crm.run("countries").code == 0
    assert crm.rows("countries") == [("de", 1, "049")]

    rates = tmp_path / "rates.csv"
    monkeypatch.chdir(tmp_path)
    rates.write_text("day,rate\n2026-01-01,1.5\n2026-01-02,1.25\n", encoding="utf-8")
    named = crm.call("table", "load", "rates", shutil.copy(rates, tmp_path / "rates.dat"))
    assert (named.code, problem(named)["code"]) == (2, "INVALID_VALUE") and ".csv" in problem(named)["hint"]
    assert [crm.call(*words).json["rows"] for words in BY_HAND[:2]] == [2, 2]
    rates.write_text("day,rate\n2026-01-02,2\n2026-01-03,x\n", encoding="utf-8")
    bad = crm.call("table", "load", "rates", rates)
    assert (bad.code, problem(bad)["code"], problem(bad)["line"]) == (2, "SCHEMA_MISMATCH", 3)
    with Lake.open(tmp_path) as lake:
        more = lake.spark.sql("SELECT DATE'2026-01-02' AS day, CAST(3 AS DECIMAL(9,4)) AS rate")
        assert insert(lake._warehouse, "rates", more).rows == 1
        with pytest.raises(Exception, match="NULL_KEY"):
            insert(lake._warehouse, "rates", lake.spark.sql("SELECT CAST(NULL AS DATE) AS day"))
        assert "rates" in lake._warehouse.names(Kind.TABLE)
    assert [(str(day), str(rate)) for day, rate in crm.rows("rates")] == [
        ("2026-01-01", "1.5000"),
        ("2026-01-02", "3.0000"),
    ]
    inserted = headwater(*BY_HAND[2], "--project", tmp_path)
    assert inserted.code == 0, inserted.err
    assert [(str(day), str(rate)) for day, rate in crm.rows("rates")][2:] == [("2026-01-04", "1.5000")]
    misspelt = crm.call("query", "INSERT INTO tables.rates (day, rat) VALUES (DATE'2026-01-05', 1)")
    assert (misspelt.code, problem(misspelt)["code"]) == (2, "SCHEMA_MISMATCH")
    assert "no column 'rat'" in problem(misspelt)["message"] and "'rate'" in problem(misspelt)["hint"]
    assert len(crm.rows("rates")) == 3 and len(crm.rows("rates")[0]) == 2, "no column is made of a wrong name"
    for values, says in (
        ("(day, day) VALUES (1, 2)", "the column 'day' is named twice"),
        ("VALUES ('soon', 1)", "'soon' is no date, which 'day' of tables.rates is"),
        ("VALUES (DATE'2026-01-05', 1), (DATE'2026-01-06', 1234567)", "is no decimal(9,4), which 'rate' of"),
        (
            "VALUES (DATE'2026-01-05', array(1))",
            "column 'rate' of tables.rates is decimal(9,4), and can't be given array<int>",
        ),
    ):
        unfit = crm.call("query", f"INSERT INTO tables.rates {values}")
        assert (unfit.code, problem(unfit)["code"]) == (2, "SCHEMA_MISMATCH") and says in problem(unfit)["message"]
    assert len(crm.rows("rates")) == 3, "nothing of them"
    for words in (["table", "load", "people", str(rates)], ["query", "INSERT INTO tables.people VALUES (1)"]):
        refused = crm.call(*words)
        assert (refused.code, problem(refused)["code"]) == (2, "USAGE"), words


def test_the_table_follows_its_topic_while_both_run(tmp_path: Path) -> None:
    crm = Crm(tmp_path)
    stopping, steps = threading.Event(), []

    def on_event(event: Any) -> None:
        if event.event == "step" and event.flow == "tables.people" and event.details["rows"]:
            steps.append(event)
            if len(steps) == 1:
                crm.land("b", [(1, 9, "z", False)])
            else:
                stopping.set()
        if event.event in ("failed", "retry"):
            stopping.set()

    crm.land("a", [(1, 1, "a", False)])
    with Lake.open(tmp_path) as lake:
        threading.Timer(120, stopping.set).start()
        lake.run(["log", "people"], on_event=on_event, stopping=stopping)
    assert len(steps) == 2
    assert crm.rows("people") == [(1, 9, "z", False)]
