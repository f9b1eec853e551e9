"""Streaming exports: flows that keep a copy up to date."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import Code
from tests.hints.followed import follows
from tests.support import Answer, Shop, headwater

pytestmark = pytest.mark.usefixtures("spark")

MORE = """tables:
  goods: {schema: "id bigint, name string, n int", keys: [id]}
exports:
"""


def order(number: int) -> dict[str, Any]:
    return {"event_id": f"e{number}", "event_timestamp": "2026-01-05T08:00:00Z", "amount": number}


def shop_with(root: Path, *exports: str) -> Shop:
    shop = Shop.make(root)
    with (root / "headwater.yml").open("a", encoding="utf-8") as file:
        file.write(MORE + "".join(f"  {one}\n" for one in exports))
    return shop


def failed(answer: Answer) -> list[str]:
    return [event["error"] for event in answer.events if event.get("error")]


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_rows_of_a_topic_are_appended_exactly_once(spark: SparkSession, tmp_path: Path, format: str) -> None:
    shop = shop_with(tmp_path, f"copy: {{from: topic('orders'), format: {format}, to: ./copy, mode: streaming}}")
    for number in range(3):
        shop.land(f"{number}.json", [order(number), order(number + 100)])
        ran = shop.run()
        assert ran.code == 0, ran.err + ran.out
    with Lake.open(shop.root) as lake:
        expected = {str(row["event_id"]) for row in lake.sql("SELECT event_id FROM orders").rows()}
        if format == "delta":
            found = [row.event_id for row in lake.foreign("delta", path="./copy").df().select("event_id").collect()]
        else:
            found = pq.ParquetDataset(tmp_path / "copy").read(["event_id"])["event_id"].to_pylist()
        assert sorted(found) == sorted(expected) and len(found) == 6
        status = {one.flow: one for one in lake.status()}["exports.copy"]
        assert (status.state, status.rows) == ("done", 6)
        (job,) = lake.export_jobs()
        assert (job.id, job.rows, job.state) == ("copy", 6, "stopped")
        steps = lake.sql("SELECT kind, rows FROM system.steps WHERE flow = 'exports.copy' ORDER BY id").rows()
        assert [(step["kind"], step["rows"]) for step in steps] == [("export", 2)] * 3
        assert any(hold.holder == "flow exports.copy" for hold in lake.maintain(dry_run=True).holds)
    again = shop.run("exports.copy")
    assert again.code == 0
    if format == "parquet":
        manifest = json.loads((tmp_path / "copy" / "_manifest.json").read_text())
        assert (manifest["rows"], manifest["source"]["step"]["flow"]) == (6, "exports.copy")


@pytest.mark.parametrize("format", ["delta", "iceberg", "hudi", "paimon"])
def test_updates_and_deletes_go_by_key(spark: SparkSession, tmp_path: Path, format: str) -> None:
    place = f"./copy_{format}" if format != "iceberg" else f"{tmp_path}/copy_iceberg"
    shop = shop_with(
        tmp_path,
        f"copy: {{from: mv('big'), format: {format}, to: '{place}', mode: streaming, primary_key: [name]}}",
    )
    text = (tmp_path / "headwater.yml").read_text()
    view = "views:\n  big: {sql: \"SELECT name, sum(n) AS n FROM table('goods') GROUP BY name HAVING sum(n) > 10\"}\n"
    (tmp_path / "headwater.yml").write_text(text + view)

    def copied() -> dict[str, int]:
        ran = shop.run()
        assert ran.code == 0, ran.err + ran.out
        with Lake.open(tmp_path) as lake:
            rows = lake.foreign(format, path=place).df().select("name", "n").collect()
            want = {row["name"]: row["n"] for row in lake.sql("SELECT name, n FROM mv('big')").rows()}
        found = {row.name: row.n for row in map(_named, rows)}
        assert found == want
        return found

    headwater("query", "INSERT INTO goods VALUES (1, 'a', 20), (2, 'b', 30), (3, 'c', 40)", "--project", tmp_path)
    assert copied() == {"a": 20, "b": 30, "c": 40}
    headwater("query", "INSERT INTO goods VALUES (1, 'a', 25), (2, 'b', 1), (4, 'd', 50)", "--project", tmp_path)
    assert copied() == {"a": 25, "c": 40, "d": 50}


def _named(row: Any) -> Any:
    return type("Named", (), {"name": row["name"], "n": row["n"]})


def test_somebody_else_writes_to_the_target(spark: SparkSession, tmp_path: Path) -> None:
    shop = shop_with(tmp_path, "copy: {from: topic('orders'), format: delta, to: ./copy, mode: streaming}")
    shop.land("0.json", [order(0)])
    assert shop.run().code == 0
    with Lake.open(tmp_path) as lake:
        lake.spark.read.format("delta").load(str(tmp_path / "copy")).write.format("delta").mode("append").save(
            str(tmp_path / "copy")
        )
    shop.land("1.json", [order(1)])
    ran = shop.run()
    assert ran.code == 1
    with Lake.open(tmp_path) as lake:
        status = {one.flow: one for one in lake.status()}["exports.copy"]
        assert status.error is not None and "EXPORT_CHANGED" in status.error


@follows("name the columns that tell its rows apart: `primary_key`", here=False)
def test_what_a_copy_can_not_follow_is_refused_by_check(tmp_path: Path) -> None:
    shop_with(
        tmp_path,
        "a: {from: table('goods'), format: delta, to: ./a, mode: streaming}",
        "b: {from: topic('orders'), format: csv, to: ./b, mode: streaming, primary_key: [event_id]}",
        'c: {from: "SELECT 1 AS x", format: delta, to: ./c, mode: streaming}',
        "d: {from: topic('orders'), format: delta, to: 'rest://x/y/z'}",
        "e: {from: topic('orders'), format: iceberg, to: 'rest://x/y/z'}",
    )
    found = headwater("check", "--json", "--project", tmp_path).json["problems"]
    assert [(one["path"], one["code"]) for one in found] == [
        ("exports.a.mode", "UNSUPPORTED"),
        ("exports.b.primary_key", "UNSUPPORTED"),
        ("exports.c.from", "UNSUPPORTED"),
        ("exports.d.to", "UNSUPPORTED"),
        ("exports.e.to", "UNKNOWN_REFERENCE"),
    ]
    assert "primary_key" in found[0]["hint"]


def test_a_key_that_is_not_unique(spark: SparkSession, tmp_path: Path) -> None:
    shop = shop_with(
        tmp_path, "copy: {from: topic('orders'), format: delta, to: ./copy, mode: streaming, primary_key: [amount]}"
    )
    shop.land("0.json", [order(0), {**order(0), "event_id": "other"}])
    assert shop.run().code == 1
    with Lake.open(tmp_path) as lake:
        status = {one.flow: one for one in lake.status()}["exports.copy"]
        assert status.error is not None and str(Code.DUPLICATE_KEY) in status.error
    assert not (tmp_path / "copy").exists()


def test_forget_reaches_the_copies(spark: SparkSession, tmp_path: Path) -> None:
    shop = shop_with(
        tmp_path,
        "keyed: {from: topic('orders'), format: delta, to: ./keyed, mode: streaming, primary_key: [event_id]}",
        "files: {from: topic('orders'), format: parquet, to: ./files, mode: streaming}",
    )
    shop.land("0.json", [order(number) for number in range(4)])
    assert shop.run().code == 0
    with Lake.open(tmp_path) as lake:
        lake.export("orders", format="csv", to="./once", columns=["event_id"])
        receipt = lake.topic("orders").forget("event_id = 'e2'")
        assert {(one.destination.rpartition("/")[2], one.outcome) for one in receipt.exports} == {
            ("keyed", "rows deleted"),
            ("files", "copied again"),
            ("once", "left as it is"),
        }
        left = ["e0", "e1", "e3"]
        rows = lake.foreign("delta", path="./keyed").df().select("event_id").collect()
        assert sorted(row.event_id for row in rows) == left
        assert sorted(pq.ParquetDataset(tmp_path / "files").read(["event_id"])["event_id"].to_pylist()) == left
    shop.land("1.json", [order(7)])
    assert shop.run().code == 0
    assert pq.ParquetDataset(tmp_path / "files").read().num_rows == 4


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from headwater.api.lake import Lake
place, pattern = Path(sys.argv[2]), sys.argv[3]
def watch():
    while not list(place.glob(pattern)):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
with Lake.open(sys.argv[1]) as lake:
    lake.run(["exports.copy"], once=True)
"""


@pytest.mark.parametrize(
    ("format", "pattern"),
    [
        ("parquet", "_staging-*/part-*"),
        pytest.param("parquet", "_staging-*/_moves.json", marks=pytest.mark.full),
        pytest.param("delta", "_delta_log/*1.json", marks=pytest.mark.full),
    ],
)
def test_a_stream_that_is_killed_goes_on_exactly_once(
    spark: SparkSession, tmp_path: Path, format: str, pattern: str
) -> None:
    shop = shop_with(tmp_path, f"copy: {{from: topic('orders'), format: {format}, to: ./copy, mode: streaming}}")
    shop.land("0.json", [order(0), order(1)])
    assert shop.run().code == 0
    shop.land("1.json", [order(2), order(3)])
    assert shop.run("topics.orders").code == 0
    arguments = [sys.executable, "-c", KILLED, str(tmp_path), str(tmp_path / "copy"), pattern]
    killed = subprocess.run(arguments, capture_output=True, text=True, timeout=200)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert shop.run().code == 0
    with Lake.open(tmp_path) as lake:
        if format == "delta":
            found = [row.event_id for row in lake.foreign("delta", path="./copy").df().select("event_id").collect()]
        else:
            found = pq.ParquetDataset(tmp_path / "copy").read(["event_id"])["event_id"].to_pylist()
    assert sorted(found) == ["e0", "e1", "e2", "e3"]
