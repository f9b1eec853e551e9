"""Commands that only look something up start no JVM; the lake that they look at is made once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.formats.registry import FORMATS
from headwater.operations.views import explain_view
from tests.support import Answer, Shop, headwater
from tests.tiers import TRAP, Trap

MORE = """
tables:
  customers: {format: FORMAT, from: topic('orders'), apply: {keys: [customer_id], sequence_by: _position}}
views:
  totals:
    format: FORMAT
    sql: SELECT customer_id, count(*) AS n, sum(amount) AS total FROM topic('orders') GROUP BY customer_id
"""


@dataclass(frozen=True)
class Looked:
    """A shop that commands look at while Java is a trap."""

    shop: Shop
    trap: Trap

    def run(self, *command: str) -> Answer:
        """The answer; a Java that was started fails the test."""
        with self.trap.set():
            answer = headwater(*command, "--project", self.shop.root)
        assert not self.trap.sprung(), answer.err
        return answer


@pytest.fixture(scope="module", params=FORMATS.names())
def looked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Looked:
    """A topic with two commits and a dead letter, a table and a view of it, all up to date."""
    shop = Shop.make(
        tmp_path_factory.mktemp("looked") / "shop",
        request.param,
        topic="schema: {mismatch: quarantine}",
        source='schema_hints: "amount int"',
    )
    project = shop.root / "headwater.yml"
    kept = "delta" if request.param == "parquet" else request.param  # files of plain Parquet are only ever added to
    project.write_text(project.read_text() + MORE.replace("FORMAT", kept))
    for day in (1, 2):
        rows = [{"event_id": f"{day}-{n}", "customer_id": n, "amount": n} for n in range(4)]
        shop.land(f"{day}.json", [*rows, {"event_id": f"{day}-x", "customer_id": 9, "amount": {"no": "number"}}])
        done = shop.run()
        assert done.code == 0, done.err
    return Looked(shop, request.config.stash[TRAP])


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "topic list",
        "topic describe orders",
        "topic history orders",
        "topic tail orders -n 1",
        "topic tag orders",
        "table describe customers",
        "table history customers",
        "dlq list",
        "parquet schema orders",
        "parquet schema orders --as parquet",
        "parquet schema views.totals --as json-schema",
        "parquet stats orders",
        "parquet stats orders --files",
        "mv list",
        "mv history totals",
        "mv describe totals",
        "mv explain totals",
    ],
)
def test_a_look_starts_no_jvm(looked: Looked, command: str) -> None:
    done = looked.run(*command.split(), "--json")
    assert done.code == 0, done.err
    assert done.out


def test_versions_are_compared_and_named(looked: Looked) -> None:
    history = looked.run("topic", "history", "orders", "--json").json[::-1]
    first, last = (commit["version"] for commit in history if commit["flow"] == "topics.orders")
    assert looked.run("topic", "tag", "orders", "first", "--version", str(first), "--json").code == 0
    new = looked.run("topic", "diff", "orders", "first", "--json").json
    assert sorted(row["event_id"] for row in new) == [f"2-{n}" for n in range(4)]
    assert looked.run("topic", "diff", "orders", str(first), str(last), "--summary", "--json").code == 0
    versions = [commit["version"] for commit in looked.run("table", "history", "customers", "--json").json]
    assert looked.run("table", "diff", "customers", str(versions[-1]), str(versions[0]), "--json").code == 0


def test_a_run_that_finds_nothing_new(looked: Looked) -> None:
    done = looked.run("run", "--once", "--json")
    assert done.code == 0, done.err
    (summary,) = (event for event in done.events if event["event"] == "done")
    states = {flow["flow"]: (flow["state"], flow["steps"]) for flow in summary["flows"]}
    flows = ("topics.orders", "tables.customers", "views.totals")
    assert states == dict.fromkeys(flows, ("done", 0))
    listed = looked.run("status", "--json").json
    assert {flow["flow"]: flow["rows"] for flow in listed}["topics.orders"] == 8


def test_a_dead_letter_is_shown_with_its_bytes(looked: Looked) -> None:
    letters = looked.run("dlq", "list", "--json").json
    assert [letter["reason"] for letter in letters] == ["schema", "schema"]
    shown = looked.run("dlq", "show", letters[0]["id"], "--json").json
    assert '"no"' in shown["raw"]


def test_a_refresh_that_finds_nothing_new(looked: Looked) -> None:
    done = looked.run("mv", "refresh", "totals", "--json").json
    assert (done["refresh_type"], done["reason"]) == ("none", "nothing is new")
    assert done["watermarks"]["topics.orders"]["after"] is not None
    assert looked.run("mv", "describe", "totals", "--json").json["refreshes"][0]["refresh_type"] == "none"


def test_views_are_told_as_spark_tells_them(looked: Looked) -> None:
    told = looked.run("mv", "explain", "totals", "--json").json
    with Lake.open(looked.shop.root) as lake:
        assert explain_view(lake._warehouse, "totals").to_dict()["next"] == told["next"] == "nothing is new"
        assert json.loads(json.dumps(explain_view(lake._warehouse, "totals").to_dict())) == told


def test_a_view_over_nothing_is_told_at_once(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shop = Shop.make(tmp_path / "shop")
    project = shop.root / "headwater.yml"
    project.write_text(project.read_text() + MORE.replace("FORMAT", "delta"))
    told = Looked(shop, request.config.stash[TRAP]).run("mv", "explain", "totals")
    assert told.code == 2 and "topic 'orders' has no data yet; run it first: headwater run --once" in told.err
