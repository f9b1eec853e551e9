"""Random streams of captured changes, and what they come to, in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROW = "struct<id: bigint, name: string, doc: string>"
TOPIC = f"_op string, _position string, event_timestamp timestamp, _unchanged array<string>, before {ROW}, after {ROW}"
Values = tuple[str | None, str | None]


@dataclass(frozen=True)
class Event:
    """One captured change; `after` and `before` are (id, name, doc)."""

    n: int
    op: str
    at: int
    before: tuple[int, str | None, str | None] | None = None
    after: tuple[int, str | None, str | None] | None = None
    unchanged: tuple[str, ...] = ()

    @property
    def position(self) -> str:
        return f"{self.n:06d}"

    @property
    def time(self) -> datetime:
        return BEGIN + timedelta(seconds=self.at)

    def row(self) -> tuple[Any, ...]:
        return (self.op, self.position, self.time, list(self.unchanged), self.before, self.after)


def frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    return spark.createDataFrame([event.row() for event in events], TOPIC)


def workload(rng: random.Random, count: int, *, moves_with_gaps: bool) -> list[Event]:
    """What a database with a few rows would send: inserts, updates, deletes, truncates, moved keys, values left out."""
    rows: dict[int, Values] = {}
    events: list[Event] = []
    clock = 0
    for n in range(1, count + 1):
        clock += rng.choice([0, 0, 1, 2])
        at = max(0, clock - rng.choice([0, 0, 0, 3]))  # clocks may go back
        kind = rng.random()
        id_ = rng.randint(1, 6)
        old = rows.get(id_)
        if kind < 0.03:
            rows.clear()
            events.append(Event(n, "t", at))
        elif old is None:
            rows[id_] = (f"n{n}", f"d{n}")
            events.append(Event(n, "i", at, after=(id_, *rows[id_])))
        elif kind < 0.2:
            del rows[id_]
            events.append(Event(n, "d", at, before=(id_, None, None)))
        elif kind < 0.35 and (to := rng.randint(1, 9)) not in rows:
            doc, gap = (None, True) if moves_with_gaps and rng.random() < 0.7 else (f"d{n}", False)
            rows[to] = (f"n{n}", old[1] if gap else doc)
            del rows[id_]
            events.append(Event(n, "u", at, (id_, None, None), (to, f"n{n}", doc), ("doc",) if gap else ()))
        else:
            gap = rng.random() < 0.4
            rows[id_] = (f"n{n}", old[1] if gap else f"d{n}")
            sent = None if gap else f"d{n}"
            events.append(Event(n, "u", at, after=(id_, f"n{n}", sent), unchanged=("doc",) if gap else ()))
    return events


def varied(rng: random.Random, count: int) -> list[Event]:
    """A workload that has each kind of change, whatever the dice say."""
    while True:
        events = workload(rng, count, moves_with_gaps=False)
        kinds = {event.op for event in events}
        moved = any(event.before and event.after for event in events)
        if kinds == {"i", "u", "d", "t"} and moved and any(event.unchanged for event in events):
            return events


def steps_of(rng: random.Random, events: Sequence[Event], count: int, *, shuffled: bool) -> list[list[Event]]:
    """Cut into steps; shuffled, and some of them sent twice."""
    sent = list(events)
    if shuffled:
        rng.shuffle(sent)
        sent += rng.sample(sent, len(sent) // 8)
    cuts = sorted(rng.sample(range(1, len(sent)), count - 1))
    return [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]


@dataclass
class Reference:
    """All that was seen so far, taken in order."""

    seen: dict[int, Event] = field(default_factory=dict)

    def take(self, events: Iterable[Event]) -> None:
        self.seen |= {event.n: event for event in events}

    def states(self) -> dict[int, list[tuple[Event, Values | None]]]:
        """By key, what became of it by which change; None: it was gone."""
        now: dict[int, Values] = {}
        found: dict[int, list[tuple[Event, Values | None]]] = {}

        def become(key: int, event: Event, values: Values | None) -> None:
            found.setdefault(key, []).append((event, values))
            now.pop(key, None)
            if values is not None:
                now[key] = values

        for event in sorted(self.seen.values(), key=lambda one: one.n):
            if event.op == "t":
                for key in list(found):
                    become(key, event, None)
            elif event.op == "d":
                assert event.before is not None
                become(event.before[0], event, None)
            else:
                assert event.after is not None
                key, name, doc = event.after
                source = event.before[0] if event.before else key
                if "doc" in event.unchanged:
                    doc = now[source][1] if source in now else None
                if source != key:
                    become(source, event, None)
                become(key, event, (name, doc))
        return found

    def latest(self) -> set[tuple[Any, ...]]:
        last = {key: states[-1][1] for key, states in self.states().items()}
        return {(key, *values) for key, values in last.items() if values is not None}

    def soft(self) -> set[tuple[Any, ...]]:
        """With the last values of those that are gone; only for streams that leave nothing out."""
        found = set()
        for key, states in self.states().items():
            known = [values for _, values in states if values is not None]
            found.add((key, *(known[-1] if known else (None, None)), states[-1][1] is None))
        return found

    def history(self) -> set[tuple[Any, ...]]:
        rows: set[tuple[Any, ...]] = set()
        for key, states in self.states().items():
            begins: list[datetime] = []
            for event, _ in states:
                begins.append(max([event.time, *begins[-1:]]))
            for at, (_, values) in enumerate(states):
                end = begins[at + 1] if at + 1 < len(states) else None
                if values is not None and end != begins[at]:
                    rows.add((key, *values, begins[at], end, end is None))
        return rows


def shown(df: DataFrame) -> set[tuple[Any, ...]]:
    """Rows as the reference has them; none may be there twice."""
    rows = [tuple(_aware(value) for value in row) for row in df.collect()]
    assert len(set(rows)) == len(rows), rows
    return set(rows)


def _aware(value: Any) -> Any:
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value


def struct(spark: SparkSession, ddl: str = TOPIC) -> StructType:
    return spark.createDataFrame([], ddl).schema
