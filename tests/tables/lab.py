"""A project with one topic of events, for tables that check what comes in and what they show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import yaml

from tests.support import Answer, headwater

SCHEMA = "id bigint, who string, n bigint, at timestamp"
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)

Event = dict[str, Any]


def event(id: int, minute: float, who: str | None = "a", n: int | None = 1) -> Event:
    """At so many minutes after BEGIN."""
    at = BEGIN + timedelta(minutes=minute)
    return {"id": id, "who": who, "n": n, "at": at.isoformat().replace("+00:00", "Z")}


class Lab:
    """Lands events, runs, and looks at what became of them."""

    def __init__(self, root: Path, tables: dict[str, Any], format: str = "delta", code: str = "") -> None:
        self.root = root
        (root / "lab.py").write_text(code, encoding="utf-8")
        self._landed = 0
        (root / "landing").mkdir()
        (root / "people.csv").write_text("who,name\na,Ann\nb,Bea\n", encoding="utf-8")
        self.write(tables, format)

    def write(self, tables: dict[str, Any], format: str = "delta") -> None:
        project: dict[str, Any] = {
            "name": "lab",
            "format": format,
            "code": "lab.py",
            "sources": {"landing": {"type": "files", "path": "./landing", "schema": SCHEMA}},
            "topics": {"events": {"from": "landing"}},
            "tables": dict(tables),
        }
        if "people" in json.dumps(tables):
            project["tables"]["people"] = {"seed": "people.csv", "keys": ["who"]}
        (self.root / "headwater.yml").write_text(yaml.safe_dump(project, sort_keys=False), encoding="utf-8")

    def land(self, events: Iterable[Event]) -> None:
        self._landed += 1
        text = "".join(json.dumps(one) + "\n" for one in events)
        (self.root / "landing" / f"{self._landed:04d}.json").write_text(text, encoding="utf-8")

    def run(self, *more: str) -> Answer:
        return self.answer("run", "--once", "--json", *more)

    def fed(self, *events: Event, flows: Sequence[str] = ()) -> None:
        """Land events and take them in."""
        self.land(events)
        ran = self.run(*flows)
        assert ran.code == 0, ran.out + ran.err

    def failed(self, *events: Event) -> dict[str, dict[str, Any]]:
        """Land events that flows fail at: what each of them says."""
        self.land(events)
        ran = self.run()
        assert ran.code == 1
        return {one["flow"]: one for one in ran.events if one["event"] == "failed"}

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        found = self.answer("query", f"SELECT {columns} FROM table('{table}')", "--json")
        assert found.code == 0, found.err
        return sorted((tuple(row.values()) for row in found.json), key=repr)

    def checks(self, table: str) -> dict[str, Any]:
        """What has been counted, as `table describe` tells it."""
        told: dict[str, Any] = self.answer("table", "describe", table, "--json").json["checks"]
        return told

    def dead_letters(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.answer("dlq", "list", "--topic", f"tables.{table}", "--json").json
        return found

    def answer(self, *words: str) -> Answer:
        return headwater(*words, "--project", self.root)


def on_time(steps: Sequence[Sequence[Event]], delay: timedelta) -> tuple[list[Event], int]:
    """The events that are not late, step by step, and how many are: the rule in plain Python."""
    line: datetime | None = None
    kept: list[Event] = []
    for step in steps:
        times = [datetime.fromisoformat(one["at"].replace("Z", "+00:00")) for one in step]
        kept += [one for one, at in zip(step, times, strict=True) if line is None or at >= line]
        if times:
            line = max([*([] if line is None else [line]), max(times) - delay])
    return kept, sum(map(len, steps)) - len(kept)
