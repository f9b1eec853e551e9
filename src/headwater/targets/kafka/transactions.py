"""The transactions of one export: rows and position are seen together, or not at all.

The producer's `transactional.id` is the flow's and the topic's. Whoever opens it ends what a process that was killed
has left open, and shuts out one that still runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headwater.core.errors import HeadwaterError
from headwater.targets.kafka.clients import Clients

if TYPE_CHECKING:
    import pyarrow as pa

Headers = list[tuple[str, bytes]]
Ranges = dict[tuple[str, int], tuple[int, int]]
"""Partition → the first offset that was written, and the one after the last."""

_BEGIN_SECONDS = 60
_END_SECONDS = 120
_POLL_EVERY = 1_000
_SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 1 << 20,
    "queue.buffering.max.messages": 500_000,
    "partitioner": "murmur2_random",  # as Java's producers do it
}


class Transactions:
    """A producer, opened with the first use, and again after an error."""

    def __init__(self, clients: Clients, id: str, seconds: int) -> None:
        """`seconds`: how long the brokers let a transaction be open."""
        self._clients = clients
        self._settings = {**_SETTINGS, "transactional.id": id, "transaction.timeout.ms": seconds * 1000}
        self._producer: Any = None
        self._error: Any = None
        self.ranges: Ranges = {}
        """What the last transaction has written to the export's topic."""

    def open(self) -> bool:
        """Shut out whoever else has the id; False: it is open already."""
        if self._producer is not None:
            return False
        with self._clients.reaching():
            producer = self._clients.producer(**self._settings)
            producer.init_transactions(_BEGIN_SECONDS)
        self._producer = producer
        return True

    def begin(self) -> None:
        self.open()
        self.ranges, self._error = {}, None
        with self._clients.reaching():
            self._producer.begin_transaction()

    def send(self, topic: str, batches: Iterable[pa.RecordBatch], headers: Headers) -> tuple[int, int]:
        """Write records: the first column is their key, the second their value; returns how many, and their bytes."""
        rows = size = 0
        for batch in batches:
            keys, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
            for key, value in zip(keys, values, strict=True):
                self._produce(topic, key, value, headers)
                size += len(value or b"")
            rows += len(keys)
        return rows, size

    def _produce(self, topic: str, key: Any, value: Any, headers: Headers) -> None:
        producer = self._producer
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=self._delivered, headers=headers)
                return
            except BufferError:  # the queue is full
                producer.poll(0.1)

    def note(self, topic: str, key: bytes, value: bytes) -> None:
        """Write one record of another topic in the same transaction."""
        self._producer.produce(topic, value, key, on_delivery=self._failed)

    def flush(self) -> None:
        """Wait until the brokers have all records."""
        try:
            left = self._producer.flush(_END_SECONDS)
        except SystemError:  # what the client raises in a report of a record, once it was shut out
            left = 1
        if left or self._error is not None:
            raise self._clients.failure(self._reason() or self._error or self._clients.timed_out())

    def _reason(self) -> Any:
        """Why the brokers take no more records: they say so when they are asked to end the transaction."""
        try:
            self._producer.abort_transaction(_END_SECONDS)
        except self._clients.error as error:
            return error.args[0]
        return None

    def commit(self) -> None:
        """All records become visible at once."""
        self.flush()
        with self._clients.reaching():
            self._producer.commit_transaction(_END_SECONDS)

    def abort(self) -> None:
        """None of them do. What follows is a transaction of a new producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.purge()
                with self._clients.reaching():
                    producer.abort_transaction(_END_SECONDS)
            except HeadwaterError:
                pass  # the brokers do it when it is opened again, or when its time is over

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._error = error
            return
        partition, offset = (message.topic(), message.partition()), message.offset()
        first, end = self.ranges.get(partition, (offset, offset))
        self.ranges[partition] = (min(first, offset), max(end, offset + 1))

    def _failed(self, error: Any, message: Any) -> None:
        if error is not None:
            self._error = error
