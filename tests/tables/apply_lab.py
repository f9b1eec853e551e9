"""Streams of captured changes, and what they come to, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROW = "struct<id: bigint, name: string, doc: string>"
AWKWARD = {"name": "last", "doc": "before"}
"""Names that whoever applies changes might think of too."""
TOPIC = f"_op string, _position string, event_timestamp timestamp, _unchanged array<string>, before {ROW}, after {ROW}"
OPS = 150
FIRST = 20
"""The sequences of what is drawn begin here."""
KEYS, CALM = 20, 8
"""Rows of the database have keys from 1 on. The changes of the first few arrive in order, and once."""


class Row(NamedTuple):
    id: int
    name: str | None = None
    doc: str | None = None


Values = tuple[str | None, str | None]


@dataclass(frozen=True)
class Event:
    """One captured change."""

    n: int
    op: str
    at: int
    before: Row | None = None
    after: Row | None = None
    unchanged: tuple[str, ...] = ()

    @property
    def time(self) -> datetime:
        return BEGIN + timedelta(seconds=self.at)

    def row(self) -> tuple[Any, ...]:
        """As TOPIC has it, with the sequence as its position."""
        return (self.op, f"{self.n:06d}", self.time, list(self.unchanged), self.before, self.after)

    def record(self) -> dict[str, Any]:
        """As a program appends it: its position is when it arrives."""
        sides = {"before": self.before, "after": self.after}
        rows = {side: None if row is None else _awkward(row) for side, row in sides.items()}
        told = {
            "n": self.n,
            "lsn": lsn(self.n),
            "word": word(self.n),
            "_op": self.op,
            "event_timestamp": self.time.isoformat(),
        }
        return {**told, "_unchanged": [AWKWARD[name] for name in self.unchanged], **rows}


def lsn(n: int) -> str:
    """As a database counts what it writes: a text that sorts as the number does."""
    return f"{n >> 4:08X}/{n % 16:08X}"


def word(n: int) -> str:
    """A text that sorts as the number does."""
    return "abcdefghij"[n // 100 % 10] + "abcdefghij"[n // 10 % 10] + "abcdefghij"[n % 10]


def _awkward(row: Row) -> dict[str, Any]:
    return {AWKWARD.get(name, name): value for name, value in row._asdict().items()}


def frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    return spark.createDataFrame([event.row() for event in events], TOPIC)


class Op(NamedTuple):
    """What is done to the database, and what becomes of its change on the way."""

    kind: str
    key: int
    to: int
    gap: bool
    """A value that stays as it is, is not sent."""
    tied: bool
    """It follows the change before it, with the same sequence, and mostly of the same row."""
    clock: int
    late: bool
    """It arrives with the second step."""
    again: bool
    """It is sent once more then."""


def _now_and_then(one_in: int) -> st.SearchStrategy[bool]:
    return st.integers(0, one_in - 1).map(lambda dice: dice == one_in // 2)


_OP = st.builds(
    Op,
    kind=st.sampled_from(["", "put", "put", "move", "put", "delete", "put", "move", "put", "move", "truncate", "put"]),
    key=st.integers(1, KEYS),
    to=st.integers(1, KEYS),
    gap=st.booleans(),
    tied=_now_and_then(3),
    clock=st.sampled_from([1, 0, 2, -3]),
    late=_now_and_then(3),
    again=_now_and_then(6),
)


@st.composite
def streams(draw: st.DrawFn) -> list[list[Event]]:
    """The changes of a database with a few rows, in two steps: late, doubled, of the same sequence.

    The list of what is done has a fixed length, as Hypothesis prefers short ones: what shrinks becomes nothing.
    """
    steps: list[list[Event]] = [[], []]
    rows: dict[int, Values] = {}
    n, clock, last = FIRST, FIRST, 0
    for at, op in enumerate(draw(st.lists(_OP, min_size=OPS, max_size=OPS))):
        tied = op.tied and last > 0
        event = _done(rows, op._replace(key=last) if tied else op, n + (not tied), clock + op.clock, at)
        if event is None:
            continue
        n, clock = event.n, max(clock, event.at)
        row = event.after or event.before
        last = row.id if row else 0  # what a truncate took along must be told by its order
        calm = 0 < last <= CALM
        steps[at >= OPS // 2 or (op.late and not calm)].append(event)
        if op.again and not calm:
            steps[-1].append(event)
    return steps


def _done(rows: dict[int, Values], op: Op, n: int, at: int, number: int) -> Event | None:
    """What the database sends. A move leaves a value out only where all is in order: no late one is followed."""
    old, is_calm = rows.get(op.key), op.key <= CALM
    new = Row(op.key, f"n{number}", f"d{number}")
    if op.kind == "truncate" and not op.tied and op.gap and op.to % 3 == 0:
        rows.clear()
        return Event(n, "t", at)
    if op.kind == "put" and old is None:
        rows[op.key] = (new.name, new.doc)
        return Event(n, "i", at, after=new)
    if op.kind == "put" and op.gap:
        assert old is not None
        rows[op.key] = (new.name, old[1])
        return Event(n, "u", at, after=new._replace(doc=None), unchanged=("doc",))
    if op.kind == "put":
        rows[op.key] = (new.name, new.doc)
        return Event(n, "u", at, before=Row(op.key), after=new)
    if op.kind == "delete" and old is not None:
        del rows[op.key]
        return Event(n, "d", at, before=Row(op.key))
    to = op.to % CALM + 1 if is_calm else op.to % (KEYS - CALM) + CALM + 1
    if op.kind == "move" and old is not None and to not in rows:
        gap = op.gap and is_calm
        del rows[op.key]
        rows[to] = (new.name, old[1] if gap else new.doc)
        after = new._replace(id=to, doc=None if gap else new.doc)
        return Event(n, "u", at, Row(op.key), after, ("doc",) if gap else ())
    return None


def _put(n: int, id_: int, doc: str | None = "d", before: int | None = None) -> Event:
    row = None if before is None else Row(before)
    return Event(n, "i" if row is None else "u", n, row, Row(id_, f"n{n}", doc), ("doc",) if doc is None else ())


KNOWN = [
    [
        _put(10, 108),
        Event(10, "t", 10),  # takes 108 along, and 102, which comes late; not 109
        _put(10, 109),
        _put(12, 104),
        _put(12, 104, doc=None),  # keeps the value that was sent with the same sequence
        _put(13, 105),
        _put(13, 106, doc=None, before=105),  # takes it along
    ],
    [
        Event(3, "t", 3),  # late, and older than the one that is known
        _put(5, 102),
        _put(11, 104, doc="old"),
    ],
]
"""What has to come right whatever the dice say: order where sequences are the same, and late truncates."""


@dataclass
class Reference:
    """All that has arrived so far, taken in the order of its sequence; what has the same, as it arrived."""

    seen: list[Event] = field(default_factory=list)

    def take(self, events: Iterable[Event]) -> None:
        self.seen += events

    def states(self, *, soft: bool = False) -> dict[int, list[tuple[Event, Values, bool]]]:
        """By key, what became of it by which change: its values, and whether it is gone. Softly, values stay."""
        found: dict[int, list[tuple[Event, Values, bool]]] = {}

        def become(key: int, event: Event, values: Values | None) -> None:
            states = found.setdefault(key, [])
            kept = values or (states[-1][1] if soft and states else (None, None))
            if states and states[-1][0].n == event.n:
                states.pop()
            states.append((event, kept, values is None))

        for event in sorted(self.seen, key=lambda one: one.n):
            if event.op == "t":
                for key in list(found):
                    become(key, event, None)
            elif event.after is None:
                assert event.before is not None
                become(event.before.id, event, None)
            else:
                key, name, doc = event.after
                source = event.before.id if event.before else key
                if "doc" in event.unchanged and source in found:
                    doc = found[source][-1][1][1]
                if source != key:
                    become(source, event, None)
                become(key, event, (name, doc))
        return found

    def latest(self) -> set[tuple[Any, ...]]:
        last = {key: states[-1] for key, states in self.states().items()}
        return {(key, *values) for key, (_, values, gone) in last.items() if not gone}

    def soft(self) -> set[tuple[Any, ...]]:
        """With the last values of those that are gone."""
        last = {key: states[-1] for key, states in self.states(soft=True).items()}
        return {(key, *values, gone) for key, (_, values, gone) in last.items()}

    def history(self, sequence: Callable[[int], Any] = int) -> set[tuple[Any, ...]]:
        """Every state, also those that begin and end at one moment."""
        rows: set[tuple[Any, ...]] = set()
        for key, states in self.states().items():
            begins: list[datetime] = []
            for event, _, _ in states:
                begins.append(max([event.time, *begins[-1:]]))
            for at, (_, values, gone) in enumerate(states):
                end = begins[at + 1] if at + 1 < len(states) else None
                order = [sequence(event.n) for event, _, _ in states[at : at + 2]]
                if not gone:
                    rows.add((key, *values, begins[at], end, end is None, *order, *([None] * (2 - len(order)))))
        return rows


def flat(event: Event) -> dict[str, Any] | None:
    """A row of a topic that knows no more than rows; None for what it can't tell."""
    row = event.after or event.before
    if row is None or (event.before and event.after and event.before.id != event.after.id):
        return None
    return {"id": row.id, "n": event.n, "known": row.name, "gone": event.op == "d"}


def newest(rows: Iterable[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """What flat rows come to, as they arrived."""
    found = {row["id"]: row for row in sorted(rows, key=lambda one: int(one["n"]))}
    return {tuple(row.values()) for row in found.values() if not row["gone"]}


def of_keys(step: Sequence[Event], steps: Iterable[Iterable[Event]], keys: set[int]) -> list[Event]:
    """The changes of a step that concern some keys, and those that rows came to them from."""
    wanted, before = set(keys), set[int]()
    while wanted != before:
        before = set(wanted)
        moves = [event for one in steps for event in one if event.before and event.after]
        wanted |= {event.before.id for event in moves if event.before and event.after and event.after.id in wanted}
    concerned = [{row.id for row in (event.before, event.after) if row} for event in step]
    return [event for event, ids in zip(step, concerned, strict=True) if event.op == "t" or ids & wanted]


def shown(rows: Iterable[Iterable[Any]]) -> set[tuple[Any, ...]]:
    """Rows as the reference has them; none may be there twice."""
    found = [tuple(_aware(value) for value in row) for row in rows]
    assert len(set(found)) == len(found), found
    return set(found)


def _aware(value: Any) -> Any:
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value
