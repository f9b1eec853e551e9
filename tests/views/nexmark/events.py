"""Events of an auction house as in Nexmark: persons, auctions and bids, made at random from a seed."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from tests.views.workloads import Fields

KEYS: dict[str, tuple[str, ...]] = {
    "person": ("id",),
    "auction": ("id",),
    "bid": ("id",),
    "side_input": ("key",),
}
_TIME = pa.timestamp("us", tz="UTC")
SCHEMAS: dict[str, pa.Schema] = {
    "person": pa.schema(
        {"id": pa.int64(), "name": pa.string(), "email": pa.string(), "creditcard": pa.string()}
        | {"city": pa.string(), "state": pa.string(), "ts": _TIME, "extra": pa.string()}
    ),
    "auction": pa.schema(
        {"id": pa.int64(), "itemname": pa.string(), "description": pa.string(), "initialbid": pa.int64()}
        | {"reserve": pa.int64(), "ts": _TIME, "expires": _TIME, "seller": pa.int64(), "category": pa.int64()}
        | {"extra": pa.string()}
    ),
    "bid": pa.schema(
        {"id": pa.int64(), "auction": pa.int64(), "bidder": pa.int64(), "price": pa.int64(), "channel": pa.string()}
        | {"url": pa.string(), "ts": _TIME, "extra": pa.string()}
    ),
    "side_input": pa.schema({"key": pa.int64(), "value": pa.string()}),
}
PEOPLE, AUCTIONS, ROUND = 1, 3, 50
"""Of so many events in a row, these are persons and auctions; the others are bids."""
START = datetime(2026, 3, 1, 5, 59, 30, tzinfo=timezone.utc)
STEP = timedelta(milliseconds=250)
LATE = timedelta(microseconds=1)
"""Every event has a time of its own, so that the order by time has no ties."""

STATES = {"OR": "Portland", "ID": "Boise", "CA": "San Francisco", "WA": "Seattle", "AZ": "Phoenix", "WY": "Cheyenne"}
CHANNELS = ("Apple", "Google", "Facebook", "Baidu", "channel-7", "channel-19", "unknown")
CATEGORIES = (10, 11, 12)


class Events:
    """The auction house: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._made = 0
        self._rows: dict[str, dict[int, Fields]] = {name: {} for name in KEYS}
        self._rows["side_input"] = {key: {"key": key, "value": f"side {key}"} for key in range(10)}

    def tables(self) -> dict[str, pa.Table]:
        """All that is there now."""
        return {
            name: pa.Table.from_pylist(list(rows.values()), schema=SCHEMAS[name]) for name, rows in self._rows.items()
        }

    def happen(self, count: int) -> dict[str, list[Fields]]:
        """The next events."""
        found: dict[str, list[Fields]] = {name: [] for name in KEYS}
        for _ in range(count):
            name, row = self._event()
            self._rows[name][row["id"]] = row
            found[name].append(row)
        return found

    def cycle(self, count: int) -> dict[str, tuple[list[Fields], list[Fields]]]:
        """New events, some of them late; and some of those there are corrected or withdrawn."""
        came: dict[str, dict[int, Fields]] = {name: {} for name in KEYS}
        went: dict[str, dict[int, Fields]] = {name: {} for name in KEYS}
        for name in ("bid", "auction", "person"):
            for id in self._some(name, 2 if name == "bid" else 1):
                went[name][id] = self._rows[name].pop(id)
        for name, made in (("bid", 3), ("auction", 1), ("person", 1)):
            for id in self._some(name, made):
                came[name][id] = self._rows[name][id] = self._corrected(name, self._rows[name][id])
        [key] = self._some("side_input", 1)
        came["side_input"][key] = self._rows["side_input"][key] = {"key": key, "value": f"side {self._made}"}
        for name, rows in self.happen(count).items():
            came[name] |= {row["id"]: row for row in rows}
        [late] = self._some("bid", 1)
        came["bid"][late] = self._rows["bid"][late] = {
            **self._rows["bid"][late],
            "ts": START + STEP * self._random.randrange(self._made) + LATE * late,
        }
        return {
            name: (list(came[name].values()), list(went[name].values())) for name in KEYS if came[name] or went[name]
        }

    def _event(self) -> tuple[str, Fields]:
        number, self._made = self._made, self._made + 1
        turn = number % ROUND
        ts = START + STEP * number
        common: Fields = {"id": number, "ts": ts, "extra": self._text(12)}
        if turn < PEOPLE:
            return "person", {**common, **self._person(number)}
        if turn < PEOPLE + AUCTIONS:
            return "auction", {**common, **self._auction(ts)}
        return "bid", {**common, **self._bid()}

    def _person(self, number: int) -> Fields:
        state = self._random.choice(list(STATES))
        card = " ".join(f"{self._random.randrange(10_000):04}" for _ in range(4))
        name = f"{self._text(5)} {self._text(7)}"
        email = f"{name.replace(' ', '.')}@example.com"
        return {"name": name, "email": email, "creditcard": card, "city": STATES[state], "state": state}

    def _auction(self, ts: datetime) -> Fields:
        first = self._price()
        return {
            "itemname": self._text(8),
            "description": self._text(20),
            "initialbid": first,
            "reserve": first + self._price(),
            "expires": ts + STEP * self._random.randint(10, 120),
            "seller": self._recent("person", 5),
            "category": self._random.choice(CATEGORIES),
        }

    def _bid(self) -> Fields:
        channel = self._random.choice(CHANNELS)
        number = channel.rpartition("-")[2]
        query = f"&channel_id={number}" if number.isdigit() else ""
        path = "/".join(self._text(3) for _ in range(3))
        return {
            "auction": self._recent("auction", 6),
            "bidder": self._recent("person", 5),
            "price": self._price(),
            "channel": channel,
            "url": f"https://www.example.com/{path}/item.htm?query=1{query}",
        }

    def _corrected(self, name: str, row: Fields) -> Fields:
        ways: list[Fields] = [{"state": self._random.choice(["OR", None]), "name": self._text(5)}]
        if name == "bid":
            ways = [{"price": self._price()}, {"auction": None}, {"bidder": None, "channel": None}]
        elif name == "auction":
            ways = [{"category": self._random.choice(CATEGORIES), "expires": row["expires"] - STEP * 5}]
        return {**row, **self._random.choice(ways)}

    def _price(self) -> int:
        return round(10 ** (self._random.random() * 6) * 100)

    def _recent(self, name: str, count: int) -> int | None:
        """One of the last ones: those that are hot."""
        known = list(self._rows[name])[-count:]
        return self._random.choice(known) if known else None

    def _text(self, length: int) -> str:
        return "".join(self._random.choices("abcdefgh", k=length))

    def _some(self, name: str, count: int) -> list[Any]:
        rows = self._rows[name]
        return self._random.sample(list(rows), min(count, len(rows)))
