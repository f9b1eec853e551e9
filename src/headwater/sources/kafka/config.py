"""The config of Kafka topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator
from pydantic import WithJsonSchema as JsonSchema

from headwater.core.secret import Secret
from headwater.core.spec.base import Count, Frozen, Names, Options
from headwater.sources.base import EventColumns, SourceSpec

Encoding = Literal["json", "csv", "avro", "protobuf", "debezium", "string", "bytes"]
Offsets = dict[str, dict[int, int]]
"""Topic → partition → the offset of the next record."""

_START_FORM = "should be earliest, latest, a time (2026-10-01T00:00:00Z) or offsets ({clicks: {0: 123}})"


def _start(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(topic): _whole_numbers(by_partition) for topic, by_partition in value.items()}
    if isinstance(value, str) and value not in ("earliest", "latest"):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise ValueError(_START_FORM) from None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    if value not in ("earliest", "latest"):
        raise ValueError(_START_FORM)
    return value


def _whole_numbers(by_partition: Any) -> dict[int, int]:
    if not isinstance(by_partition, dict) or not by_partition:
        raise ValueError(_START_FORM)
    try:
        found = {int(partition): int(offset) for partition, offset in by_partition.items()}
    except (TypeError, ValueError):
        raise ValueError(_START_FORM) from None
    if any(partition < 0 or offset < 0 for partition, offset in found.items()):
        raise ValueError("a partition or offset is not negative")
    return found


Start = Annotated[
    Literal["earliest", "latest"] | datetime | Offsets,
    BeforeValidator(_start),
    PlainSerializer(lambda value: value.isoformat() if isinstance(value, datetime) else value, when_used="json"),
    JsonSchema({"type": ["string", "object"], "description": _START_FORM.removeprefix("should be ")}),
]
"""Where a new flow begins."""


class KafkaSecurity(Frozen):
    """How to log in to the brokers."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="SASL_SSL", description="Security protocol of the brokers."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="PLAIN", description="SASL mechanism; others go through `options`."
    )
    username: str | None = Field(default=None, description="User.")
    password: Secret | None = Field(default=None, description="Password.")
    ca: str | None = Field(
        default=None,
        description="PEM file with the authorities that sign the brokers' certificates; else the system's.",
    )
    certificate: str | None = Field(default=None, description="PEM file with the client's certificate chain.")
    key: str | None = Field(default=None, description="PEM file with the client's private key (PKCS #8).")
    key_password: Secret | None = Field(default=None, description="Password of the private key.")

    @model_validator(mode="after")
    def _whole(self) -> KafkaSecurity:
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` go together")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` go together")
        return self


class KafkaSource(SourceSpec):
    """One Kafka topic or several; `options` are the consumer's."""

    reader_class: ClassVar[str | None] = "headwater.sources.kafka.reader:KafkaReader"
    discovery_module: ClassVar[str | None] = "headwater.sources.kafka.discovery"
    flush_interval_default: ClassVar[timedelta] = timedelta(milliseconds=200)

    type: Literal["kafka"] = Field(default="kafka", description="`kafka`: topics of a Kafka cluster.")
    brokers: str = Field(description="`host:port`, several with commas.")
    topic: Names = Field(default=(), description="The topic, or a list of topics.")
    topic_pattern: str | None = Field(
        default=None, description="Instead of `topic`: a regular expression that whole names have to fit."
    )
    value: Encoding = Field(default="json", description="How values are encoded.")
    key: Encoding = Field(default="string", description="How keys are encoded.")
    schema_registry: str | None = Field(default=None, description="Address of a Confluent-compatible registry.")
    schema_registry_auth: Secret | None = Field(default=None, description="`user:password` for the registry.")
    schema_file: str | None = Field(
        default=None,
        description="Without a registry: the values' schema, `.avsc`, or `.proto` or a descriptor set.",
    )
    message: str | None = Field(default=None, description="The Protobuf message in `schema_file`: `shop.Order`.")
    key_schema_file: str | None = Field(default=None, description="The same for keys.")
    key_message: str | None = Field(default=None, description="The Protobuf message in `key_schema_file`.")
    start: Start = Field(
        default="earliest",
        description="Where a new flow begins: `earliest`, `latest`, a time, or offsets by topic and partition.",
    )
    max_rows: Count = Field(default=5_000_000, description="Records in one step at most, shared out over partitions.")
    tombstones: Literal["keep", "drop"] | None = Field(
        default=None,
        description=(
            "Records without a value: `keep` as a row with its key and no payload, or `drop`. By default kept, but for"
            " Debezium, whose tombstones only repeat a delete."
        ),
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="When records are gone before they were read: stop and say which, or log it and go on.",
    )
    security: KafkaSecurity | None = Field(default=None, description="How to log in to the brokers.")
    csv: Options = Field(default={}, description="How CSV values are written: `sep`, `quote`, `escape`.")
    schema_: str | None = Field(default=None, alias="schema", description="The whole schema: `id bigint, name string`.")
    schema_hints: str | None = Field(default=None, description="Types of some columns; the others are detected.")
    columns: EventColumns = Field(default=EventColumns(), description="Where the standard columns come from.")

    @property
    def connectors(self) -> tuple[str, ...]:
        uses_avro = self.schema_registry is not None or "avro" in (self.value, self.key)
        return ("kafka", "avro") if uses_avro else ("kafka",)

    @property
    def drops_tombstones(self) -> bool:
        return self.tombstones == "drop" or (self.tombstones is None and self.value == "debezium")

    def unused_keys(self) -> Iterator[tuple[str, str]]:
        """Keys that say how to read something that is not read."""
        if self.csv and "csv" not in (self.value, self.key):
            yield "csv", "`value: csv` or `key: csv`"
        if self.schema_registry_auth is not None and self.schema_registry is None:
            yield "schema_registry_auth", "`schema_registry`"
        for message, file in (("message", "schema_file"), ("key_message", "key_schema_file")):
            if getattr(self, message) is not None and getattr(self, file) is None:
                yield message, f"`{file}`"

    @model_validator(mode="after")
    def _one_choice(self) -> KafkaSource:
        if bool(self.topic) == bool(self.topic_pattern):
            raise ValueError("give `topic` or `topic_pattern`" + (", not both" if self.topic else ""))
        if self.topic_pattern is not None:
            try:
                re.compile(self.topic_pattern)
            except re.error as error:
                raise ValueError(f"`topic_pattern` is no regular expression: {error}") from None
        if isinstance(self.start, dict) and self.topic:
            for topic in self.start:
                if topic not in self.topic:
                    raise ValueError(f"`start` names '{topic}', which is not in `topic`")
        return self

    @model_validator(mode="after")
    def _has_schemas(self) -> KafkaSource:
        sides = (("value", self.value, "schema_file", "message"), ("key", self.key, "key_schema_file", "key_message"))
        for side, encoding, file, message in sides:
            if getattr(self, file) is not None and encoding not in ("avro", "protobuf"):
                raise ValueError(f"`{file}` is for avro and protobuf; `{side}` is {encoding}")
            if encoding in ("avro", "protobuf") and self.schema_registry is None and getattr(self, file) is None:
                raise ValueError(f"`{side}: {encoding}` needs `schema_registry` or `{file}`")
            if encoding == "protobuf" and getattr(self, file) is not None and getattr(self, message) is None:
                raise ValueError(f"`{file}` needs `{message}`, the name of the message")
        return self
