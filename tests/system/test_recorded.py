"""What a real run leaves in `system.steps`, `refreshes` and `dead_letters`; and Spark, which reads them too."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.query.spark.isolation import isolated
from tests.support import Answer, Shop, headwater

MORE = """
  strict: {from: landing, schema: {mismatch: fail}}
tables:
  customers: {from: topic('orders'), apply: {keys: [customer_id], sequence_by: _position}}
  large: {sql: "SELECT event_id, amount FROM stream(topic('orders')) WHERE amount > 1"}
views:
  totals:
    sql: SELECT customer_id, count(*) AS n, sum(amount) AS total FROM topic('orders') GROUP BY customer_id
    refresh: {policy: incremental}
"""


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Two runs: the second one has a record that one topic puts aside, and that another one fails over."""
    shop = Shop.make(
        tmp_path_factory.mktemp("recorded") / "shop",
        topic="schema: {mismatch: quarantine}",
        source='schema_hints: "amount int"',
    )
    project = shop.root / "headwater.yml"
    project.write_text(project.read_text() + MORE)
    shop.land("1.json", [{"event_id": f"1-{n}", "customer_id": n, "amount": n} for n in range(4)])
    first = shop.run()
    assert first.code == 0, first.err
    shop.land("2.json", [{"event_id": "2-1", "customer_id": 1, "amount": 5}, {"event_id": "2-x", "amount": {"no": 1}}])
    assert shop.run().code == 1
    return shop


def asked(shop: Shop, sql: str, *options: str) -> Answer:
    answer = headwater("query", sql, "--output", "json", "--project", shop.root, *options)
    assert answer.code == 0, answer.err
    return answer


def test_each_step_of_each_flow_is_there(shop: Shop) -> None:
    rows = asked(shop, "SELECT * FROM system.steps ORDER BY id").json
    committed: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["outcome"] == "committed":
            committed.setdefault(row["flow"], []).append(row)
    assert {flow: len(some) for flow, some in committed.items()} == {
        "topics.orders": 2, "topics.strict": 1, "tables.customers": 2, "tables.large": 2, "views.totals": 2,
    }  # fmt: skip
    first, second = committed["topics.orders"]
    assert (first["kind"], first["epoch"], first["step"], first["rows"], first["rejected"]) == ("topic", 1, 0, 4, 0)
    assert (second["step"], second["rows"], second["rejected"], second["recovered"]) == (1, 1, 1, False)
    assert first["bytes"] == (shop.root / "landing/1.json").stat().st_size
    assert json.loads(first["from_positions"]) == {}
    assert second["from_positions"] == first["to_positions"] != second["to_positions"]
    history = headwater("topic", "history", "orders", "--json", "--project", shop.root).json
    versions = [(commit["step"], commit["version"]) for commit in history if commit["flow"]]
    assert versions == [(1, second["version"]), (0, first["version"])]
    for row in rows:
        begun = datetime.fromisoformat(row["started_at"])
        assert begun <= datetime.now(timezone.utc) and 0 <= row["duration_ms"] < 600_000
        if row["committed_at"] is not None:
            took = datetime.fromisoformat(row["committed_at"]) - begun
            assert abs(took.total_seconds() * 1000 - row["duration_ms"]) <= 1


def test_a_step_that_failed_says_why(shop: Shop) -> None:
    rows = asked(shop, "SELECT * FROM system.steps WHERE outcome = 'failed'").json
    assert {row["flow"] for row in rows} == {"topics.strict"}
    assert rows[0]["error_code"] == "SCHEMA_MISMATCH" and "amount" in rows[0]["error"]
    assert (rows[0]["version"], rows[0]["committed_at"], rows[0]["step"]) == (None, None, 1)


def test_refreshes_are_there_with_their_reasons(shop: Shop) -> None:
    rows = asked(shop, "SELECT * FROM system.refreshes WHERE view = 'totals' ORDER BY id").json
    assert [(row["refresh_type"], row["kind"]) for row in rows] == [("full", "view"), ("incremental", "view")]
    assert rows[1]["reason"] == "the policy is incremental"
    assert (rows[1]["rows_read"], rows[1]["rows_changed"]) == (1, 1)
    marks = json.loads(rows[1]["watermarks"])
    assert marks["topics.orders"]["before"] < marks["topics.orders"]["after"]
    steps = asked(shop, "SELECT version FROM system.steps WHERE flow = 'views.totals' ORDER BY id").json
    assert [row["version"] for row in steps] == [row["version"] for row in rows]
    again = headwater("mv", "refresh", "totals", "--json", "--project", shop.root)
    assert again.json["refresh_type"] == "none"
    (last,) = asked(shop, "SELECT refresh_type, rows_changed FROM system.refreshes ORDER BY id DESC LIMIT 1").json
    assert last == {"refresh_type": "none", "rows_changed": 0}


def test_dead_letters_are_those_that_dlq_lists(shop: Shop) -> None:
    listed = headwater("dlq", "list", "--json", "--project", shop.root).json
    (row,) = asked(shop, "SELECT id, topic, reason, message, position, at FROM system.dead_letters").json
    assert [row | {"at": None}] == [one | {"at": None} for one in listed]


BY_SPARK = [
    "SELECT t.customer_id, count(s.id) AS n FROM mv('totals') t JOIN system.steps s ON s.rows >= t.customer_id"
    " AND s.flow = 'topics.orders' GROUP BY t.customer_id ORDER BY t.customer_id",
    "SELECT flow, min(started_at) AS a, max(duration_ms) AS d, max(version) AS v FROM system.steps"
    " GROUP BY flow ORDER BY flow",
    "WITH steps AS (SELECT 1 AS id) SELECT s.id FROM system.steps s JOIN steps ON s.id = steps.id",
    "SELECT id, message FROM system.dead_letters",
]


@pytest.mark.parametrize("sql", BY_SPARK)
@pytest.mark.parametrize("options", [(), ("--read-only",)], ids=["all", "read-only"])
def test_both_engines_have_the_same_rows(shop: Shop, sql: str, options: tuple[str, ...]) -> None:
    by_spark = asked(shop, sql, "--engine", "spark", *options).json
    assert by_spark == asked(shop, sql, "--engine", "duckdb", *options).json != []


def test_what_only_spark_can_answer_reads_them(shop: Shop) -> None:
    sql = (
        "SELECT c.customer_id, get_json_object(s.to_positions, '$.nothing') AS p FROM system.steps s"
        " JOIN table('customers') c ON c.customer_id = s.step WHERE s.flow = 'views.totals' ORDER BY 1"
    )
    with Lake.open(shop.root) as lake:
        found = lake.sql(sql)
        assert found.engine == "spark"
        assert found.to_dicts() == [{"customer_id": 0, "p": None}, {"customer_id": 1, "p": None}]
        assert set(found.versions) == {"tables.customers"}


def test_a_query_process_reads_them_itself(shop: Shop) -> None:
    sql = "SELECT flow, count(*) AS n FROM system.steps GROUP BY flow ORDER BY flow"
    with Lake.open(shop.root) as lake, isolated(lambda: lake.project):
        assert lake.sql(sql, engine="spark", read_only=True).to_dicts() == lake.sql(sql).to_dicts()


def test_rows_of_one_go_into_a_table(shop: Shop) -> None:
    with Lake.open(shop.root) as lake:
        frame = lake.sql("SELECT flow, rows FROM system.steps WHERE outcome = 'committed'").df()
        assert frame.count() == 9


def test_replayed_dead_letters_are_a_step_too(shop: Shop) -> None:
    done = headwater("dlq", "replay", "orders", "--json", "--project", shop.root)
    assert done.code == 0, done.err
    kinds = asked(shop, "SELECT DISTINCT kind FROM system.steps").json
    assert {"kind": "replay"} in kinds
