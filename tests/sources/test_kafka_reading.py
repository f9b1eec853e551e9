"""Ranges of Kafka topics: where they begin and end, what is new, what is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.sources.kafka.offsets import KafkaPartition, shared
from tests.hints.followed import follows
from tests.services.kafka import USER, Broker
from tests.services.processes import free_port
from tests.sources.kafka_lab import Flow, rows_of

Open = Callable[..., Flow]


@pytest.fixture
def topic(kafka: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions."""
    name = request.node.name.replace("[", ".").replace("]", "")
    kafka.create(name, partitions=2)
    return name


@pytest.fixture
def open_flow(spark: SparkSession, kafka: Broker, topic: str, tmp_path: Path) -> Open:
    def opened(**settings: Any) -> Flow:
        chosen = {"topic": topic} if "topic_pattern" not in settings else {}
        return Flow(spark, tmp_path, {"brokers": kafka.address, "value": "string", **chosen, **settings})

    return opened


def test_every_record_once_with_what_kafka_knows_of_it(kafka: Broker, topic: str, open_flow: Open) -> None:
    headers = [("trace", b"a"), ("trace", b"\xff"), ("none", None)]
    kafka.send(topic, [{"value": b"one", "key": b"k", "headers": headers, "timestamp": 1_700_000_000_123}])
    kafka.send(topic, [{"value": b"two", "partition": 1}])
    flow = open_flow()
    assert flow.reader.lag(None).detail == {f"{topic}/0": 1, f"{topic}/1": 1}
    ahead = flow.ahead()
    assert ahead is not None and (ahead.rows, ahead.full) == (2, False)
    records = flow.step()
    assert records is not None
    first, second = records.orderBy("_position").collect()
    assert first["_position"] == f"{topic}/00000/{0:020d}" and second["_position"] == f"{topic}/00001/{0:020d}"
    assert (first["_raw"], first["_key"], second["_key"]) == (b"one", "k", None)
    assert [tuple(header) for header in first["_headers"]] == headers and second["_headers"] is None
    assert first["_timestamp"].replace(tzinfo=timezone.utc).timestamp() == 1_700_000_000.123
    given = [field for field in records.schema.fields if field.name not in ("_raw", "_position")]
    assert [(f.name, f.dataType) for f in given] == [(f.name, f.dataType) for f in flow.reader.metadata_columns.fields]
    assert flow.step() is None
    kafka.send(topic, [{"value": b"three"}])
    flow.restart()
    assert flow.offsets() == [(topic, 0, 1)]
    assert flow.reader.lag(flow.position).records == 0


def test_a_step_is_no_larger_than_max_rows_and_fair(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{"value": b"x"} for _ in range(10)])
    kafka.send(topic, [{"value": b"y", "partition": 1} for _ in range(2)])
    flow = open_flow(max_rows=6)
    ahead = flow.ahead()
    assert ahead is not None and (ahead.rows, ahead.full) == (6, True)
    assert ahead.end["offsets"] == {topic: {"0": 4, "1": 2}}
    assert len(flow.offsets()) == 12
    assert shared({KafkaPartition("t", n): size for n, size in enumerate([100, 1, 100])}, 11) == {
        KafkaPartition("t", 1): 1,
        KafkaPartition("t", 0): 5,
        KafkaPartition("t", 2): 5,
    }


def test_where_it_starts(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{"value": b"old", "timestamp": 1000}, {"value": b"new", "timestamp": 2000}])
    kafka.send(topic, [{"value": b"old", "timestamp": 1500, "partition": 1}])
    assert open_flow(start="earliest").offsets() == [(topic, 0, 0), (topic, 0, 1), (topic, 1, 0)]
    assert open_flow(start=datetime.fromtimestamp(1.6, timezone.utc)).offsets() == [(topic, 0, 1)]
    assert open_flow(start="1970-01-01T00:00:01.500Z").offsets() == [(topic, 0, 1), (topic, 1, 0)]
    assert open_flow(start={topic: {0: 1}}).offsets() == [(topic, 0, 1), (topic, 1, 0)]
    with pytest.raises(HeadwaterError, match="offset 7 .* which ends at 2"):
        open_flow(start={topic: {0: 7}}).ahead()

    latest = open_flow(start="latest")
    assert latest.ahead() is None
    kafka.send(topic, [{"value": b"newest"}])
    latest.restart()  # it began at the end when it was first started, not when the first record came
    assert latest.offsets() == [(topic, 0, 2)]
    kafka.grow(topic, 3)
    kafka.send(topic, [{"value": b"a", "partition": 2}])
    assert latest.offsets() == [(topic, 2, 0)]


def test_new_topics_and_partitions_of_a_pattern(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{"value": b"x"}])
    flow = open_flow(topic_pattern=f"{topic}.*")
    assert flow.offsets() == [(topic, 0, 0)]
    kafka.create(f"{topic}.more", f"not.{topic}")
    kafka.send(f"{topic}.more", [{"value": b"x"}])
    kafka.send(f"not.{topic}", [{"value": b"x"}])
    kafka.grow(topic, 3)
    kafka.send(topic, [{"value": b"x", "partition": 2}])
    until = time.monotonic() + 10
    found: list[Any] = []
    while len(found) < 2 and time.monotonic() < until:
        found += flow.offsets()
    assert sorted(found) == [(topic, 2, 0), (f"{topic}.more", 0, 0)]
    assert set(flow.position["ids"]) == {topic, f"{topic}.more"}


def test_a_frozen_reader_comes_to_an_end(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{"value": b"x"}])
    flow = open_flow()
    flow.reader.freeze()
    kafka.send(topic, [{"value": b"x"}, {"value": b"x", "partition": 1}])
    assert flow.offsets() == [(topic, 0, 0)]
    assert flow.reader.lag(flow.position).records == 2


def test_transactions(kafka: Broker, topic: str, open_flow: Open) -> None:
    """Control records and aborted ones leave gaps, which are no loss; an open transaction is waited for."""
    producer = kafka.producer(**{"transactional.id": topic})
    producer.init_transactions()
    for values, ends_well in ((["a"], True), (["b", "c"], False), (["d"], True)):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush()
        producer.commit_transaction() if ends_well else producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush()
    flow = open_flow()
    assert flow.offsets() == [(topic, 0, 0), (topic, 0, 5)]
    assert flow.ahead() is None
    producer.commit_transaction()
    until = time.monotonic() + 10
    while flow.ahead() is None and time.monotonic() < until:
        time.sleep(0.05)
    assert flow.offsets() == [(topic, 0, 7)]


# --- loss


@follows("set `on_data_loss: continue` to continue with what is left, or reset the flow")
def test_records_that_expired_before_they_were_read(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{"value": b"x"} for _ in range(3)])
    flow = open_flow()
    assert len(flow.offsets()) == 3
    kafka.send(topic, [{"value": b"x"} for _ in range(5)])
    kafka.expire(topic, 0, 6)
    with pytest.raises(HeadwaterError, match=f"topic '{topic}', partition 0, offsets 3 to 5: .*expired") as caught:
        flow.ahead()
    assert caught.value.code is Code.DATA_LOSS and "on_data_loss: continue" in str(caught.value)
    flow.restart(on_data_loss="continue")
    assert flow.offsets() == [(topic, 0, 6), (topic, 0, 7)]
    assert flow.position["lost"] == [f"topic '{topic}', partition 0, offsets 3 to 5: they have expired"]
    kafka.send(topic, [{"value": b"x"}])
    assert flow.offsets() == [(topic, 0, 8)] and "lost" not in flow.position


def test_a_settled_range_that_expires_before_it_is_read(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{"value": b"x"} for _ in range(3)])
    flow = open_flow()
    ahead = flow.ahead()
    assert ahead is not None
    kafka.expire(topic, 0, 2)
    flow.restart()
    with pytest.raises(HeadwaterError, match="offsets 0 to 1: they have expired"):
        flow.reader.read(None, ahead.end)
    flow.restart(on_data_loss="continue")
    assert [row["_offset"] for row in flow.reader.read(None, ahead.end).collect()] == [2]


@pytest.mark.parametrize("records", [1, 5])
def test_a_topic_that_was_deleted_and_made_again(kafka: Broker, topic: str, open_flow: Open, records: int) -> None:
    """With fewer records than before, and with more: offsets alone would not tell."""
    kafka.send(topic, [{"value": b"x"} for _ in range(3)])
    flow = open_flow()
    assert len(flow.offsets()) == 3
    kafka.drop(topic)
    with pytest.raises(HeadwaterError, match="offsets 3 on: the topic has been deleted; .*") as caught:
        flow.ahead()
    assert caught.value.code is Code.DATA_LOSS
    kafka.create(topic, partitions=2)
    kafka.send(topic, [{"value": b"y"} for _ in range(records)])
    with pytest.raises(HeadwaterError, match="the topic has been deleted and made again"):
        flow.ahead()
    flow.restart(on_data_loss="continue")
    assert flow.offsets() == [(topic, 0, n) for n in range(records)]
    kafka.send(topic, [{"value": b"z"}])
    flow.restart(on_data_loss="fail")
    assert flow.offsets() == [(topic, 0, records)]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_another_topic_goes_on_while_one_is_gone(kafka: Broker, topic: str, open_flow: Open, start: str) -> None:
    """And the one that is made again is read from its beginning, whatever was said of the old one."""
    other = f"{topic}-other"
    kafka.create(other, partitions=1)
    kafka.send(other, [{"value": b"x"} for _ in range(3)])
    flow = open_flow(topic=[topic, other], start=start, on_data_loss="continue")
    assert len(flow.offsets()) == (3 if start == "earliest" else 0)
    kafka.send(topic, [{"value": b"x"}])
    assert flow.offsets() == [(topic, 0, 0)]
    kafka.drop(other)
    for n in (1, 2):
        kafka.send(topic, [{"value": b"x"}])
        assert flow.offsets() == [(topic, 0, n)]
    kafka.create(other, partitions=1)
    kafka.send(other, [{"value": b"y"} for _ in range(4)])
    assert flow.offsets() == [(other, 0, n) for n in range(4)]


def test_brokers_that_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    flow = Flow(spark, tmp_path, {"brokers": address, "topic": "clicks"})
    begun = time.monotonic()
    with pytest.raises(TransientError, match=address) as caught:
        flow.ahead()
    assert caught.value.code is Code.SOURCE_UNAVAILABLE
    assert time.monotonic() - begun < 8


def test_a_topic_that_is_not_there(topic: str, open_flow: Open) -> None:
    with pytest.raises(TransientError, match=f"no topic '{topic[:-1]}'.*did you mean '{topic}'"):
        open_flow(topic=topic[:-1]).ahead()


def test_tombstones_are_rows_unless_they_are_dropped(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{**rows_of(id=1), "key": b"a"}, {"value": None, "key": b"a"}])
    kept = open_flow().decoded()
    assert (kept.keys, kept.events[1], kept.problems) == (["a", "a"], None, [None, None])
    assert open_flow(tombstones="drop").decoded().keys == ["a"]


def test_a_value_that_is_too_large(kafka: Broker, topic: str, open_flow: Open) -> None:
    kafka.send(topic, [{"value": b"x" * 10}, {"value": b"x" * 11}])
    found = open_flow(max_record_size=10).decoded()
    assert found.events == [{"value": "x" * 10}, None]
    assert found.problems == [None, ("too_large", "11 bytes are more than `max_record_size`, 10")]


def test_logging_in(kafka: Broker, topic: str, open_flow: Open) -> None:
    user, password = USER
    kafka.send(topic, [{"value": b"x"}])
    security = {"protocol": "SASL_PLAINTEXT", "username": user, "password": password}
    flow = open_flow(brokers=kafka.secure_address, security=security, options={"fetch.max.bytes": "1000000"})
    assert flow.offsets() == [(topic, 0, 0)]
    flow = open_flow(brokers=kafka.secure_address, security={**security, "password": "wrong-password"})
    with pytest.raises(HeadwaterError) as caught:
        flow.ahead()
    assert caught.value.code is Code.SOURCE_UNAVAILABLE and "wrong-password" not in str(caught.value)
