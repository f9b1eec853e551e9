"""How the two Kafka clients are told where the brokers are and how to log in: Spark's Java one, and the driver's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.core.errors import Code, UsageError
from headwater.sources.kafka.config import KafkaSecurity, KafkaSource

READER_OPTIONS = frozenset(
    {"minPartitions", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"}
)
"""Options of Spark's reader itself; every other one is the consumer's."""

ANSWER_SECONDS = 5
"""How long the driver waits for brokers."""
SILENCE_MILLISECONDS = 20_000
"""How long Spark's tasks do; a broker that goes away in the middle of a step must not hold it for minutes."""

POLLED_RECORDS = 20_000
"""Records that a consumer hands over at once, as far as they were fetched. Spark asks the brokers for the ends of a
partition each time, which by Kafka's default is for every 500 records."""

Locate = Callable[[str], str]


def spark_options(spec: KafkaSource, flow: str, locate: Locate) -> dict[str, str]:
    """Options of Spark's reader, without what is to be read."""
    consumer = {
        "bootstrap.servers": spec.brokers,
        "isolation.level": "read_committed",
        "max.poll.records": str(POLLED_RECORDS),
        "request.timeout.ms": str(SILENCE_MILLISECONDS),
        "default.api.timeout.ms": str(SILENCE_MILLISECONDS),
        **(_java_security(spec.security, locate) if spec.security else {}),
        **_consumer_options(spec),
    }
    # With a group of its own for each task Spark can't keep its consumers: it costs 200 ms a step.
    if "group.id" not in consumer:
        consumer["group.id"] = _group(f"headwater-{flow}", dict(consumer))
    reader = {
        "kafkaConsumer.pollTimeoutMs": str(SILENCE_MILLISECONDS),
        "fetchOffset.numRetries": "1",
        **{key: value for key, value in spec.options.items() if key in READER_OPTIONS},
    }
    return {**{f"kafka.{key}": value for key, value in consumer.items()}, **reader}


_groups: dict[str, dict[str, str]] = {}
"""The settings that each group of this process has."""


def _group(name: str, settings: dict[str, str]) -> str:
    """A name that no consumers with other settings have: Spark tells those that it keeps apart by their groups alone.
    A flow has its own unless another lake of the process has one like it, or its brokers have moved."""
    found, number = name, 2
    while _groups.setdefault(found, settings) != settings:
        found, number = f"{name}-{number}", number + 1
    return found


def client_settings(spec: KafkaSource, locate: Locate) -> dict[str, str | int]:
    """Settings of the driver's own client, which asks for offsets."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": spec.brokers,
        "socket.connection.setup.timeout.ms": ANSWER_SECONDS * 1000,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 0,
    }
    if spec.security:
        settings.update(_own_security(spec.security, locate))
    return {**settings, **_consumer_options(spec)}


def _consumer_options(spec: KafkaSource) -> dict[str, str]:
    return {key.removeprefix("kafka."): value for key, value in spec.options.items() if key not in READER_OPTIONS}


def _java_security(security: KafkaSecurity, locate: Locate) -> dict[str, str]:
    found: dict[str, str] = {"security.protocol": security.protocol}
    if security.username is not None and security.password is not None:
        module = "plain.PlainLoginModule" if security.mechanism == "PLAIN" else "scram.ScramLoginModule"
        found["sasl.mechanism"] = security.mechanism
        found["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required"
            f" username={_quoted(security.username)} password={_quoted(security.password.reveal())};"
        )
    # The texts themselves and not the paths: executors on other machines don't have these files.
    if security.ca is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(security.ca, locate)}
    if security.certificate is not None and security.key is not None:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.certificate.chain"] = _text(security.certificate, locate)
        found["ssl.keystore.key"] = _text(security.key, locate)
    if security.key_password is not None:
        found["ssl.key.password"] = security.key_password.reveal()
    return found


def _own_security(security: KafkaSecurity, locate: Locate) -> dict[str, str]:
    found: dict[str, str] = {"security.protocol": security.protocol}
    if security.username is not None and security.password is not None:
        found |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": security.password.reveal(),
        }
    files = {"ca": security.ca, "certificate": security.certificate, "key": security.key}
    found |= {f"ssl.{name}.location": locate(path) for name, path in files.items() if path is not None}
    if security.key_password is not None:
        found["ssl.key.password"] = security.key_password.reveal()
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(path: str, locate: Locate) -> str:
    try:
        return Path(locate(path)).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(Code.INVALID_VALUE, f"the PEM file {path} can't be read: {error}") from error
