"""Positions in Kafka topics, what is lost between a position and what the brokers still have, and fair shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class KafkaPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int


Offsets = dict[KafkaPartition, int]


@dataclass(frozen=True)
class BrokerTopics:
    """Topics as the brokers have them: their ids, and where each partition begins and ends (for committed reads)."""

    ids: Mapping[str, str]
    first: Mapping[KafkaPartition, int]
    end: Mapping[KafkaPartition, int]


@dataclass(frozen=True)
class KafkaPosition:
    """How far topics have been read. In JSON:

    `{"offsets": {"clicks": {"0": 12}}, "ids": {"clicks": "rStn5…"}, "made": {"clicks": 2}, "begin": {…}, "lost": […]}`.
    `offsets` are those of the next records; `ids` tell a topic that was made again from the old one, and `made` says
    how often it has been made by now, where that is more than once. `begin` says
    where the range that ends here began in partitions where that is not where the range before it ended: partitions
    just found, and those that something was lost of. `lost` says what.
    """

    offsets: Offsets = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    begin: Offsets = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    made: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(position: Any) -> KafkaPosition:
        if position is None:
            return KafkaPosition()
        return KafkaPosition(
            _flat(position["offsets"]),
            dict(position.get("ids", {})),
            _flat(position.get("begin", {})),
            tuple(position.get("lost", ())),
            dict(position.get("made", {})),
        )

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"offsets": _nested(self.offsets), "ids": self.ids}
        if self.made:
            found["made"] = self.made
        if self.begin:
            found["begin"] = _nested(self.begin)
        if self.lost:
            found["lost"] = list(self.lost)
        return found


@dataclass(frozen=True)
class Slice:
    """A run of one partition's records: from an offset up to, and without, another."""

    partition: KafkaPartition
    start: int
    end: int


@dataclass(frozen=True)
class Loss:
    """Records that are gone before they were read."""

    topic: str
    why: str
    partition: int | None = None
    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        place = f"topic '{self.topic}'" + ("" if self.partition is None else f", partition {self.partition}")
        if self.start is None:
            return f"{place}: {self.why}"
        end = "on" if self.end is None else f"to {self.end - 1}"
        return f"{place}, offsets {self.start} {end}: {self.why}"


EXPIRED = "they have expired"
CUT = "the partition now ends before them"
DELETED = "the topic has been deleted"
MADE_AGAIN = "the topic has been deleted and made again"


def resumed(known: KafkaPosition, seen: BrokerTopics, wanted: Iterable[str]) -> tuple[Offsets, list[Loss]]:
    """Where reading goes on in the wanted topics' partitions that have been read before, and what is lost of them."""
    offsets: Offsets = {}
    losses: list[Loss] = []
    chosen = set(wanted)
    for topic in sorted({one.topic for one in known.offsets} & chosen):
        mine = sorted(one for one in known.offsets if one.topic == topic)
        if topic not in seen.ids:
            losses += [Loss(topic, DELETED, one.number, known.offsets[one]) for one in mine]
        elif known.ids.get(topic, seen.ids[topic]) != seen.ids[topic]:
            losses += [Loss(topic, MADE_AGAIN, one.number, known.offsets[one]) for one in mine]
            offsets.update({one: first for one, first in seen.first.items() if one.topic == topic})
        else:
            for one in mine:
                at, loss = _checked(one, known.offsets[one], seen)
                losses += [loss] if loss else []
                if at is not None:
                    offsets[one] = at
    return offsets, losses


def _checked(one: KafkaPartition, at: int, seen: BrokerTopics) -> tuple[int | None, Loss | None]:
    if one not in seen.end:
        return None, Loss(one.topic, CUT, one.number, at)
    if seen.first[one] > at:
        return seen.first[one], Loss(one.topic, EXPIRED, one.number, at, seen.first[one])
    if seen.end[one] < at:
        return seen.end[one], Loss(one.topic, CUT, one.number, seen.end[one], at)
    return at, None


def slices(start: KafkaPosition, end: KafkaPosition) -> list[Slice]:
    """The records of a range."""
    found = []
    for one, until in sorted(end.offsets.items()):
        begun = end.begin.get(one, start.offsets.get(one, until))
        if until > begun:
            found.append(Slice(one, begun, until))
    return found


def still_there(asked: Iterable[Slice], ids: Mapping[str, str], seen: BrokerTopics) -> tuple[list[Slice], list[Loss]]:
    """What can still be read of a range that was fixed earlier."""
    found: list[Slice] = []
    losses: list[Loss] = []
    for one in asked:
        topic, number = one.partition
        if topic not in seen.ids:
            losses.append(Loss(topic, DELETED, number, one.start, one.end))
        elif ids.get(topic, seen.ids[topic]) != seen.ids[topic]:
            losses.append(Loss(topic, MADE_AGAIN, number, one.start, one.end))
        else:
            first, end = seen.first.get(one.partition, 0), seen.end.get(one.partition, 0)
            if first > one.start:
                losses.append(Loss(topic, EXPIRED, number, one.start, min(first, one.end)))
            if end < one.end:
                losses.append(Loss(topic, CUT, number, max(end, one.start), one.end))
            left = Slice(one.partition, max(one.start, first), min(one.end, end))
            if left.start < left.end:
                found.append(left)
    return found, losses


def shared(waiting: Mapping[KafkaPartition, int], limit: int) -> Offsets:
    """At most `limit` records: each partition gets the same share, and what some don't need goes to others."""
    taken: Offsets = {}
    left = limit
    by_size = sorted(waiting.items(), key=lambda item: (item[1], item[0]))
    for done, (one, size) in enumerate(by_size):
        share = -(-left // (len(by_size) - done))
        taken[one] = min(size, share, left)
        left -= taken[one]
    return taken


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        KafkaPartition(topic, int(n)): int(at) for topic, by_number in nested.items() for n, at in by_number.items()
    }


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one, at in sorted(offsets.items()):
        found.setdefault(one.topic, {})[str(one.number)] = at
    return found
