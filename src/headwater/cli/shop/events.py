"""What happens in the demo's shop: a made-up day of visits and orders, the same one each time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc)
MORNING = timedelta(hours=5)
AFTERNOON = timedelta(hours=10)
CUSTOMERS = 12
BROKEN = '{"event_id": "e-00000", "event_type": "OrderPlaced", "amount": 12.5'
"""Cut off on its way."""


@dataclass(frozen=True)
class Sent:
    """How much was sent, and what was wrong with it."""

    events: int
    late: int = 0
    twice: int = 0
    broken: int = 0
    free: int = 0
    """Orders that cost nothing, which the shop does not expect."""


class ShopEvents:
    """Sends the day's events as files of JSON lines, in the order in which they arrive."""

    def __init__(self, landing: Path, seed: int = 7) -> None:
        self._landing = landing
        self._chance = random.Random(seed)
        self._files = 0
        day = list(_numbered(_day(self._chance)))
        held_back = set(self._chance.sample(range(len(day)), 15))
        self._late = [event for at, event in enumerate(day) if at in held_back and _is_before(event, MORNING)]
        late = {event["event_id"] for event in self._late}
        self._on_time = [event for event in day if event["event_id"] not in late]

    def morning(self) -> Sent:
        """What came in time until noon, in two files."""
        events = [event for event in self._on_time if _is_before(event, MORNING)]
        half = len(events) // 2
        self._send(events[:half])
        self._send(events[half:])
        return Sent(len(events))

    def afternoon(self) -> Sent:
        """The rest of the day; with it events of the morning, some for a second time, and what is wrong."""
        events = [event for event in self._on_time if not _is_before(event, MORNING)]
        morning = [event for event in self._on_time if _is_before(event, MORNING)]
        twice = self._chance.sample(morning, 5)
        free = {"event_id": "e-99999", **_event("OrderPlaced", BEGIN + AFTERNOON, 3, amount=0.0)}
        mixed = [*events, *self._late, *twice, free]
        self._chance.shuffle(mixed)
        self._send(mixed, BROKEN)
        return Sent(len(mixed) + 1, late=len(self._late), twice=len(twice), broken=1, free=1)

    def _send(self, events: list[dict[str, Any]], *broken: str) -> None:
        self._files += 1
        lines = [*(json.dumps(event) for event in events), *broken]
        self._landing.mkdir(exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        (self._landing / f"events-{self._files}.json").write_text(text, encoding="utf-8")


def _day(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Visits; some of them end in an order, most of those are paid for."""
    minutes = int(AFTERNOON.total_seconds()) // 60
    for _ in range(400):
        at = BEGIN + timedelta(minutes=chance.randrange(minutes), seconds=chance.randrange(60))
        customer = chance.randrange(1, CUSTOMERS + 1)
        yield _event("PageViewed", at, customer, page=chance.choice(("home", "boots", "tents", "maps")))
        if chance.random() < 0.4:
            amount = chance.randrange(500, 20_000) / 100
            ordered = at + timedelta(seconds=chance.randrange(60, 600))
            yield _event("OrderPlaced", ordered, customer, amount=amount)
            if chance.random() < 0.9:
                paid = ordered + timedelta(seconds=chance.randrange(60, 900))
                yield _event("PaymentProcessed", paid, customer, amount=amount)


def _event(kind: str, at: datetime, customer: int, **payload: Any) -> dict[str, Any]:
    return {"event_type": kind, "event_timestamp": _text(at), "customer_id": customer, **payload}


def _numbered(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, event in enumerate(sorted(events, key=lambda event: str(event["event_timestamp"])), start=1):
        yield {"event_id": f"e-{number:05}", **event}


def _is_before(event: dict[str, Any], time: timedelta) -> bool:
    return str(event["event_timestamp"]) < _text(BEGIN + time)


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
