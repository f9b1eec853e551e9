"""Where an export to Kafka goes: a topic of a cluster that the project names in `sources:`, or of brokers without a
login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from headwater.core.errors import Code, UsageError, Where
from headwater.core.secret import address_without_login
from headwater.core.spec.base import placed
from headwater.sources.base import SourceSpec
from headwater.sources.kafka.config import KafkaSource

_FORM = "write kafka://ENTRY/topic, where ENTRY is a Kafka source of the project, or kafka://host:9092/topic"
_ENCODINGS = ("json", "avro")


@dataclass(frozen=True)
class KafkaAddress:
    """A topic."""

    cluster: KafkaSource
    """Brokers, login, registry and how values are encoded. Its `topic` is that of the source, not of the export."""
    topic: str
    shown: str
    where: Where

    @property
    def is_avro(self) -> bool:
        return self.cluster.value == "avro"


def parse_address(to: str, sources: Mapping[str, SourceSpec]) -> KafkaAddress:
    """The topic that `to` names: `kafka://clicks/orders`, or `kafka://host:9092/orders`."""
    where = Where("to")
    parts = urlsplit(to)
    shown = address_without_login(to)
    if parts.scheme != "kafka" or not parts.netloc:
        raise UsageError(Code.INVALID_VALUE, f"{shown} is no topic of Kafka", where=where, hint=_FORM)
    if parts.username is not None:
        raise UsageError(
            Code.INVALID_VALUE,
            "a login does not belong into `to`: it would be shown wherever the export is",
            where=where,
            hint=f"give it as `security` of a Kafka source; then {_FORM}",
        )
    cluster = _cluster(parts.netloc, shown, sources, where)
    topic = unquote(parts.path.lstrip("/")) or (cluster.topic[0] if len(cluster.topic) == 1 else "")
    if not topic or "/" in topic:
        raise UsageError(Code.INVALID_VALUE, f"{shown} names no topic", where=where, hint=_FORM)
    if cluster.value not in _ENCODINGS:
        raise UsageError(
            Code.UNSUPPORTED,
            f"the source '{parts.netloc}' has values of {cluster.value}, and exports are written as json or avro",
            where=where,
            hint="name another source: one with `value: json` or `value: avro`",
        )
    if cluster.value == "avro" and cluster.schema_registry is None:
        raise UsageError(
            Code.MISSING_KEY,
            f"the source '{parts.netloc}' has no `schema_registry`, which Avro is written with",
            where=where,
            hint="add it to the source, or name another one",
        )
    return KafkaAddress(cluster, topic, shown, where)


def _cluster(name: str, shown: str, sources: Mapping[str, SourceSpec], where: Where) -> KafkaSource:
    found = sources.get(name)
    if isinstance(found, KafkaSource):
        return found
    if ":" not in name:
        known = sorted(name for name, source in sources.items() if isinstance(source, KafkaSource))
        raise UsageError(
            Code.UNKNOWN_REFERENCE,
            f"{shown}: the project has no Kafka source '{name}'",
            where=where,
            hint=f"known: {', '.join(known) or 'none'}; brokers are named with their port: kafka://host:9092/topic",
        )
    anonymous = {"type": "kafka", "brokers": name, "topic": "unread"}
    return placed(KafkaSource.model_validate(anonymous), "to", where)
