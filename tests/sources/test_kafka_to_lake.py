"""From Kafka into the lake, by the command: every encoding into Delta and Iceberg, JSON into every format."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.services.kafka import Broker
from tests.services.schema_registry import Registry
from tests.sources.kafka_lab import framed, rows_of
from tests.sources.test_kafka_values import CHANGES, ORDER_1, ORDER_2, PROTO, avro, order_of
from tests.support import Answer, headwater

IN_FULL = ["delta", "iceberg"]
# With the type that the other one has: Delta can't widen int to long in place.
ORDER = {**ORDER_1, "fields": [{"name": "id", "type": "long"}, *ORDER_1["fields"][1:]]}
BRIEFLY = ["hudi", "paimon", "parquet"]


@dataclass(frozen=True)
class Project:
    root: Path

    def write(self, sources: dict[str, Any], topics: dict[str, Any]) -> None:
        text = yaml.safe_dump({"name": "shop", "sources": sources, "topics": topics})
        (self.root / "headwater.yml").write_text(text, encoding="utf-8")

    def run(self, *flows: str) -> Answer:
        return headwater("run", "--once", "--json", "--project", self.root, *flows)

    def query(self, sql: str) -> list[dict[str, Any]]:
        answer = headwater("query", sql, "--output", "json", "--project", self.root)
        assert answer.code == 0, answer.err
        rows: list[dict[str, Any]] = answer.json
        return rows


@pytest.fixture(scope="module")
def lake(spark: SparkSession, kafka: Broker, registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project over all of it, run twice: the second time after schemas have changed."""
    project = Project(tmp_path_factory.mktemp("shop"))
    here = {"type": "kafka", "brokers": kafka.address}
    there = {**here, "schema_registry": registry.address}
    (project.root / "order.proto").write_text(PROTO, encoding="utf-8")
    project.write(
        {
            "clicks": {**here, "topic": "lake.clicks", "columns": {"id": "id", "timestamp": "_timestamp"}},
            "orders": {**there, "topic": "lake.orders", "value": "avro", "key": "avro"},
            "sent": {
                **here,
                "topic": "lake.sent",
                "value": "protobuf",
                "schema_file": "order.proto",
                "message": "shop.Order",
            },
            "crm": {**here, "topic_pattern": r"lake\.crm\..*", "value": "debezium", "key": "debezium"},
        },
        {
            **{f"clicks_{name}": {"from": "clicks", "format": name} for name in (*IN_FULL, *BRIEFLY)},
            **{f"orders_{name}": {"from": "orders", "format": name} for name in IN_FULL},
            **{f"sent_{name}": {"from": "sent", "format": name} for name in IN_FULL},
            **{f"customers_{name}": {"from": "crm", "format": name} for name in IN_FULL},
        },
    )
    first, second = (registry.register(f"lake-{n}", json.dumps(s)) for n, s in enumerate((ORDER, ORDER_2)))
    key = registry.register("lake-key", '"string"')
    again = registry.register("lake-key-2", '"long"')
    kafka.create("lake.clicks", "lake.orders", "lake.sent", "lake.crm.a")
    kafka.send(
        "lake.clicks", [{**rows_of(id="c1", page="/a"), "key": b"k1", "headers": [("h", b"1")], "timestamp": 1000}]
    )
    note = {"value": framed(first, avro(ORDER, {"id": 1, "note": "x"})), "key": framed(key, avro("string", "k"))}
    kafka.send("lake.orders", [note])
    kafka.send("lake.sent", [{"value": order_of(id="o1", amount=3)}])
    kafka.send("lake.crm.a", [{"value": json.dumps(one).encode()} for one in CHANGES[:3]])
    answer = project.run()
    assert answer.code == 0, answer.out + answer.err

    more = {**rows_of(id="c2", page="/b", device={"os": "x"}), "partition": 1, "timestamp": 2000}
    kafka.grow("lake.clicks", 2)
    kafka.send("lake.clicks", [{"value": None, "key": b"k1"}, {"value": b"{broken"}, more])
    total = {"id": 2**40, "total": Decimal("12.50"), "at": 0}
    kafka.send(
        "lake.orders",
        [
            {"value": framed(second, avro(ORDER_2, total)), "key": framed(again, avro("long", 7))},
            {"value": framed(999_999, b"?")},
        ],
    )
    kafka.send("lake.sent", [{"value": order_of(id="o2", lines=[{"sku": "a", "count": 2}])}, {"value": b"\xff"}])
    kafka.create("lake.crm.b")
    kafka.send("lake.crm.b", [{"value": json.dumps(CHANGES[3]).encode()}, {"value": None, "key": b"{}"}])
    flows = [f"{topic}_{name}" for topic in ("clicks", "orders", "sent", "customers") for name in IN_FULL]
    answer = project.run(*flows)
    assert answer.code == 0, answer.out + answer.err
    rejected = {report["flow"].partition(".")[2]: report["rejected"] for report in answer.events[-1]["flows"]}
    assert rejected == {**dict.fromkeys(flows, 1), "customers_delta": 0, "customers_iceberg": 0}
    return project


@pytest.mark.parametrize("format", BRIEFLY)
def test_json_into_the_other_formats(lake: Project, format: str) -> None:
    columns = "event_id, page, _key, _topic_partition, _offset, size(_headers) AS headers"
    (row,) = lake.query(f"SELECT {columns} FROM topic('clicks_{format}')")
    kept = {"event_id": "c1", "page": "/a", "_key": "k1", "_topic_partition": 0, "_offset": 0, "headers": 1}
    assert {name: row[name] for name in kept} == kept


@pytest.mark.parametrize("format", IN_FULL)
def test_json_with_all_columns(lake: Project, format: str) -> None:
    columns = "event_id, cast(event_timestamp AS string) AS at, page, device.os, size(_headers) AS headers, _source"
    kept = "_key, _topic, _topic_partition, _offset"
    rows = lake.query(f"SELECT {columns}, {kept} FROM topic('clicks_{format}') ORDER BY _position")
    kafka = {"_topic": "lake.clicks", "_source": "clicks"}
    nothing = {"event_id": None, "page": None, "os": None}
    found = [{k: v for k, v in row.items() if k not in ("headers", "at")} for row in rows]
    assert found == [
        {**kafka, "event_id": "c1", "page": "/a", "os": None, "_key": "k1", "_topic_partition": 0, "_offset": 0},
        {**kafka, **nothing, "_key": "k1", "_topic_partition": 0, "_offset": 1},
        {**kafka, "event_id": "c2", "page": "/b", "os": "x", "_key": None, "_topic_partition": 1, "_offset": 0},
    ]
    assert rows[0]["headers"] == 1
    assert [row["at"] for row in (rows[0], rows[2])] == ["1970-01-01 00:00:01", "1970-01-01 00:00:02"]


@pytest.mark.parametrize("format", IN_FULL)
def test_avro_whose_schema_changed(lake: Project, format: str) -> None:
    rows = lake.query(f"SELECT id, note, total, _key FROM topic('orders_{format}') ORDER BY _position")
    assert rows == [
        {"id": 1, "note": "x", "total": None, "_key": "k"},
        {"id": 2**40, "note": None, "total": "12.50", "_key": "7"},
    ]


@pytest.mark.parametrize("format", IN_FULL)
def test_protobuf(lake: Project, format: str) -> None:
    columns = "id, amount, discount, lines[0].count AS n"
    rows = lake.query(f"SELECT {columns} FROM topic('sent_{format}') ORDER BY _position")
    assert rows == [
        {"id": "o1", "amount": 3, "discount": None, "n": None},
        {"id": "o2", "amount": 0, "discount": None, "n": 2},
    ]


@pytest.mark.parametrize("format", IN_FULL)
def test_debezium_and_a_topic_that_came_later(lake: Project, format: str) -> None:
    rows = lake.query(
        "SELECT _op, before.id AS was, after.id AS id, after.note, _unchanged[0] AS unchanged, source.lsn, _topic"
        f" FROM topic('customers_{format}') ORDER BY _position"
    )
    a, b = {"lsn": 7, "_topic": "lake.crm.a"}, {"lsn": 7, "_topic": "lake.crm.b"}
    assert rows == [
        {**a, "_op": "r", "was": None, "id": 1, "note": "long", "unchanged": None},
        {**a, "_op": "i", "was": None, "id": 2, "note": None, "unchanged": None},
        {**a, "_op": "u", "was": 1, "id": 1, "note": None, "unchanged": "note"},
        {**b, "_op": "d", "was": 2, "id": None, "note": None, "unchanged": None},
    ]


def test_records_that_are_gone(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path)
    source = {"type": "kafka", "brokers": kafka.address, "topic": "lake.gone"}
    project.write({"gone": source}, {"gone": {"from": "gone"}})
    kafka.create("lake.gone")
    kafka.send("lake.gone", [rows_of(id=0)])
    assert project.run().code == 0
    kafka.send("lake.gone", [rows_of(id=n) for n in (1, 2, 3)])
    kafka.expire("lake.gone", 0, 3)
    answer = project.run()
    assert answer.code == 1 and "DATA_LOSS" in answer.out + answer.err
    project.write({"gone": {**source, "on_data_loss": "continue"}}, {"gone": {"from": "gone"}})
    assert project.run().code == 0
    assert project.query("SELECT id FROM topic('gone') ORDER BY id") == [{"id": 0}, {"id": 3}]


def test_a_broker_that_stops(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write({"s": {"type": "kafka", "brokers": kafka.address, "topic": "lake.stop"}}, {"stop": {"from": "s"}})
    kafka.create("lake.stop")
    kafka.send("lake.stop", [rows_of(id=1)])
    assert project.run().code == 0
    kafka.send("lake.stop", [rows_of(id=2)])
    kafka.stop()
    try:
        begun = time.monotonic()
        answer = project.run()
        assert answer.code == 1 and "SOURCE_UNAVAILABLE" in answer.out + answer.err
        assert kafka.address in answer.out + answer.err
        assert time.monotonic() - begun < 30
    finally:
        kafka.start()
    assert project.run().code == 0
    assert project.query("SELECT id FROM topic('stop') ORDER BY id") == [{"id": 1}, {"id": 2}]
