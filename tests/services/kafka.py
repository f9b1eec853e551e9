"""A real Kafka broker: one process that is broker and controller; with TLS where openssl makes its certificates."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headwater.spark import connectors
from tests.services.processes import end, free_port, java, start
from tests.services.tls import Identity

LOCK = Path(__file__).with_name("kafka.lock.json")
MEMORY = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
USER = ("reader", 'pass"word')

Record = dict[str, Any]
"""What a producer takes: value, and maybe key, partition, headers, timestamp."""


@dataclass(frozen=True)
class Tls:
    """Where the broker is to be had by TLS, and who trusts whom."""

    broker: Identity
    client: Identity
    address: str
    """Only for who shows the client's certificate."""
    login_address: str
    """Where USER has to log in."""

    @staticmethod
    def make(folder: Path) -> Tls:
        broker, client = (Identity.make(folder, name) for name in ("broker", "client"))
        return Tls(broker, client, *(f"127.0.0.1:{free_port()}" for _ in range(2)))

    def settings(self, folder: Path) -> dict[str, str]:
        """Of the two listeners, `TLS` and `LOGIN`."""
        own = folder / "broker.pem"
        own.write_text(self.broker.key.read_text() + self.broker.certificate.read_text(), encoding="ascii")
        found: dict[str, str] = {}
        for name in ("tls", "login"):
            found |= {
                f"listener.name.{name}.ssl.keystore.type": "PEM",
                f"listener.name.{name}.ssl.keystore.location": str(own),
                f"listener.name.{name}.ssl.truststore.type": "PEM",
                f"listener.name.{name}.ssl.truststore.location": str(self.client.certificate),
            }
        return {**found, "listener.name.tls.ssl.client.auth": "required"}


class Broker:
    """The broker, and what tests do with it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        secure = free_port()
        self.secure_address = f"127.0.0.1:{secure}"
        """Where USER has to log in."""
        self.tls: Tls | None = Tls.make(folder) if shutil.which("openssl") else None
        self._settings = _settings(folder, self.port, secure, free_port(), self.tls)
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


def _settings(folder: Path, port: int, secure: int, controller: int, tls: Tls | None) -> Path:
    user, password = USER
    escaped = password.replace('"', '\\\\"')
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{escaped}";'
    open_to = {"PLAINTEXT": f"127.0.0.1:{port}", "SECURE": f"127.0.0.1:{secure}"}
    if tls is not None:
        open_to |= {"TLS": tls.address, "LOGIN": tls.login_address}
    addresses = ",".join(f"{name}://{address}" for name, address in open_to.items())
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": protocols,
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": login,
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": login,
        **({} if tls is None else tls.settings(folder)),
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
