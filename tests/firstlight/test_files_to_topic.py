"""A folder of JSON files becomes a topic, step by step, and is queried: through the commands alone."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.formats.registry import FORMATS
from tests.support import Shop, headwater

pytestmark = pytest.mark.usefixtures("spark")

ORDER = {"event_id": "e1", "event_type": "OrderPlaced", "event_timestamp": "2026-01-05T10:31:00+02:00", "total": 12.5}


@pytest.mark.parametrize("format", FORMATS.names())
def test_files_are_taken_in_once_in_every_format(format: str, tmp_path: Path) -> None:
    shop = Shop.make(tmp_path, format, "partition_by: [event_date]")
    shop.land("a.json", [ORDER, {**ORDER, "event_id": "e2", "lines": [{"sku": "x", "n": 1}]}])
    first = shop.run()
    assert first.code == 0, first.err
    assert [(e["rows"], e["rejected"]) for e in first.events if e["event"] == "step"] == [(2, 0)]
    assert shop.run().events[-1]["flows"][0]["steps"] == 0
    shop.land("b.json", [{**ORDER, "event_id": "e3", "coupon": {"code": "C"}}])
    assert shop.run().code == 0
    rows = shop.query(
        "SELECT event_id, event_timestamp, event_date, coupon.code AS code FROM topic('orders') ORDER BY 1"
    )
    assert rows == [
        {"event_id": f"e{n}", "event_timestamp": "2026-01-05T08:31:00Z", "event_date": "2026-01-05", "code": code}
        for n, code in ((1, None), (2, None), (3, "C"))
    ]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Shop:
    """Two steps of a topic in Delta."""
    shop = Shop.make(tmp_path_factory.mktemp("shop"), topic="description: All orders.\nkeep_raw: true")
    shop.land("1.json", [ORDER])
    assert shop.run().code == 0
    shop.land("2.json", [{**ORDER, "event_id": "e2"}, "", "{broken", '{"event_timestamp": "soon"}', "5"])
    assert shop.run().code == 0
    return shop


def test_what_cannot_be_taken_in_is_a_dead_letter(shop: Shop) -> None:
    with Lake.open(shop.root) as lake:
        dead_letters = lake.dead_letters("orders")
    assert sorted((letter.reason, letter.message.partition("; hint: ")[0]) for letter in dead_letters) == [
        ("decode", "not one JSON object"),
        ("decode", "not one JSON object"),
        ("schema", "event_timestamp can't be read as timestamp"),
    ]
    assert all(letter.position.startswith("000000000002/2.json#") for letter in dead_letters)


def test_list_and_describe(shop: Shop) -> None:
    (listed,) = headwater("topic", "list", "--project", shop.root, "--json").json
    assert (listed["name"], listed["from"], listed["format"]) == ("orders", "landing", "delta")
    described = headwater("topic", "describe", "orders", "--project", shop.root, "--json").json
    assert (described["rows"], described["description"]) == (2, "All orders.")
    types = {column["name"]: column["type"] for column in described["columns"]}
    assert types == {
        "event_id": "string",
        "event_type": "string",
        "event_timestamp": "timestamp",
        "total": "double",
        "event_date": "date",
        "_source": "string",
        "_position": "string",
        "_ingested_at": "timestamp",
        "_file_path": "string",
        "_file_modified": "timestamp",
        "_raw": "binary",
    }
    assert "OrderPlaced" not in headwater("topic", "describe", "orders", "--project", shop.root).out


def test_history_names_step_and_positions(shop: Shop) -> None:
    history = headwater("topic", "history", "orders", "--project", shop.root, "--json").json
    steps = [commit for commit in history if commit["flow"]]
    assert [(c["flow"], c["epoch"], c["step"], c["rows_added"]) for c in steps] == [
        ("topics.orders", 1, 1, 1),
        ("topics.orders", 1, 0, 1),
    ]
    assert steps[0]["positions"] == {"landing": {"batch": 2}}
    assert set(history[0]) == {
        "version", "committed_at", "operation", "rows_added", "rows_removed", "flow", "epoch", "step", "positions"
    }  # fmt: skip


def test_diff_and_time_travel(shop: Shop) -> None:
    history = headwater("topic", "history", "orders", "--project", shop.root, "--json").json
    second, first = [commit["version"] for commit in history if commit["flow"]]
    rows = headwater("topic", "diff", "orders", str(first), str(second), "--project", shop.root, "--json").json
    assert [(row["_weight"], row["event_id"]) for row in rows] == [(1, "e2")]
    assert shop.query(f"SELECT count(*) AS n FROM topic('orders') VERSION AS OF {first}") == [{"n": 1}]
    assert shop.query("SELECT count(*) AS n FROM topics.orders TIMESTAMP AS OF '2100-01-01'") == [{"n": 2}]
    assert shop.query(
        "SELECT o.event_id FROM orders o JOIN topic('orders') p USING (event_id) WHERE o.total > 1 ORDER BY 1"
    ) == [
        {"event_id": "e1"},
        {"event_id": "e2"},
    ]


@pytest.mark.parametrize(
    ("sql", "code", "said"),
    [
        ("SELECT nope FROM topic('orders')", "UNKNOWN_COLUMN", "nope"),
        ("SELECT * FROM topic('ordrs')", "UNKNOWN_REFERENCE", "did you mean 'orders'"),
        ("SELEC 1", "INVALID_SQL", "near '1'"),
        ("SELECT * FROM topic('orders') VERSION AS OF 99", "NO_SUCH_VERSION", "99"),
        ("SELECT * FROM topic('orders') TIMESTAMP AS OF 'then'", "INVALID_VALUE", "not a time"),
    ],
)
def test_a_wrong_query_is_told_in_a_line(shop: Shop, sql: str, code: str, said: str) -> None:
    answer = headwater("query", sql, "--project", shop.root)
    assert answer.code in (1, 2) and answer.out == ""
    assert f"[{code}]" in answer.err and said in answer.err and "Traceback" not in answer.err


@pytest.mark.parametrize("output", ["csv", "ndjson", "table"])
def test_other_outputs(shop: Shop, output: str) -> None:
    sql = "SELECT event_id, total, _raw IS NOT NULL AS kept FROM topic('orders') ORDER BY 1"
    answer = headwater("query", sql, "--output", output, "--project", shop.root)
    lines = [line.split() for line in answer.out.replace(",", " ").splitlines()]
    assert answer.code == 0 and len(lines) == (2 if output == "ndjson" else 3)
    assert any("e1" in cell for cell in lines[-2]) and any("e2" in cell for cell in lines[-1])


def test_odd_file_names_and_unfinished_files(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    for name in ("a [1] {x}*.json", "sub/ä %41.json", "b.json"):
        shop.land(name, [{**ORDER, "event_id": name}])
    for name in (".hidden.json", "_tmp/c.json", "d.json.tmp"):
        shop.land(name, [{**ORDER, "event_id": name}])
    assert shop.run().code == 0
    found = {row["event_id"] for row in shop.query("SELECT event_id FROM topic('orders')")}
    assert found == {"a [1] {x}*.json", "sub/ä %41.json", "b.json"}


def test_a_colliding_key_gets_a_prefix_and_a_mapped_one_its_standard_column(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path, source="columns: {id: meta.key, timestamp: at}")
    shop.land("a.json", [{"meta": {"key": 7}, "at": 1767600000123, "event_id": "mine", "event_date": "x"}])
    assert shop.run().code == 0
    (row,) = shop.query("SELECT event_id, event_timestamp, payload_event_id, payload_event_date, at FROM orders")
    assert row == {
        "event_id": "7",
        "event_timestamp": "2026-01-05T08:00:00.123000Z",
        "payload_event_id": "mine",
        "payload_event_date": "x",
        "at": 1767600000123,
    }
    shop.land("b.json", [{"meta": {"key": 8}, "event_date": "y"}])
    assert shop.run().code == 0
    assert len(shop.query("SELECT payload_event_date FROM orders WHERE payload_event_date = 'y'")) == 1


def test_continuous_takes_in_what_lands_and_stops_when_told(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    shop.land("a.json", [ORDER])
    stopping, seen = threading.Event(), threading.Semaphore(0)
    with Lake.open(tmp_path) as lake:
        worker = threading.Thread(
            target=lake.run,
            kwargs={"stopping": stopping, "on_event": lambda event: event.event == "step" and seen.release()},
        )
        worker.start()
        assert seen.acquire(timeout=60)
        shop.land("b.json", [{**ORDER, "event_id": "e2"}])
        assert seen.acquire(timeout=60)
        stopping.set()
        began = time.monotonic()
        worker.join(timeout=30)
        assert not worker.is_alive() and time.monotonic() - began < 10
    assert shop.query("SELECT count(*) AS n FROM orders") == [{"n": 2}]


def test_one_failing_flow_leaves_the_others_alone(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    project = tmp_path / "headwater.yml"
    project.write_text(
        project.read_text().replace("sources:", "sources:\n  nowhere: {type: files, path: ./nowhere}")
        + "  lost: {from: nowhere}\n"
    )
    shop.land("a.json", [ORDER])
    answer = shop.run()
    flows = {flow["flow"]: flow for flow in answer.events[-1]["flows"]}
    assert answer.code == 1 and flows["topics.orders"]["rows"] == 1
    assert "SOURCE_UNAVAILABLE" in flows["topics.lost"]["error"]
    unknown = headwater("run", "--once", "ordrs", "--project", tmp_path)
    assert unknown.code == 2 and "UNKNOWN_FLOW" in unknown.err and "'orders'" in unknown.err


def test_a_warehouse_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    project = tmp_path / "headwater.yml"
    (tmp_path / "file").write_text("not a folder")
    project.write_text(project.read_text().replace("name: shop", "name: shop\nwarehouse: ./file/lake"))
    shop.land("a.json", [ORDER])
    answer = headwater("run", "--once", "--project", tmp_path)
    assert answer.code == 1 and "WAREHOUSE_UNWRITABLE" in answer.err and str(tmp_path / "file") in answer.err


def test_a_topic_without_data_says_what_to_do(tmp_path: Path) -> None:
    Shop.make(tmp_path)
    answer = headwater("query", "SELECT * FROM topic('orders')", "--project", tmp_path)
    assert answer.code == 2 and "headwater run --once" in answer.err


def test_a_topic_whose_source_is_not_there_leaves_the_others_alone(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    project = tmp_path / "headwater.yml"
    upstream = "sources:\n  upstream: {type: table, format: delta, path: ./nowhere}"
    project.write_text(project.read_text().replace("sources:", upstream) + "  copied: {from: upstream}\n")
    shop.land("a.json", [ORDER])
    answer = shop.run()
    flows = {flow["flow"]: flow for flow in answer.events[-1]["flows"]}
    assert answer.code == 1 and "nowhere" in flows["topics.copied"]["error"]
    assert flows["topics.orders"]["rows"] == 1
