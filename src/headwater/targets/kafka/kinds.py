"""Kafka as a kind of target."""

from __future__ import annotations

from headwater.core.extras import require_extra
from headwater.spark.session import SessionNeeds
from headwater.targets.base import Destination, ExportTarget, TargetKind


def _open(destination: Destination) -> ExportTarget:
    require_extra("kafka", "confluent_kafka")
    from headwater.targets.kafka.target import KafkaTarget

    return KafkaTarget(KAFKA_KIND, destination)


KAFKA_KIND = TargetKind(
    name="kafka",
    title="a topic of Kafka",
    abilities=frozenset({"stream", "updates", "nested", "binary"}),
    codecs=frozenset(),
    open=_open,
    needs=lambda context: SessionNeeds(connectors=("avro",)),
    locate=lambda export, locate, context: export.to,
    notes={"partitions": "Kafka's producers choose the partition by the key: primary_key"},
)
