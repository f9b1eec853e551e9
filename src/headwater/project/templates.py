"""Projects to begin with: each passes `check`, and those on files run with the sample data they bring."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.project.load.files import NAMES
from headwater.project.names import slug

DEFAULT = "shop"

_FOLDER = files("headwater.project") / "examples"
_NAME = "PROJECT_NAME"
_BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc)


def template_names() -> list[str]:
    return sorted(entry.name.removesuffix(".yml") for entry in _FOLDER.iterdir() if entry.name.endswith(".yml"))


def write_project(folder: Path, template: str = DEFAULT) -> list[Path]:
    """Write a project into a folder; nothing is written over what is there. Returns the files made."""
    if template not in template_names():
        message = f"there is no template '{template}'"
        raise UsageError(Code.USAGE, message, hint=did_you_mean(template, template_names()))
    texts = _texts(folder.resolve().name, template)
    try:
        taken = [folder / name for name in (*NAMES, *texts) if (folder / name).exists()]
        if taken:
            raise UsageError(
                Code.ALREADY_EXISTS,
                f"{taken[0]} is there already",
                hint="choose another folder, or remove it",
            )
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(Code.STORAGE_FAILED, f"{folder} can't be written: {error.strerror}") from None
    return [folder / name for name in texts]


def _texts(folder_name: str, template: str) -> dict[str, str]:
    project = (_FOLDER / f"{template}.yml").read_text(encoding="utf-8")
    texts = {"headwater.yml": project.replace(_NAME, slug(folder_name)), ".gitignore": "lake/\n.headwater/\n"}
    rows = _SAMPLES.get(template)
    if rows is None:
        return texts
    for number, part in enumerate(_parts(list(rows()), 3), start=1):
        lines = (json.dumps(row, separators=(", ", ": ")) for row in part)
        texts[f"landing/part-{number}.json"] = "".join(f"{line}\n" for line in lines)
    return texts


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


_SAMPLES: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {"shop": _orders, "files": _readings}
