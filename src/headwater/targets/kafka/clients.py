"""The clients of a cluster that an export talks with, and what the brokers' refusals mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, UsageError
from headwater.core.extras import require_extra
from headwater.sources.kafka.settings import client_settings
from headwater.targets.kafka.address import KafkaAddress

ANSWER_SECONDS = 20
_REFUSED = ("AUTHENTICATION", "AUTHORIZATION")
_FENCED = ("FENCED", "INVALID_PRODUCER_EPOCH")


class Clients:
    """Makes the clients of one cluster."""

    def __init__(self, address: KafkaAddress, root: str) -> None:
        """`root`: the project's folder, which its certificates are named from."""
        self.address = address
        # The source's free options are those of its consumers.
        cluster = address.cluster.model_copy(update={"options": {}})
        self._settings = client_settings(cluster, lambda path: str(Path(root, path)))
        self._kafka = require_extra("kafka", "confluent_kafka")
        self._admin_module = require_extra("kafka", "confluent_kafka.admin")
        self._said = ""

    def producer(self, **settings: Any) -> Any:
        return self._kafka.Producer({**self._settings, "error_cb": self._note, **settings})

    def consumer(self, **settings: Any) -> Any:
        """One without a group: it is told what to read."""
        own = {"group.id": "headwater-exports", "enable.auto.commit": False, "enable.auto.offset.store": False}
        return self._kafka.Consumer({**self._settings, **own, "error_cb": self._note, **settings})

    @cached_property
    def _admin(self) -> Any:
        return self._admin_module.AdminClient({**self._settings, "error_cb": self._note})

    def ends(self, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Where each partition begins, and where it ends with what is not committed yet."""
        spec, level = self._admin_module.OffsetSpec, self._kafka.IsolationLevel.READ_UNCOMMITTED
        found = []
        with self.reaching():
            for offset in (spec.earliest(), spec.latest()):
                asked = {self._kafka.TopicPartition(*one): offset for one in partitions}
                answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_SECONDS)
                found.append({(tp.topic, tp.partition): answer.result().offset for tp, answer in answers.items()})
        return {one: (found[0][one], found[1][one]) for one in partitions}

    def partitions(self, topic: str) -> list[tuple[str, int]]:
        """The partitions of a topic; none if it is not there."""
        with self.reaching():
            known = self._admin.list_topics(timeout=ANSWER_SECONDS).topics.get(topic)
        return [] if known is None else [(topic, number) for number in sorted(known.partitions)]

    def topics(self) -> list[str]:
        with self.reaching():
            return sorted(n for n in self._admin.list_topics(timeout=ANSWER_SECONDS).topics if not n.startswith("_"))

    def create(self, topic: str, config: dict[str, str]) -> None:
        """A topic of one partition, with as many copies as the brokers make by default."""
        made = self._admin_module.NewTopic(topic, num_partitions=1, replication_factor=-1, config=config)
        with self.reaching():
            try:
                self._admin.create_topics([made], request_timeout=ANSWER_SECONDS)[topic].result()
            except self._kafka.KafkaException as error:
                if error.args[0].code() != self._kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """What the client raises inside, as an error of ours."""
        try:
            yield
        except self._kafka.KafkaException as error:
            raise self.failure(error.args[0]) from error

    def failure(self, reason: Any) -> HeadwaterError:
        brokers, where = self.address.cluster.brokers, self.address.where
        if any(one in reason.name() for one in _FENCED):
            return TerminalError(
                Code.LEASE_LOST,
                f"another process exports to {self.address.topic} as the same flow; nothing more is written here",
                where=where,
            )
        if any(one in reason.name() for one in _REFUSED):
            message = f"the brokers {brokers} refuse: {reason.str()}"
            hint = "check `security` of the source, and that its user may write to the topic, in transactions"
            return UsageError(Code.EXPORT_REFUSED, message, where=where, hint=hint)
        if reason.name() in ("MSG_SIZE_TOO_LARGE", "INVALID_CONFIG", "INVALID_TRANSACTION_TIMEOUT"):
            return TerminalError(Code.EXPORT_REFUSED, f"the brokers {brokers} refuse: {reason.str()}", where=where)
        said = f" ({self._said})" if self._said else ""
        return TransientError(
            Code.EXPORT_UNAVAILABLE,
            f"the brokers {brokers} can't be reached: {reason.str()}{said}",
            where=where,
            hint="check that they run and that `brokers` and `security` are right",
        )

    @property
    def error(self) -> type[Exception]:
        """What the clients raise."""
        found: type[Exception] = self._kafka.KafkaException
        return found

    def timed_out(self) -> Any:
        return self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT)

    def is_end(self, error: Any) -> bool:
        """Whether a consumer only says that it has come to the end of a partition."""
        found: bool = error.code() == self._kafka.KafkaError._PARTITION_EOF
        return found

    def partitions_at(self, offsets: Mapping[tuple[str, int], int]) -> list[Any]:
        """Partitions as a consumer is given them."""
        return [self._kafka.TopicPartition(*one, offset) for one, offset in offsets.items()]

    def _note(self, error: Any) -> None:
        self._said = error.str()
