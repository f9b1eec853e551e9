"""The config of Kafka topics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from headwater.secret import Secret
from headwater.sources.base import EventColumns, SourceSpec
from headwater.spec.base import Frozen, Names

Encoding = Literal["json", "csv", "avro", "protobuf", "debezium", "string", "bytes"]


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


class KafkaSource(SourceSpec):
    """One Kafka topic or several; `options` are the consumer's."""

    type: Literal["kafka"] = Field(default="kafka", description="`kafka`: topics of a Kafka cluster.")
    brokers: str = Field(description="`host:port`, several with commas.")
    topic: Names = Field(default=(), description="The topic, or a list of topics.")
    topic_pattern: str | None = Field(default=None, description="Instead of `topic`: a regular expression of names.")
    value: Encoding = Field(default="json", description="How values are encoded.")
    key: Encoding = Field(default="string", description="How keys are encoded.")
    schema_registry: str | None = Field(default=None, description="Address of a Confluent-compatible registry.")
    schema_registry_auth: Secret | None = Field(default=None, description="`user:password` for the registry.")
    start: Literal["earliest", "latest"] = Field(default="earliest", description="Where a new topic begins.")
    security: KafkaSecurity | None = Field(default=None, description="How to log in to the brokers.")
    schema_: str | None = Field(default=None, alias="schema", description="The whole schema: `id bigint, name string`.")
    schema_hints: str | None = Field(default=None, description="Types of some columns; the others are detected.")
    columns: EventColumns = Field(default=EventColumns(), description="Where the standard columns come from.")

    @model_validator(mode="after")
    def _one_choice(self) -> KafkaSource:
        if bool(self.topic) == bool(self.topic_pattern):
            raise ValueError("give `topic` or `topic_pattern`" + (", not both" if self.topic else ""))
        return self
