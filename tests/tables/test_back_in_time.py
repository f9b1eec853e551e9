"""Tables rebuilt from the ledger of events, set back, and laid out otherwise: nothing else is touched."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from headwater.api.lake import Lake
from headwater.core.model import Kind
from tests.scale import in_formats
from tests.support import Answer, headwater

pytestmark = pytest.mark.usefixtures("spark")

PROJECT = """\
name: shop
format: delta
code: shop.py
sources: {landing: {type: files, path: ./landing, schema: "id bigint, n bigint, kind string"}}
topics: {events: {from: landing}}
tables:
  latest: {from: topic('events'), apply: {keys: [id], sequence_by: n, delete_when: "kind = 'gone'"}, PARTITION}
  totals: {sql: "SELECT kind, count(*) AS k, sum(n) AS total FROM stream(topic('events')) GROUP BY 1", expect: EXPECT}
  doubled: {transform: doubled}
  titles: {sql: "SELECT DISTINCT e.id FROM table('latest') e"}
views:
  per_kind: {sql: "SELECT kind, count(*) AS k FROM table('latest') GROUP BY kind", description: DESCRIPTION}
"""
CODE = """\
from headwater import transform


@transform
def doubled(events):
    return events.selectExpr("id", "n * 2 AS twice")
"""


class Shop:
    def __init__(self, root: Path, format: str = "delta") -> None:
        self.root = root
        (root / "landing").mkdir()
        (root / "shop.py").write_text(CODE, encoding="utf-8")
        self.write(format, "kind")

    def write(self, format: str, partition: str, description: str = "By kind.") -> None:
        text = PROJECT.replace("PARTITION", f"partition_by: [{partition}]").replace(
            "format: delta", f"format: {format}"
        )
        text = text.replace("EXPECT", '{known: {check: "kind IS NOT NULL"}}').replace("DESCRIPTION", description)
        (self.root / "headwater.yml").write_text(text, encoding="utf-8")

    def call(self, *words: str | int) -> Answer:
        return headwater(*map(str, words), "--json", "--project", self.root)

    def fed(self, file: str, *rows: tuple[int, int, str]) -> None:
        lines = [json.dumps(dict(zip(("id", "n", "kind"), row, strict=True))) + "\n" for row in rows]
        (self.root / "landing" / f"{file}.json").write_text("".join(lines), encoding="utf-8")
        self.run()

    def run(self, *more: str) -> None:
        ran = self.call("run", "--once", *more)
        assert ran.code == 0, ran.out + ran.err

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found = self.call("query", sql)
        assert found.code == 0, found.err
        return sorted((tuple(row.values()) for row in found.json), key=repr)

    def history(self, kind: str, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call(kind, "history", name).json
        return found


LATEST = "SELECT id, n, kind FROM table('latest')"
TOTALS = "SELECT kind, k, total FROM table('totals')"
DOUBLED = "SELECT id, twice FROM table('doubled')"


def test_a_topic_is_replayed_into_what_it_makes(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.fed("1", (1, 1, "a"), (2, 2, "b"))
    then = {"latest": shop.rows(LATEST), "totals": shop.rows(TOTALS), "doubled": shop.rows(DOUBLED)}
    first = shop.history("topic", "events")[0]
    shop.fed("2", (1, 3, "b"), (2, 4, "gone"), (3, 5, "a"))
    now = {"latest": shop.rows(LATEST), "totals": shop.rows(TOTALS), "doubled": shop.rows(DOUBLED)}
    assert now["latest"] == [(1, 3, "b"), (3, 5, "a")] and now["totals"] == [("a", 2, 6), ("b", 2, 5), ("gone", 1, 4)]
    topic = shop.history("topic", "events")
    second = topic[0]
    asked = {"latest": LATEST, "totals": TOTALS, "doubled": DOUBLED}
    until = {"latest": ["--until", first["committed_at"]], "totals": ["--at", first["version"]]}
    until["doubled"] = ["--until", first["committed_at"]]
    before = shop.history("table", "totals")
    whole = shop.call("topic", "replay", "events", "--into", "totals")
    assert whole.code == 0, whole.err
    assert (whole.json["changes"], whole.json["topic_version"], whole.json["paused"]) == (5, second["version"], False)
    assert shop.rows(TOTALS) == now["totals"], "the same events make the same rows"
    assert shop.history("table", "totals")[1:] == before, "in its place by one commit"
    for name, words in until.items():
        back = shop.call("topic", "replay", "events", "--into", name, *words)
        assert back.code == 0, back.err
        assert (back.json["changes"], back.json["paused"]) == (2, True)
    at = shop.rows(f"{TOTALS} VERSION AS OF {before[0]['version']}")
    assert at == now["totals"], "what it was before is a version of it"
    shop.run()
    assert {name: shop.rows(sql) for name, sql in asked.items()} == then, "paused"
    for name in asked:
        assert shop.call("flow", "resume", name).code == 0
    shop.fed("3", (4, 6, "c"))
    assert shop.rows(LATEST) == [(1, 3, "b"), (3, 5, "a"), (4, 6, "c")]
    assert shop.rows(TOTALS) == [*now["totals"][:2], ("c", 1, 6), now["totals"][2]], "it goes on from there"
    assert shop.rows(DOUBLED) == sorted([*now["doubled"], (4, 12)], key=repr)
    assert shop.history("topic", "events")[1:] == topic, "the topic was only read"
    refused = shop.call("topic", "replay", "events", "--into", "titles")
    assert refused.code == 2 and "headwater flow rebuild tables.titles" in refused.err

    # A restore says first what becomes of those that read the table; then they follow it.
    assert shop.rows("SELECT kind, k FROM mv('per_kind')") == [("a", 1), ("b", 1), ("c", 1)]
    version = shop.history("table", "latest")[-1]["version"]
    for one in shop.history("table", "latest"):
        if one["epoch"] == 1 and one["step"] == 0:
            version = one["version"]
    said = shop.call("table", "restore", "latest", "--version", version)
    assert said.code == 2 and said.json["version"] is None
    told = "\n".join(said.json["consequences"])
    assert "views.per_kind reads it: its next refresh" in told and "tables.titles reads it: its flow" in told
    assert shop.rows(LATEST) == [(1, 3, "b"), (3, 5, "a"), (4, 6, "c")], "only said"
    assert shop.call("table", "restore", "latest", "--version", version, "--yes").code == 0
    assert shop.rows(LATEST) == then["latest"]
    shop.run()
    assert shop.rows("SELECT kind, k FROM mv('per_kind')") == [("a", 1), ("b", 1)]
    assert shop.rows("SELECT id FROM table('titles')") == [(1,), (2,)]


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_who_reads_during_a_replay_sees_the_table_before_or_after_it(tmp_path: Path, format: str) -> None:
    shop = Shop(tmp_path, format)
    shop.fed("1", (1, 1, "a"), (2, 2, "b"))
    first = shop.history("topic", "events")[0]["version"]
    shop.fed("2", (1, 3, "b"), (2, 4, "gone"), (3, 5, "a"))
    asked = {"latest": LATEST, "totals": TOTALS}
    seen: dict[str, list[list[Any]]] = {name: [] for name in asked}
    over = threading.Event()

    def read() -> None:
        with Lake.open(tmp_path) as lake:
            last = False
            while not last:
                last = over.is_set()
                for name, sql in asked.items():
                    found = lake.sql(sql, engine="duckdb")
                    seen[name].append(sorted(map(tuple, (row.values() for row in found.rows()))))

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        try:
            for name in asked:
                assert shop.call("topic", "replay", "events", "--into", name, "--at", first).code == 0
        finally:
            over.set()
        reading.result(60)
    assert {name: [state for state, _ in groupby(states)] for name, states in seen.items()} == {
        "latest": [[(1, 3, "b"), (3, 5, "a")], [(1, 1, "a"), (2, 2, "b")]],
        "totals": [[("a", 2, 6), ("b", 2, 5), ("gone", 1, 4)], [("a", 1, 1), ("b", 1, 2)]],
    }
    assert min(map(len, seen.values())) > 5, "it read all the while"


@pytest.mark.parametrize("format", in_formats("iceberg", full=["delta"]))
def test_a_changed_partitioning(tmp_path: Path, format: str) -> None:
    shop = Shop(tmp_path, format)
    shop.fed("1", (1, 1, "a"), (2, 2, "b"))
    before = shop.history("table", "latest")
    shop.write(format, "id", "How many of each kind.")
    step, view = shop.call("plan").json
    assert (step["relation"], view["relation"]) == ("tables.latest", "views.per_kind")
    assert view["action"] == "change" and "nothing has to be done" in view["why"][0]
    if format == "iceberg":
        assert (step["action"], step["needs_apply"], step["reads"]) == ("change", False, [])
        ran = shop.call("run", "--once")
        assert {flow["steps"] for flow in ran.events[-1]["flows"]} == {0}, "nothing is read for that"
        shop.fed("2", (1, 3, "c"), (3, 4, "a"))
        assert shop.history("table", "latest")[1:] == before, "one step more, nothing else"
    else:
        assert (step["action"], step["needs_apply"]) == ("rebuild", True)
        assert step["reads"][0]["name"] == "topics.events" and 0 < step["reads"][0]["bytes"] < 100_000
        assert "Delta Lake can't change the partitioning in place" in step["why"][0]
        assert re.search(r"after that .*tables\.titles.*, made from it, are brought up", step["why"][1]), step
        shown = headwater("plan", "--project", tmp_path)
        assert "tables.latest: only `headwater run --apply` does that" in shown.err
        refused = shop.call("run", "--once")
        assert refused.code == 2 and "DESTRUCTIVE_CHANGE" in refused.err and "headwater.yml" in refused.err
        shop.run("--apply")
        shop.fed("2", (1, 3, "c"), (3, 4, "a"))
    assert shop.call("plan").json == []
    assert shop.rows(LATEST) == [(1, 3, "c"), (2, 2, "b"), (3, 4, "a")]
    assert shop.rows("SELECT kind, k FROM mv('per_kind')") == [("a", 1), ("b", 1), ("c", 1)]
    with Lake.open(tmp_path) as lake:
        assert lake._warehouse.table(Kind.TABLE, "latest").layout().partition_by == ("id",)
