"""Dead letters of Kafka topics: two topics of one name are told apart, and what was too large comes through later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from tests.services.kafka import Broker
from tests.sources.kafka_lab import rows_of
from tests.sources.test_kafka_to_lake import Project
from tests.support import Answer, headwater


def asked(project: Project, *arguments: str) -> Answer:
    answer = headwater(*arguments, "--json", "--project", project.root)
    assert answer.code == 0, answer.err
    return answer


def test_a_topic_that_was_made_again(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    """The same offsets are other records: dead letters are kept alongside the old ones and replayed for themselves."""
    project = Project(tmp_path)
    source = {"type": "kafka", "brokers": kafka.address, "topic": "letters.again", "schema_hints": "id bigint"}
    source["on_data_loss"] = "continue"

    def policy(mismatch: str) -> None:
        project.write({"s": source}, {"again": {"from": "s", "schema": {"mismatch": mismatch}}})

    policy("quarantine")
    for records in ([rows_of(id=1), rows_of(id="one")], [rows_of(id="two"), rows_of(id=3), rows_of(id="three")]):
        kafka.create("letters.again")
        kafka.send("letters.again", records)
        assert project.run().code == 0
        kafka.drop("letters.again")
    place = "00000/0000000000000000000"
    first, again = f"letters.again/{place}", f"letters.again@00002/{place}"
    dead_letters = asked(project, "dlq", "list").json
    assert sorted(letter["position"] for letter in dead_letters) == [f"{first}1", f"{again}0", f"{again}2"]
    rows = project.query("SELECT id, _position FROM topic('again') ORDER BY _position")
    assert rows == [{"id": 1, "_position": f"{first}0"}, {"id": 3, "_position": f"{again}1"}]
    policy("discard_value")
    done = {"topic": "again", "tried": 3, "came_through": 3, "rows": 3, "still_dead": 0}
    assert asked(project, "dlq", "replay").json == [done]
    positions = [row["_position"] for row in project.query("SELECT _position FROM topic('again') ORDER BY 1")]
    assert positions == [f"{first}0", f"{first}1", f"{again}0", f"{again}1", f"{again}2"]

    # Also after a start over: what is there now is still the second topic of that name, and a third one is the third.
    policy("quarantine")
    kafka.create("letters.again")
    kafka.send("letters.again", [rows_of(id="four")])
    assert project.run().code == 0
    assert headwater("flow", "reset", "again", "--yes", "--project", project.root).code == 0
    assert project.run().code == 0
    (letter,) = asked(project, "dlq", "list").json
    assert letter["position"] == f"letters.again@00003/{place}0"


def test_what_is_too_large(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path)
    source: dict[str, Any] = {"type": "kafka", "brokers": kafka.address, "topic": "letters.large"}
    topics = {"large": {"from": "s"}, "large_iceberg": {"from": "s", "format": "iceberg"}}
    project.write({"s": {**source, "max_record_size": 30}}, topics)
    kafka.create("letters.large")
    value = rows_of(id=2, text="ä" * 40)
    kafka.send("letters.large", [rows_of(id=1), {**value, "key": b"k", "headers": [("h", b"1")]}])
    assert project.run().code == 0
    dead_letters = asked(project, "dlq", "list", "--reason", "too_large").json
    assert sorted(letter["topic"] for letter in dead_letters) == sorted(topics)
    assert {letter["message"] for letter in dead_letters} == {
        f"{len(value['value'])} bytes are more than `max_record_size`, 30"
    }
    shown = asked(project, "dlq", "show", dead_letters[0]["id"]).json
    assert (shown["raw"], shown["reason"], shown["source"]) == (value["value"].decode(), "too_large", "s")
    still = {"tried": 1, "came_through": 0, "rows": 0, "still_dead": 1}
    assert asked(project, "dlq", "replay").json == [{"topic": name, **still} for name in sorted(topics)]
    project.write({"s": {**source, "max_record_size": "1KB"}}, topics)
    done = {"tried": 1, "came_through": 1, "rows": 1, "still_dead": 0}
    assert asked(project, "dlq", "replay", "--reason", "too_large").json == [
        {"topic": name, **done} for name in sorted(topics)
    ]
    assert asked(project, "dlq", "list").json == []
    for name in topics:
        rows = project.query(f"SELECT id, text, _key, _offset FROM topic('{name}') ORDER BY id")
        assert rows == [
            {"id": 1, "text": None, "_key": None, "_offset": 0},
            {"id": 2, "text": "ä" * 40, "_key": "k", "_offset": 1},
        ]
    assert project.run().code == 0 and len(project.query("SELECT id FROM topic('large')")) == 2


@pytest.mark.parametrize(("compression", "refused"), [("producer", False), ("uncompressed", True)])
def test_a_broker_that_bounds_what_batches_unpack_to(kafka: Broker, compression: str, refused: bool) -> None:
    """What the page tells those to do who can't trust their producers; Kafka's client itself has no such bound."""
    name = f"bounded_{compression}"
    for made in kafka.admin.create_topics([NewTopic(name, 1, 1, config={"compression.type": compression})]).values():
        made.result()
    said: list[str | None] = []
    producer = kafka.producer(**{"compression.type": "gzip", "message.max.bytes": 50_000_000})
    producer.produce(name, value=b"a" * 20_000_000, callback=lambda error, _: said.append(error and error.name()))
    producer.flush(60)
    assert said == ["MSG_SIZE_TOO_LARGE" if refused else None]
