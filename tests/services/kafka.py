"""A real Kafka broker: one process that is broker and controller."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headwater import connectors
from tests.services.processes import end, free_port, java, start

LOCK = Path(__file__).with_name("kafka.lock.json")
MEMORY = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
USER = ("reader", 'pass"word')

Record = dict[str, Any]
"""What a producer takes: value, and maybe key, partition, headers, timestamp."""


class Broker:
    """The broker, and what tests do with it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        secure = free_port()
        self.secure_address = f"127.0.0.1:{secure}"
        """Where USER has to log in."""
        self._settings = _settings(folder, self.port, secure, free_port())
        self._log = folder / "kafka.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        self._java = [java(), *MEMORY, "-cp", _class_path()]

    def format(self) -> None:
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings)]
        subprocess.run(command, check=True, capture_output=True)

    def start(self) -> None:
        self._process = start([*self._java, "kafka.Kafka", str(self._settings)], self._log, self._is_up)

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)
            self._process = None

    def create(self, *topics: str, partitions: int = 1) -> None:
        _done(self.admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]))
        self._until(lambda: set(topics) <= set(self.admin.list_topics(timeout=5).topics))

    def drop(self, topic: str) -> None:
        _done(self.admin.delete_topics([topic]))
        self._until(lambda: topic not in self.admin.list_topics(timeout=5).topics)

    def grow(self, topic: str, partitions: int) -> None:
        _done(self.admin.create_partitions([NewPartitions(topic, partitions)]))
        self._until(lambda: len(self.admin.list_topics(timeout=5).topics[topic].partitions) == partitions)

    def expire(self, topic: str, partition: int, before: int) -> None:
        """As retention does it: what lies before an offset is gone."""
        _done(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def send(self, topic: str, records: Iterable[Record], **settings: Any) -> None:
        """Records with a `value` each; with a `transactional.id` all in one transaction, not ended here."""
        producer = self.producer(**settings)
        for record in records:
            producer.produce(topic, **{"partition": 0, **record})
        assert producer.flush(20) == 0

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.address, "log_level": 0, **settings})

    def _is_up(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    @staticmethod
    def _until(holds: Callable[[], bool]) -> None:
        until = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < until, "the broker did not follow"
            time.sleep(0.05)


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker whose data lie in `folder`."""
    kafka = Broker(folder)
    kafka.format()
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.stop()


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(20)


def _settings(folder: Path, port: int, secure: int, controller: int) -> Path:
    user, password = USER
    escaped = password.replace('"', '\\\\"')
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{escaped}";'
        ),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "num.partitions": "1",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "file.delete.delay.ms": "100",
        "log.retention.ms": "-1",  # tests write records of long ago
    }
    path = folder / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    return path


def _class_path() -> str:
    jars = connectors.ensure(["kafka-broker"], lock=connectors.load_lock(LOCK))
    return ":".join(map(str, jars))
