"""A project on Kafka to begin with, run against real brokers as its README says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.sources.kafka import discovery
from tests.firstlight.test_beginnings import run_readme
from tests.hints.followed import follows
from tests.services.kafka import Broker
from tests.support import headwater


def test_the_template(kafka: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert headwater("init", "--template", "kafka", tmp_path).code == 0
    lines = (tmp_path / "sample" / "clicks.ndjson").read_bytes().splitlines()
    kafka.create("clicks")
    kafka.send("clicks", [{"value": line} for line in lines])
    monkeypatch.setenv("KAFKA", kafka.address)
    run_readme(tmp_path)
    query = "SELECT sum(views) AS n FROM mv('views_per_hour')"
    (found,) = headwater("query", query, "--output", "json", "--project", tmp_path).json
    by_people = {line for line in lines if b'"robot": false' in line}
    assert found["n"] == len(by_people) < len(lines) - 1


@follows(
    "write {}; there are: {}",
    "send one, or begin with a project that has some: headwater init --template kafka DIR",
    "write {}",
    "name the registry that has it: --from '{}?registry=http://registry:8081'",
)
def test_a_topic_that_is_there(
    kafka: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create("beginning.orders", partitions=2)
    nowhere = headwater("init", "--from", "kafka:///beginning.orders", tmp_path / "x")
    assert nowhere.code == 2 and "write kafka://broker:9092/topic" in nowhere.err
    nothing = headwater("init", "--from", f"kafka://{kafka.address}", tmp_path / "x")
    assert nothing.code == 2 and "there is no topic ''" in nothing.err and "beginning.orders" in nothing.err
    misspelt = headwater("init", "--from", f"kafka://{kafka.address}/beginning.order", tmp_path / "x")
    assert misspelt.code == 2 and "did you mean 'beginning.orders'?" in misspelt.err
    address = f"kafka://{kafka.address}/beginning.orders"
    empty = headwater("init", "--from", address, tmp_path / "x")
    assert empty.code == 2 and "has no records to look at" in empty.err and not (tmp_path / "x").exists()
    kafka.create("beginning.avro")
    kafka.send("beginning.avro", [{"value": b"\x00\x00\x00\x00\x07\x02ab"}])
    framed = headwater("init", "--from", f"kafka://{kafka.address}/beginning.avro", tmp_path / "x")
    assert framed.code == 2 and "begin with the number of a schema" in framed.err
    told = discovery.discover(f"kafka://{kafka.address}/beginning.avro?registry=http://registry:8081")
    assert told is not None and told.keys["value"] == "avro"
    assert told.keys["schema_registry"] == "http://registry:8081"
    orders = [{"no": n, "at": f"2026-11-0{n}T08:00:00Z", "city": "ab"[n % 2], "total": n + 0.5} for n in range(1, 7)]
    kafka.send("beginning.orders", [{"value": json.dumps(one).encode(), "partition": one["no"] % 2} for one in orders])
    made = headwater("init", "--from", address, tmp_path / "x", "--json")
    assert made.code == 0, made.err
    assert {one["name"]: one["type"] for one in made.json["columns"]} == {
        "no": "bigint",
        "at": "string",
        "city": "string",
        "total": "double",
    }
    text = (tmp_path / "x" / "headwater.yml").read_text(encoding="utf-8")
    assert "brokers: ${KAFKA:-" + kafka.address + "}" in text and "value: json     # 6 of the first 6 values" in text
    assert "at timestamp," in text and "total decimal(12,2)" in text
    run_readme(tmp_path / "x")
    rows = headwater("query", "SELECT * FROM mv('orders_by_city') ORDER BY city", "--json", "--project", tmp_path / "x")
    assert [(row["city"], row["records"], row["total"]) for row in rows.json] == [
        ("a", 3, "13.50"),
        ("b", 3, "10.50"),
    ]
