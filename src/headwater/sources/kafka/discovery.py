"""How the records of a Kafka topic are written: `kafka://broker:port/topic`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.core.extras import require_extra
from headwater.core.spec.base import placed
from headwater.sources.discovery import Discovered
from headwater.sources.kafka.cluster import Cluster
from headwater.sources.kafka.config import KafkaSource
from headwater.sources.kafka.settings import client_settings

SCHEME = "kafka://"
FORM = "kafka://broker:9092/topic"
RECORDS = 1000
"""Records that a look reads at most."""
FEW = 50
"""So many say how values are written."""
SECONDS = 10.0
_FRAMED = 5
"""Bytes before a value that a registry knows the schema of: a zero, and the schema's number."""
_SECURITY = ("protocol", "mechanism")
_PARAMETERS = ("registry", *_SECURITY)


def discover(address: str) -> Discovered | None:
    """A topic of a cluster; `?registry=` names its schema registry, `?protocol=` and `?mechanism=` how to log in."""
    if not address.startswith(SCHEME):
        return None
    parts = urlsplit(address)
    login, _, brokers = parts.netloc.rpartition("@")
    topic, given = unquote(parts.path.strip("/")), dict(parse_qsl(parts.query))
    unknown = [name for name in given if name not in _PARAMETERS]
    if not brokers or unknown:
        hint = did_you_mean(unknown[0], _PARAMETERS) if unknown else f"write {FORM}"
        raise UsageError(Code.USAGE, f"this is no address of a topic: {SCHEME}{brokers}{parts.path}", hint=hint)
    keys: dict[str, Any] = {"type": "kafka", "brokers": "${KAFKA:-" + brokers + "}", "topic": topic}
    variables = {"KAFKA": brokers}
    security: dict[str, str] = {name: given[name] for name in _SECURITY if name in given}
    if login:
        user, _, password = login.partition(":")
        security |= {"username": "${KAFKA_USER}", "password": "${KAFKA_PASSWORD}"}
        variables |= {"KAFKA_USER": unquote(user), "KAFKA_PASSWORD": unquote(password)}
    if security:
        keys["security"] = security
    spec = _spec(brokers, topic or "?", security, variables)
    values = _values(spec, topic)
    encoding, comment = _encoding(values)
    keys["value"] = encoding
    comments = {"value": comment, "brokers": "`KAFKA` names others"}
    if encoding in ("avro", "protobuf"):
        if "registry" not in given:
            raise UsageError(
                Code.USAGE,
                f"the values of {topic} begin with the number of a schema",
                hint="name the registry that has it: --from '" + FORM + "?registry=http://registry:8081'",
            )
        keys["schema_registry"] = given["registry"]
    name = topic.rpartition(".")[2] or topic
    return Discovered(name, keys, comments, variables, sampled_by={"max_rows": RECORDS})


def _spec(brokers: str, topic: str, security: dict[str, str], variables: dict[str, str]) -> KafkaSource:
    filled = {key: variables.get(text[2:-1], text) if text.startswith("${") else text for key, text in security.items()}
    given = {"brokers": brokers, "topic": topic, **({"security": filled} if filled else {})}
    return placed(KafkaSource.model_validate(given), "kafka", Where("--from"))


def _values(spec: KafkaSource, topic: str) -> list[bytes]:
    """The first values of the topic."""
    cluster = Cluster(spec, lambda path: path)
    known = cluster.names()
    if topic not in known:
        hint = did_you_mean(topic, known) if topic else f"write {FORM}; there are: {', '.join(known) or 'none'}"
        raise UsageError(Code.USAGE, f"there is no topic '{topic}' at {spec.brokers}", hint=hint)
    survey = cluster.survey([topic])
    waiting = {one.number: (at, survey.end[one]) for one, at in survey.first.items() if survey.end[one] > at}
    if not waiting:
        raise UsageError(
            Code.USAGE,
            f"the topic {topic} has no records to look at",
            hint="send one, or begin with a project that has some: headwater init --template kafka DIR",
        )
    kafka = require_extra("kafka", "confluent_kafka")
    consumer = kafka.Consumer({**client_settings(spec, lambda path: path), "group.id": "headwater-init",
                               "enable.auto.commit": False, "isolation.level": "read_committed"})  # fmt: skip
    try:
        consumer.assign([kafka.TopicPartition(topic, number, at) for number, (at, _) in waiting.items()])
        return _polled(consumer.poll, sum(end - at for at, end in waiting.values()))
    finally:
        consumer.close()


def _polled(poll: Callable[[float], Any], waiting: int) -> list[bytes]:
    found: list[bytes] = []
    until = time.monotonic() + SECONDS
    while len(found) < min(FEW, waiting) and time.monotonic() < until:
        message = poll(0.5)
        if message is None and found:
            break
        if message is not None and message.error() is None and message.value() is not None:
            found.append(message.value())
    return found


def _encoding(values: Sequence[bytes]) -> tuple[str, str]:
    """How values are written, and what was seen of it."""
    framed = [value for value in values if len(value) > _FRAMED and value[0] == 0]
    if values and len(framed) == len(values):
        # Behind the schema's number Protobuf has the place of the message, which mostly is the first: a zero.
        is_message = all(value[_FRAMED] == 0 for value in framed)
        return ("protobuf" if is_message else "avro"), "or avro, protobuf: as the registry says"
    objects = [value for value in map(_parsed, values) if isinstance(value, dict)]
    if objects and 2 * len(objects) > len(values):
        envelopes = [one.get("payload", one) for one in objects]
        if all(isinstance(one, dict) and {"op", "after"} <= one.keys() for one in envelopes):
            return "debezium", "changes of a database, as Debezium writes them"
        return "json", f"{len(objects)} of the first {len(values)} values are JSON objects"
    try:
        for value in values:
            value.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes", "neither text nor known to a registry; or avro, protobuf with a `schema_file`"
    return "string", "text, in a column `value`; `csv` with a `schema` makes columns of it"


def _parsed(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
