"""Tables of other formats follow the flows of a run, and are dropped with their relations."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.formats.base import Address
from headwater.formats.iceberg.native import IcebergNativeTable
from headwater.maintenance.holds import Holds
from tests.interop.light import by_deltalake, by_pyiceberg
from tests.runtime.running import Running
from tests.support import COLD, Shop, headwater

VIEW = """\
views:
  per_kind: {sql: "SELECT kind, count(*) AS n FROM topic('orders') GROUP BY kind", interop: [iceberg]}
"""


def shop(root: Path, topic: str = "interop: [iceberg]", more: str = VIEW) -> Shop:
    made = Shop.make(root, topic=topic, source="schema: id bigint, kind string")
    with (root / "headwater.yml").open("a") as file:
        file.write(more)
    return made


def target(root: Path, kind: str, name: str) -> list[dict[str, Any]]:
    with Lake.open(root) as lake:
        address = Address(table=f"lake.interop_{kind}.{name}")
        return by_pyiceberg(IcebergNativeTable(address, lake._warehouse.context).opened())


def test_a_run_leaves_its_targets_up_to_date(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path)
    made.land("a.json", [{"id": 1, "kind": "x"}, {"id": 2, "kind": None}])
    assert made.run().code == 0
    assert target(tmp_path, "views", "per_kind") == [{"kind": "x", "n": 1}, {"kind": None, "n": 1}]
    made.land("b.json", [{"id": 3, "kind": "x"}])
    ended = made.run()
    assert ended.code == 0
    synced = [one for one in ended.events if one["event"] == "interop"]
    assert {(one["flow"], one["error"]) for one in synced} == {("topics.orders", None), ("views.per_kind", None)}
    assert target(tmp_path, "views", "per_kind") == [{"kind": "x", "n": 2}, {"kind": None, "n": 1}]
    assert [row["id"] for row in target(tmp_path, "topics", "orders")] == [1, 2, 3]
    dropped = headwater("mv", "drop", "per_kind", "--yes", "--project", tmp_path)
    assert dropped.code == 0, dropped.err
    [left] = headwater("interop", "list", "--json", "--project", tmp_path).json
    assert left["relation"] == "topics.orders", "a target goes with its relation"


def test_a_run_whose_target_fails_says_so(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, more="")
    made.land("a.json", [{"id": 1, "kind": "x"}])
    assert made.run().code == 0
    with Lake.open(tmp_path) as lake:
        found = IcebergNativeTable(Address(table="lake.interop_topics.orders"), lake._warehouse.context).opened()
        found.delete("id = 1")
    made.land("b.json", [{"id": 2, "kind": "x"}])
    ended = made.run()
    assert ended.code == 1
    assert "TARGET_CHANGED" in ended.out
    assert len(made.query("SELECT * FROM topic('orders')")) == 2, "the flow itself has gone on"


def test_maintenance_keeps_what_a_target_names(spark: SparkSession, tmp_path: Path) -> None:
    made = shop(tmp_path, "retain: {versions: 1s}\ncompact: {small_files: 2}", "")
    for number in range(3):
        made.land(f"{number}.json", [{"id": number, "kind": "x"}])
        assert made.run().code == 0
    assert headwater("interop", "sync", "orders", "--to", "iceberg", "--project", tmp_path).code == 0
    with Lake.open(tmp_path) as lake:
        before = Holds.of(lake._warehouse).versions(Kind.TOPIC, "orders")
        for _ in range(2):
            assert not lake.maintain().failed
        assert len(lake.topic("orders").files.list()) == 1, "they were compacted"
        assert before <= Holds.of(lake._warehouse).versions(Kind.TOPIC, "orders")
    assert [row["id"] for row in target(tmp_path, "topics", "orders")] == [0, 1, 2], "its files are still there"
    assert headwater("interop", "sync", "orders", "--to", "iceberg", "--project", tmp_path).code == 0
    assert [row["id"] for row in target(tmp_path, "topics", "orders")] == [0, 1, 2]


def test_a_delta_log_among_icebergs_files_is_no_orphan(spark: SparkSession, tmp_path: Path) -> None:
    from datetime import datetime, timedelta, timezone

    made = Shop.make(tmp_path, format="iceberg", topic="interop: [delta]", source="schema: id bigint, kind string")
    made.land("a.json", [{"id": 1, "kind": "x"}])
    assert made.run().code == 0
    with Lake.open(tmp_path) as lake:
        table = lake._warehouse.existing(Kind.TOPIC, "orders")
        later = datetime.now(timezone.utc) + timedelta(days=2)
        assert table.orphans(later) == []
        [one] = lake.interop_targets()
        assert [row["id"] for row in by_deltalake(one.target.location)] == [1]


@pytest.mark.spark
def test_a_runner_syncs_after_each_commit(tmp_path: Path, runners: list[Running]) -> None:
    made = shop(tmp_path, more=f"spark: {{master: 'local[2]', conf: {COLD}}}\n")
    made.land("a.json", [{"id": 1, "kind": "x"}])
    runner = Running(tmp_path)
    runners.append(runner)
    runner.until(lambda: runner.of("interop", "topics.orders"))
    made.land("b.json", [{"id": 2, "kind": "y"}])
    runner.until(lambda: len(runner.of("interop", "topics.orders")) == 2)
    assert [one["error"] for one in runner.of("interop")] == [None, None]
    assert headwater("interop", "sync", "orders", "--json", "--project", tmp_path).json[0]["outcome"] == "unchanged"
    runner.signal(signal.SIGTERM)
    runner.process.wait(60)
    assert [row["id"] for row in target(tmp_path, "topics", "orders")] == [1, 2]
