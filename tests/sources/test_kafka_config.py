"""The Kafka source in the project file: what is refused, what the clients are told, and the page about it."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headwater.project.check import all_problems
from headwater.project.load.loader import examine
from headwater.project.reference import refreshed
from headwater.sources.kafka.config import KafkaSource
from headwater.sources.kafka.settings import client_settings, spark_options

PAGE = (Path(__file__).parents[2] / "docs" / "sources" / "kafka.md").read_text(encoding="utf-8")


def source(**settings: Any) -> KafkaSource:
    return KafkaSource.model_validate({"type": "kafka", "brokers": "b:9092", "topic": "clicks", **settings})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"topic_pattern": "x"}, "not both"),
        ({"topic": [], "topic_pattern": "("}, "no regular expression"),
        ({"start": "yesterday"}, "should be earliest, latest, a time"),
        ({"start": {"clicks": {"0": -1}}}, "not negative"),
        ({"start": {"other": {"0": 1}}}, "'other', which is not in `topic`"),
        ({"value": "avro"}, "needs `schema_registry` or `schema_file`"),
        ({"key": "protobuf"}, "needs `schema_registry` or `key_schema_file`"),
        ({"value": "protobuf", "schema_file": "x.desc"}, "needs `message`"),
        ({"schema_file": "x.avsc"}, "`value` is json"),
        ({"security": {"username": "me"}}, "go together"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(told)):
        source(**settings)


def test_starts() -> None:
    moment = datetime(2026, 10, 1, tzinfo=timezone.utc)
    assert source(start="2026-10-01T00:00:00Z").start == moment
    assert source(start="2026-10-01").start == moment
    assert source(start={"clicks": {"0": "5"}}).start == {"clicks": {0: 5}}


def test_only_what_is_used_is_fetched() -> None:
    assert source().connectors == ("kafka",)
    assert source(schema_registry="http://r").connectors == ("kafka", "avro")
    assert source(value="avro", schema_file="x.avsc").connectors == ("kafka", "avro")


def test_both_clients_are_told_how_to_log_in(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"-- {name} --", encoding="ascii")
    files = {"ca": "ca", "certificate": "certificate", "key": "key", "key_password": "k"}
    login = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "me", "password": 'a"b\\c'}
    spec = source(security={**login, **files}, options={"fetch.min.bytes": 7, "minPartitions": 3})

    def locate(path: str) -> str:
        return str(tmp_path / path)

    java = spark_options(spec, "topics.clicks", locate)
    assert java["kafka.security.protocol"] == "SASL_SSL" and java["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="a\\"b\\\\c";'
    )
    assert java["kafka.ssl.truststore.certificates"] == "-- ca --" and java["kafka.ssl.keystore.key"] == "-- key --"
    assert (java["kafka.fetch.min.bytes"], java["minPartitions"]) == ("7", "3")
    assert "kafka.minPartitions" not in java
    own = client_settings(spec, locate)
    assert (own["sasl.username"], own["sasl.password"]) == ("me", 'a"b\\c')
    assert own["ssl.ca.location"] == locate("ca") and own["ssl.key.password"] == "k"
    assert 'a"b' not in repr(spec) and 'a\\"b' not in spec.model_dump_json()


def test_the_page_is_up_to_date() -> None:
    assert refreshed(PAGE) == PAGE, "run `python docs/refresh.py`"


def test_the_examples_of_the_page_are_right(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "headwater.yml").write_text(example, encoding="utf-8")
    assert all_problems(examine(tmp_path, env={})) == []


def test_consumers_with_other_settings_are_of_another_group() -> None:
    def group(spec: KafkaSource) -> str:
        return spark_options(spec, "topics.groups", str)["kafka.group.id"]

    assert [group(source()), group(source())] == ["headwater-topics.groups"] * 2
    assert [group(source(brokers="moved:9092")), group(source())] == [
        "headwater-topics.groups-2",
        "headwater-topics.groups",
    ]
    assert group(source(options={"group.id": "mine"})) == "mine"
