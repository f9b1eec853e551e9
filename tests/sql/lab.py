"""A small lake for statements: a topic of two files, a reference table, and what is asked of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import Answer, headwater

PROJECT = """
name: shop
format: {format}
catalogs:
  catalog: {{type: rest, uri: "http://127.0.0.1:1"}}
sources:
  landing: {{type: files, path: ./landing}}
topics:
  events: {{from: landing}}
tables:
  countries: {{keys: [code], schema: "code string, name string"}}
"""

FIRST = [
    {
        "event_id": "e1",
        "event_type": "OrderPlaced",
        "event_timestamp": "2026-01-05T08:00:00Z",
        "user": "a",
        "amount": 5,
    },
    {
        "event_id": "e2",
        "event_type": "OrderPlaced",
        "event_timestamp": "2026-01-05T08:30:00Z",
        "user": "b",
        "amount": 7,
    },
]
SECOND = [
    {"event_id": "e3", "event_type": "Shipped", "event_timestamp": "2026-01-05T09:00:00Z", "user": "a", "amount": 1},
]


@dataclass(frozen=True)
class Bench:
    """A project, and commands in it."""

    root: Path

    @staticmethod
    def make(root: Path, format: str = "delta") -> Bench:
        (root / "headwater.yml").write_text(PROJECT.format(format=format), encoding="utf-8")
        bench = Bench(root)
        for number, events in enumerate((FIRST, SECOND)):
            bench.land(f"{number}.json", events)
            ran = headwater("run", "--once", "--project", root)
            assert ran.code == 0, ran.err
        return bench

    def land(self, name: str, events: list[dict[str, Any]]) -> None:
        (self.root / "landing").mkdir(exist_ok=True)
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (self.root / "landing" / name).write_text(lines, encoding="utf-8")

    def do(self, *arguments: str | Path) -> Answer:
        return headwater(*arguments, "--project", self.root)

    def rows(self, sql: str, *options: str) -> list[dict[str, Any]]:
        answer = self.do("query", sql, "--output", "json", *options)
        assert answer.code == 0, answer.err
        found: list[dict[str, Any]] = answer.json
        return found

    def versions(self) -> list[int]:
        """Those that the two files made, whatever else has been committed."""
        return [row["version"] for row in reversed(self.rows("DESCRIBE HISTORY topic('events')")) if row["flow"]]

    def refused(self, sql: str, *options: str) -> dict[str, Any]:
        """The first problem that the command tells of, as programs read it."""
        answer = self.do("query", sql, "--json", *options)
        assert answer.code != 0, answer.out
        found: dict[str, Any] = json.loads(answer.err[answer.err.index("{") :])["errors"][0]
        return found
