"""Copies in Kafka: what a consumer with `read_committed` finds after snapshots, steps, kills and late writers."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Code, HeadwaterError, Where
from headwater.core.model import CommitTag
from headwater.core.spec.base import placed
from headwater.sources.base import SourceSpec
from headwater.sources.kafka.config import KafkaSource
from tests.exports.databases import FLOW, Copy
from tests.exports.rows import change, goods
from tests.hints.followed import follows
from tests.services.kafka import Broker
from tests.services.schema_registry import Registry


def cluster(broker: Broker, **settings: Any) -> dict[str, SourceSpec]:
    spec = {"type": "kafka", "brokers": broker.address, "topic": "unread", **settings}
    return {"out": placed(KafkaSource.model_validate(spec), "out", Where("headwater.yml"))}


@pytest.fixture
def topic(kafka: Broker) -> str:
    name = f"orders_{uuid4().hex[:8]}"
    kafka.create(name, partitions=2)
    return name


@pytest.fixture
def copy(spark: SparkSession, tmp_path: Path, kafka: Broker, topic: str) -> Iterator[Copy]:
    keys = {"format": "kafka", "to": f"kafka://out/{topic}", "primary_key": ["id"], "if_exists": "append"}
    made = Copy(spark, tmp_path, keys, cluster(kafka))
    yield made
    made.close()


def messages(broker: Broker, topic: str, *, level: str = "read_committed") -> list[Any]:
    """Everything that is visible, in the order of its partition."""
    settings = {"isolation.level": level, "group.id": uuid4().hex, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": broker.address, "auto.offset.reset": "earliest", **settings})
    partitions = [TopicPartition(topic, number, 0) for number in range(2)]
    consumer.assign(partitions)
    found, ended = [], 0
    while ended < len(partitions):
        message = consumer.poll(20)
        assert message is not None, "the broker does not answer"
        if message.error() is None:
            found.append(message)
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended += 1
    consumer.close()
    return found


def state(broker: Broker, topic: str) -> dict[int, Any]:
    """The latest value of each key, as a reader of the whole topic has it."""
    latest = {json.loads(one.key())["id"]: one.value() for one in messages(broker, topic)}
    return {key: json.loads(value) for key, value in sorted(latest.items()) if value is not None}


def test_a_snapshot_is_json_that_is_read_back_before_it_is_seen(
    copy: Copy, spark: SparkSession, kafka: Broker, topic: str
) -> None:
    (found,) = copy.snapshot(goods(spark))
    assert found.reader.startswith("librdkafka ")
    assert found.rows == 6
    seen = messages(kafka, topic)
    values = {json.loads(one.key())["id"]: json.loads(one.value()) for one in seen}
    assert values[1] == {
        "id": 1, "name": "Ada", "price": 10.50, "big": 123456789012345678.1234, "ratio": 0.1, "small": 1.5,
        "flag": True, "n": 7, "day": "2024-02-29", "at": "2024-05-01T12:34:56.789012Z", "tags": ["a", None, ""],
        "place": {"city": "Bern", "zip": 3000}, "counts": {"x": 1, "y": None},
    }  # fmt: skip
    assert b'"big":123456789012345678.1234' in next(one.value() for one in seen if one.key() == b'{"id":1}')
    (header,) = {value for one in seen for name, value in one.headers() if name == "headwater"}
    assert json.loads(header) == {"source": "tables.orders", "versions": {"tables.orders": 7}, "run": "run-1"}
    assert copy.open().visible() == json.loads(header)
    assert copy.open().exists()


def test_a_snapshot_that_fails_is_never_seen(copy: Copy, spark: SparkSession, kafka: Broker, topic: str) -> None:
    target = copy.open()
    rows = spark.sql("SELECT 1 AS id, 'a' AS name")
    from headwater.targets.base import SourceState

    target.stage(rows, SourceState("tables.orders", {}, "run-2"))
    assert messages(kafka, topic) == []
    target.discard()
    assert messages(kafka, topic) == []
    assert copy.open().visible() == {}


def test_steps_update_and_delete_and_are_taken_once(copy: Copy, spark: SparkSession, kafka: Broker, topic: str) -> None:
    copy.step(change(spark, "(1, 1.50, 'a', false), (2, 2.50, 'b', false)"), 0)
    second = change(spark, "(1, 9.50, 'A', false), (2, NULL, NULL, true), (3, 3.50, 'c', false)")
    copy.step(second, 1)
    assert state(kafka, topic) == {
        1: {"id": 1, "total": 9.5, "note": "A"},
        3: {"id": 3, "total": 3.5, "note": "c"},
    }
    assert copy.step(second, 1) is None
    copy.open().apply(second, CommitTag(FLOW, 1, 1, {}), first=False)
    assert len(messages(kafka, topic)) == 5
    assert copy.open().visible() == {"orders": 1}
    told = [json.loads(dict(one.headers())["headwater"]) for one in messages(kafka, topic)]
    assert {(one["flow"], one["step"], one["source"]["orders"]) for one in told} == {(FLOW, 0, 0), (FLOW, 1, 1)}
    target = copy.open()
    assert target.landed(CommitTag(FLOW, 1, 1, {}))
    assert not target.landed(CommitTag(FLOW, 1, 2, {}))


def test_a_late_writer_is_shut_out(copy: Copy, spark: SparkSession, kafka: Broker, topic: str) -> None:
    late = copy.open()
    assert not late.landed(CommitTag(FLOW, 1, 0, {}))
    step = change(spark, "(1, 1.50, 'a', false)")
    copy.step(step, 0)
    with pytest.raises(HeadwaterError) as fenced:
        late.apply(step, CommitTag(FLOW, 1, 0, {}), first=True)
    assert fenced.value.code is Code.LEASE_LOST
    assert len(messages(kafka, topic)) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from headwater.core.errors import Where
from headwater.core.spec.base import placed
from headwater.sources.kafka.config import KafkaSource
from headwater.targets.kafka.address import parse_address
from headwater.targets.kafka.clients import Clients
from headwater.targets.kafka.positions import TOPIC, TopicPosition, prepare
from headwater.targets.kafka.transactions import Transactions
brokers, topic, flow, when = sys.argv[1:]
spec = KafkaSource.model_validate({"type": "kafka", "brokers": brokers, "topic": "unread"})
clients = Clients(parse_address(f"kafka://out/{topic}", {"out": placed(spec, "out", Where("x"))}), ".")
prepare(clients)
producer = Transactions(clients, f"headwater-{flow}-{topic}", 120)
producer.begin()
batch = pa.record_batch([pa.array([b'{"id":1}', b'{"id":2}']), pa.array([b'{"id":1}', b'{"id":2}'])], ["key", "value"])
producer.send(topic, [batch], [])
position = TopicPosition(flow, topic, 1, 0, {"orders": 0})
producer.note(TOPIC, position.key, position.value())
producer.flush()
if when == "after":
    producer.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_is_killed_leaves_its_step_whole_or_not_at_all(
    copy: Copy, spark: SparkSession, kafka: Broker, topic: str, when: str
) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, kafka.address, topic, FLOW, when], timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(messages(kafka, topic, level="read_uncommitted")) == 2
    copy.step(change(spark, "(1, 1.50, 'a', false), (2, 2.50, 'b', false)"), 0)
    seen = sorted(one.key() for one in messages(kafka, topic))
    assert seen == [b'{"id":1}', b'{"id":2}']


def test_the_position_is_found_behind_those_of_others(
    copy: Copy, spark: SparkSession, kafka: Broker, topic: str
) -> None:
    copy.step(spark.sql("SELECT 1 AS id"), 0)
    others = [{"key": f"k{i}".encode(), "value": b"not ours"} for i in range(4_500)]
    kafka.send("_headwater_exports", others)
    # Somebody's open transaction must not hide what was committed behind it.
    open_one = kafka.producer(**{"transactional.id": f"other-{topic}"})
    open_one.init_transactions(20)
    open_one.begin_transaction()
    open_one.produce("_headwater_exports", b"open")
    open_one.flush(20)
    producer = kafka.producer()
    value = {"flow": FLOW, "topic": topic, "epoch": 1, "step": 1, "source": {"orders": 1}}
    producer.produce("_headwater_exports", json.dumps(value).encode(), b"k")
    producer.flush(20)
    from threading import Timer

    ending = Timer(2.0, lambda: open_one.abort_transaction(20))
    ending.start()
    assert copy.open().visible() == {"orders": 1}
    ending.join()
    assert copy.step(spark.sql("SELECT 1 AS id"), 1) is None


def test_avro_is_registered_and_every_value_comes_back(
    copy: Copy, spark: SparkSession, kafka: Broker, registry: Registry, topic: str
) -> None:
    copy.sources = cluster(kafka, value="avro", schema_registry=registry.address)
    (found,) = copy.snapshot(goods(spark))
    assert found.rows == 6
    (first,) = (one for one in messages(kafka, topic) if one.value()[5:6] and _id(one, registry, topic) == 1)
    assert first.value()[:1] == b"\x00"
    copy.step(spark.sql("SELECT 1L AS id, 'new' AS name, 5 AS later, false AS _deleted"), 0)
    with pytest.raises(HeadwaterError, match="can't hold a field of the name") as named:
        copy.open().check(spark.sql("SELECT 1 AS `a b`").schema)
    assert named.value.code is Code.UNSUPPORTED


def _id(message: Any, registry: Registry, topic: str) -> int:
    """The key, as fastavro reads it under the schema that the registry has."""
    import urllib.request

    number = int.from_bytes(message.key()[1:5], "big")
    with urllib.request.urlopen(f"{registry.address}/schemas/ids/{number}", timeout=20) as answer:
        schema = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
    found: Any = fastavro.schemaless_reader(io.BytesIO(message.key()[5:]), schema, None)
    return int(found["id"])


@follows(
    "write kafka://ENTRY/topic, where ENTRY is a Kafka source of the project, or kafka://host:9092/topic",
    "give it as `security` of a Kafka source; then {}",
    "known: {}; brokers are named with their port: kafka://host:9092/topic",
    "make it there first; {}",
    "export to an empty topic",
    "name another source: one with `value: json` or `value: avro`",
    "add it to the source, or name another one",
)
def test_what_is_wrong_is_said(copy: Copy, spark: SparkSession, kafka: Broker, topic: str) -> None:
    rows = spark.sql("SELECT 1 AS id")
    for keys, code, why in (
        ({"to": "kafka://nobody/orders"}, Code.UNKNOWN_REFERENCE, "has no Kafka source 'nobody'"),
        ({"to": "kafka://me:geheim@broker:9092/orders"}, Code.INVALID_VALUE, "a login does not belong"),
        ({"to": "kafka://out/"}, Code.EXPORT_REFUSED, "there is no topic 'unread'"),
        ({"to": f"kafka://out/{topic}x"}, Code.EXPORT_REFUSED, f"did you mean '{topic}'"),
        ({"to": "kafka://127.0.0.1:1/orders"}, Code.EXPORT_UNAVAILABLE, "can't be reached"),
        ({"to": "kafka:orders"}, Code.INVALID_VALUE, "is no topic of Kafka"),
        ({"if_exists": "overwrite"}, Code.UNSUPPORTED, "can't be overwritten"),
    ):
        with pytest.raises(HeadwaterError, match=why) as refused:
            copy.open(**keys).check(rows.schema)
        assert refused.value.code is code
        assert "geheim" not in str(refused.value)
    copy.open().check(rows.schema)
    copy.open(to=f"kafka://{kafka.address}/{topic}").check(rows.schema)
    kafka.create(f"{topic}x")
    copy.open(to=f"kafka://out/{topic}x").check(rows.schema)
    for settings, code in (
        ({"value": "csv"}, Code.UNSUPPORTED),
        ({"value": "avro", "schema_file": "a.avsc"}, Code.MISSING_KEY),
    ):
        copy.sources = cluster(kafka, **settings)
        with pytest.raises(HeadwaterError) as other:
            copy.open()
        assert other.value.code is code
    copy.sources = cluster(kafka)
    with pytest.raises(HeadwaterError, match="map with keys of int") as maps:
        copy.open().check(spark.sql("SELECT map(1, 2) AS m").schema)
    assert maps.value.code is Code.UNSUPPORTED


def frame(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("id", "concat('text ', id) AS note")


@pytest.mark.full
def test_many_rows_in_one_transaction(copy: Copy, spark: SparkSession, kafka: Broker, topic: str) -> None:
    copy.keys["primary_key"] = []
    (found,) = copy.snapshot(frame(spark, 60_000))
    assert found.rows == 60_000
    seen = messages(kafka, topic)
    assert len({one.value() for one in seen}) == len(seen) == 60_000
    assert {one.key() for one in seen} == {None}
