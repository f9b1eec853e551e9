"""Projects to begin with: each passes `check`, brings sample data, and has a README that says what to run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.project.load.files import NAMES
from headwater.project.names import slug

DEFAULT = "shop"

_FOLDER = files("headwater.project") / "examples"
PROJECT_FILE = "headwater.yml"

_KEPT = ("README.md", ".gitignore")
_NAME = "PROJECT_NAME"
_BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc)


def template_names() -> list[str]:
    return sorted(entry.name for entry in _FOLDER.iterdir() if entry.is_dir())


def write_project(folder: Path, template: str = DEFAULT) -> list[Path]:
    """Write a project into a folder; nothing is written over what is there. Returns the files made."""
    if template not in template_names():
        message = f"there is no template '{template}'"
        raise UsageError(Code.USAGE, message, hint=did_you_mean(template, template_names()))
    name = slug(folder.resolve().name)
    texts = {file: (_FOLDER / template / file).read_text(encoding="utf-8") for file in (PROJECT_FILE, "README.md")}
    texts = {file: text.replace(_NAME, name) for file, text in texts.items()}
    return write_files(folder, {**texts, **_SAMPLES[template]()})


def require_room(folder: Path) -> None:
    """Refuse a folder that has a project already."""
    _require_none(folder, NAMES)


def _require_none(folder: Path, names: Iterable[str]) -> None:
    taken = [folder / name for name in names if (folder / name).exists()]
    if taken:
        raise UsageError(Code.ALREADY_EXISTS, f"{taken[0]} already exists", hint="choose another folder, or remove it")


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """A project's files, and what git should leave alone; refused where there is a project already. A README and a
    .gitignore that are there stay as they are."""
    texts = {**texts, ".gitignore": "lake/\n.headwater/\n"}
    texts = {name: text for name, text in texts.items() if name not in _KEPT or not (folder / name).exists()}
    try:
        _require_none(folder, (*NAMES, *texts))
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(Code.STORAGE_FAILED, f"{folder} can't be written: {error.strerror}") from None
    return [folder / name for name in texts]


def _landed(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Three files of JSON lines."""
    parts = enumerate(_parts(list(rows), 3), start=1)
    return {f"landing/part-{number}.json": _lines(part) for number, part in parts}


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, separators=(", ", ": ")) + "\n" for row in rows)


def _parts(rows: list[dict[str, Any]], count: int) -> Iterator[list[dict[str, Any]]]:
    size = -(-len(rows) // count)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _orders() -> Iterator[dict[str, Any]]:
    """Two days of a small shop: every order is placed, most are paid for, some are shipped."""
    chance = random.Random(7)
    number = 0

    def event(kind: str, order: int, at: datetime, **payload: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {
            "event_id": f"e-{number:04}",
            "event_type": kind,
            "event_timestamp": at.isoformat().replace("+00:00", "Z"),
            "aggregate_id": f"order-{order:03}",
            "tenant_id": chance.choice(("north", "south")),
            "event_version": 1,
            **payload,
        }

    found = []
    for order in range(1, 41):
        at = _BEGIN + timedelta(minutes=chance.randrange(2 * 24 * 60), seconds=chance.randrange(60))
        customer, total = f"c-{chance.randrange(12):02}", chance.randrange(500, 20_000) / 100
        lines = [{"sku": f"sku-{chance.randrange(30):02}", "quantity": chance.randrange(1, 4)} for _ in range(2)]
        placed = {"customer_id": customer, "order_total": total, "items": lines}
        found.append(event("OrderPlaced", order, at, **placed))
        if chance.random() < 0.9:
            paid = at + timedelta(minutes=chance.randrange(1, 30))
            found.append(event("PaymentProcessed", order, paid, customer_id=customer, amount=total))
        if chance.random() < 0.6:
            shipped = at + timedelta(hours=chance.randrange(2, 20))
            found.append(event("OrderShipped", order, shipped, customer_id=customer, carrier="post"))
    yield from sorted(found, key=lambda row: str(row["event_timestamp"]))


def _readings() -> Iterator[dict[str, Any]]:
    """Five hours of three thermometers."""
    chance = random.Random(7)
    for minute in range(0, 300, 15):
        for sensor in ("attic", "cellar", "garden"):
            at = (_BEGIN + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
            yield {"sensor": sensor, "measured_at": at, "celsius": round(chance.uniform(4, 24), 1)}


def _clicks() -> Iterator[dict[str, Any]]:
    """Two hours on a web site; a robot is among the visitors, and one click is sent twice."""
    chance = random.Random(7)
    found = []
    for number in range(1, 81):
        at = _BEGIN + timedelta(seconds=chance.randrange(2 * 3600))
        visitor = f"v-{chance.randrange(15):02}"
        found.append(
            {
                "click_id": f"k-{number:03}",
                "at": at.isoformat().replace("+00:00", "Z"),
                "page": chance.choice(("/", "/cart", "/help", "/shoes")),
                "visitor": visitor,
                "robot": visitor == "v-03",
            }
        )
    yield from sorted([*found, found[0]], key=lambda row: str(row["at"]))


_SENSORS = """sensor,place,too_warm
attic,under the roof,20
cellar,beside the wine,12
garden,behind the shed,22
"""
_CUSTOMERS = """CREATE TABLE public.customers (id int PRIMARY KEY, name text NOT NULL, city text NOT NULL, since date);
INSERT INTO public.customers VALUES
  (1, 'Ada', 'London', '2025-03-01'), (2, 'Blaise', 'Paris', '2025-03-02'), (3, 'Carl', 'Berlin', '2025-04-11'),
  (4, 'Dorothea', 'Berlin', '2025-05-20'), (5, 'Emmy', 'Erlangen', '2025-06-30'), (6, 'Felix', 'Berlin', '2025-07-09');
"""

_SAMPLES: dict[str, Callable[[], dict[str, str]]] = {
    "shop": lambda: _landed(_orders()),
    "files": lambda: {**_landed(_readings()), "sensors.csv": _SENSORS},
    "kafka": lambda: {"sample/clicks.ndjson": _lines(_clicks())},
    "cdc": lambda: {"sample/customers.sql": _CUSTOMERS},
}
