"""What the brokers tell: topics, their ids and partitions, and where each partition begins and ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError, nearest
from headwater.core.extras import require_extra
from headwater.sources.kafka.config import KafkaSource
from headwater.sources.kafka.offsets import BrokerTopics, KafkaPartition
from headwater.sources.kafka.settings import ANSWER_SECONDS, Locate, client_settings

_UNKNOWN_PROPERTY = re.compile(r'No such configuration property: "([^"]+)"')
_REFUSED = re.compile(r"AUTHENTICATION|AUTHORIZATION")


@dataclass
class Cluster:
    """Connections to the brokers, made with the first question and kept."""

    spec: KafkaSource
    locate: Locate
    _admin: Any = field(default=None, init=False)
    _said: str = field(default="", init=False)

    def names(self) -> list[str]:
        """All topics but Kafka's own."""
        found = self._ask(lambda: self._client().list_topics(timeout=ANSWER_SECONDS))
        return sorted(name for name in found.topics if not name.startswith("__"))

    def survey(self, topics: Iterable[str], *, need: Iterable[str] = ()) -> BrokerTopics:
        """The topics as they are now; those that aren't there are left out, unless they are needed."""
        described = self._described(list(topics))
        missing = [topic for topic in need if topic not in described]
        if missing:
            raise self._unknown(missing[0])
        partitions = [KafkaPartition(name, p.id) for name, topic in described.items() for p in topic.partitions]
        ids = {name: str(topic.topic_id) for name, topic in described.items()}
        if not partitions:
            return BrokerTopics(ids, {}, {})
        spec = self._offset_spec()
        # Both questions are on their way before the first answer is waited for.
        first, last = self._offsets(partitions, spec.earliest()), self._offsets(partitions, spec.latest())
        return BrokerTopics(ids, self._answers(first), self._answers(last))

    def offsets_at(self, partitions: Iterable[KafkaPartition], milliseconds: int) -> dict[KafkaPartition, int | None]:
        """The first record of each partition at or after a time; None where there is none."""
        wanted = list(partitions)
        if not wanted:
            return {}
        found = self._answers(self._offsets(wanted, self._offset_spec().for_timestamp(milliseconds)))
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    def close(self) -> None:
        self._admin = None

    def _described(self, topics: list[str]) -> dict[str, Any]:
        if not topics:
            return {}
        kafka = self._module()
        collection = kafka.TopicCollection(topics)
        futures = self._ask(lambda: self._client().describe_topics(collection, request_timeout=ANSWER_SECONDS))
        found = {}
        for name, future in futures.items():
            try:
                found[name] = future.result()
            except kafka.KafkaException as error:
                if error.args[0].code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._failure(error) from error
        return found

    def _offsets(self, partitions: list[KafkaPartition], spec: Any) -> dict[Any, Future[Any]]:
        kafka = self._module()
        asked = {kafka.TopicPartition(one.topic, one.number): spec for one in partitions}
        committed = kafka.IsolationLevel.READ_COMMITTED
        client = self._client()
        found: dict[Any, Future[Any]] = self._ask(
            lambda: client.list_offsets(asked, isolation_level=committed, request_timeout=ANSWER_SECONDS)
        )
        return found

    def _answers(self, futures: Mapping[Any, Future[Any]]) -> dict[KafkaPartition, int]:
        return {
            KafkaPartition(tp.topic, tp.partition): self._ask(future.result).offset for tp, future in futures.items()
        }

    def _client(self) -> Any:
        if self._admin is None:
            settings = client_settings(self.spec, self.locate)
            optional = {key for key in settings if key in self.spec.options or f"kafka.{key}" in self.spec.options}
            self._admin = self._connected(settings, optional)
        return self._admin

    def _connected(self, settings: dict[str, Any], optional: set[str]) -> Any:
        """A client. Some of the user's options are known to Spark's client only: this one goes without them."""
        kafka = self._module()
        admin = require_extra("kafka", "confluent_kafka.admin")
        while True:
            try:
                return admin.AdminClient({**settings, "error_cb": self._note})
            except kafka.KafkaException as error:
                unknown = _UNKNOWN_PROPERTY.search(str(error))
                if unknown is None or unknown[1] not in optional:
                    raise UsageError(
                        Code.INVALID_VALUE,
                        f"the Kafka client can't be set up: {error.args[0].str()}",
                        where=self.spec.where,
                    ) from error
                settings = {key: value for key, value in settings.items() if key != unknown[1]}

    def _note(self, error: Any) -> None:
        self._said = error.str()

    def _ask(self, question: Any) -> Any:
        kafka = self._module()
        try:
            return question()
        except kafka.KafkaException as error:
            raise self._failure(error) from error

    def _failure(self, error: Any) -> HeadwaterError:
        reason = error.args[0]
        if _REFUSED.search(reason.name()):
            return UsageError(
                Code.SOURCE_UNAVAILABLE,
                f"the brokers {self.spec.brokers} refuse: {reason.str()}",
                where=self.spec.where,
                hint="check `security` and the rights of its user",
            )
        said = f" ({self._said})" if self._said else ""
        return self.gone(f"{reason.str()}{said}")

    def gone(self, why: str) -> TransientError:
        """The brokers do not answer, by their names."""
        return TransientError(
            Code.SOURCE_UNAVAILABLE,
            f"the brokers {self.spec.brokers} can't be reached: {why}",
            where=self.spec.where,
            hint="check that they run and that `brokers` and `security` are right",
        )

    def _unknown(self, topic: str) -> TransientError:
        close = nearest(topic, self.names())
        return TransientError(
            Code.SOURCE_UNAVAILABLE,
            f"there is no topic '{topic}' at {self.spec.brokers}",
            where=self.spec.where,
            hint=f"did you mean '{close}'?" if close else "it is looked for again",
        )

    @staticmethod
    def _module() -> Any:
        return require_extra("kafka", "confluent_kafka")

    @staticmethod
    def _offset_spec() -> Any:
        return require_extra("kafka", "confluent_kafka.admin").OffsetSpec
