"""How far the exports to a cluster are: a compacted topic that is written in the same transactions as the rows.

Committed offsets of a consumer group would do it too, but brokers forget those a week after the last commit: a stream
that rests for longer would write its last step twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import Code, TransientError
from headwater.core.model import CommitTag
from headwater.targets.kafka.clients import Clients

TOPIC = "_headwater_exports"
_CONFIG = {"cleanup.policy": "compact", "segment.ms": str(3_600_000), "min.cleanable.dirty.ratio": "0.1"}
_BLOCK = 2_000
"""Records read at a time, from the end back to the beginning."""
_MAKING = 30.0
"""Seconds until all brokers know a topic."""
_PATIENCE = 180.0
"""Seconds that another export's transaction may be open while its records lie before the end."""


@dataclass(frozen=True)
class TopicPosition:
    """How far the copy in a topic is."""

    flow: str
    topic: str
    epoch: int | None
    step: int | None
    source: Mapping[str, Any]

    def has(self, tag: CommitTag) -> bool:
        """Whether a step of its flow is in the topic."""
        return self.epoch is not None and self.step is not None and (self.epoch, self.step) >= (tag.epoch, tag.step)

    @property
    def key(self) -> bytes:
        return json.dumps([self.flow, self.topic]).encode()

    def value(self) -> bytes:
        stored = {"flow": self.flow, "topic": self.topic, "epoch": self.epoch, "step": self.step}
        return json.dumps({**stored, "source": dict(self.source)}, sort_keys=True).encode()

    @staticmethod
    def parse(value: bytes | None) -> TopicPosition | None:
        """None: somebody else's record."""
        try:
            found = json.loads(value or b"")
            return TopicPosition(found["flow"], found["topic"], found["epoch"], found["step"], found["source"])
        except (ValueError, KeyError, TypeError):
            return None


def prepare(clients: Clients) -> None:
    """Make the topic, if it is not there."""
    if not clients.partitions(TOPIC):
        clients.create(TOPIC, _CONFIG)
        until = time.monotonic() + _MAKING
        while not clients.partitions(TOPIC) and time.monotonic() < until:
            time.sleep(0.1)


def last_position(clients: Clients, of: Callable[[TopicPosition], bool]) -> TopicPosition | None:
    """The newest committed one that is meant."""
    partitions = clients.partitions(TOPIC)
    if not partitions:
        return None
    low, high = clients.ends(partitions)[partitions[0]]
    end = high
    while end > low:
        begin = max(low, end - _BLOCK)
        found = None
        for message in read(clients, {partitions[0]: (begin, end)}, committed=True):
            position = TopicPosition.parse(message.value())
            if position is not None and of(position):
                found = position
        if found is not None:
            return found
        end = begin
    return None


def read(clients: Clients, ranges: Mapping[tuple[str, int], tuple[int, int]], *, committed: bool) -> Iterator[Any]:
    """The records between offsets. Waits for transactions that are open there; records that were taken back, and the
    marks of transactions, are none."""
    wanted = {one: end for one, (begin, end) in ranges.items() if begin < end}
    if not wanted:
        return
    level = "read_committed" if committed else "read_uncommitted"
    consumer = clients.consumer(
        **{"isolation.level": level, "enable.partition.eof": True, "auto.offset.reset": "error"}
    )
    try:
        with clients.reaching():
            assigned = clients.partitions_at({one: ranges[one][0] for one in wanted})
            consumer.assign(assigned)
            until = time.monotonic() + _PATIENCE
            while wanted:
                for message in consumer.consume(10_000, timeout=0.5):
                    one = (message.topic(), message.partition())
                    error = message.error()
                    if error is not None and not clients.is_end(error):
                        raise clients.failure(error)
                    if one not in wanted:
                        continue
                    if message.offset() >= wanted[one]:
                        del wanted[one]
                        continue
                    if error is None:
                        yield message
                        if message.offset() == wanted[one] - 1:
                            del wanted[one]
                if time.monotonic() > until:
                    raise TransientError(
                        Code.EXPORT_UNAVAILABLE,
                        f"a transaction of another producer has been open in {next(iter(wanted))[0]} for long",
                        hint="it is tried again",
                    )
    finally:
        consumer.close()
