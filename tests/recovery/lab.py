"""A small project that is moved and copied: a topic of files, a view on it, in any format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import Answer, headwater

VIEW = "SELECT kind, count(*) AS n, sum(amount) AS total FROM topic('orders') GROUP BY kind"
PROJECT = """\
name: shop
format: {format}
warehouse: {warehouse}
sources:
  landing: {{type: files, path: {landing}, schema_hints: "amount bigint", on_change: {on_change}}}
topics:
  orders: {{from: landing}}
{more}
views:
  kinds: {{sql: "{view}", refresh: {{mode: immediate}}, format: {view_format}}}
"""


@dataclass(frozen=True)
class Moving:
    """A project in a folder."""

    root: Path

    @staticmethod
    def make(
        root: Path,
        format: str,
        warehouse: str = "./lake",
        landing: str = "./landing",
        more: str = "",
        on_change: str = "fail",
    ) -> Moving:
        root.mkdir(parents=True)
        (root / landing).mkdir(parents=True, exist_ok=True)
        text = PROJECT.format(
            format=format,
            warehouse=warehouse,
            landing=landing,
            view=VIEW,
            more=more,
            on_change=on_change,
            view_format="delta" if format == "parquet" else format,
        )
        (root / "headwater.yml").write_text(text, encoding="utf-8")
        return Moving(root)

    def land(self, name: str, rows: Iterable[tuple[str, str, int]], folder: str = "landing") -> None:
        lines = [json.dumps({"event_id": id, "kind": kind, "amount": amount}) for id, kind, amount in rows]
        part = self.root / folder / f".{name}.tmp"
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
        part.rename(self.root / folder / name)

    def do(self, *arguments: str | Path) -> Answer:
        return headwater(*arguments, "--project", self.root)

    def run(self, *flows: str) -> tuple[dict[str, tuple[int, int]], str]:
        """By flow, its steps and rows; and what was said."""
        answer = self.do("run", "--once", "--json", *flows)
        assert answer.code == 0, answer.err + answer.out
        return {one["flow"]: (one["steps"], one["rows"]) for one in answer.events[-1]["flows"]}, answer.err

    def query(self, sql: str, *options: str) -> list[dict[str, Any]]:
        answer = self.do("query", sql, "--output", "json", *options)
        assert answer.code == 0, answer.err
        found: list[dict[str, Any]] = answer.json
        return found

    def kinds(self, *options: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.query("SELECT * FROM mv('kinds') ORDER BY kind", *options)]

    def count(self, relation: str = "topic('orders')", *options: str) -> int:
        found: int = self.query(f"SELECT count(*) AS n FROM {relation}", *options)[0]["n"]
        return found

    def versions(self, relation: str = "orders") -> list[int]:
        """Oldest first."""
        answer = self.do("topic", "history", relation, "--json")
        assert answer.code == 0, answer.err
        return [commit["version"] for commit in answer.json][::-1]

    def counts(self, versions: Sequence[int]) -> list[int]:
        return [self.count(f"topic('orders') VERSION AS OF {version}", "--engine", "spark") for version in versions]

    def refreshed(self, view: str = "kinds") -> str:
        """How the last refresh of a view that found something was done."""
        answer = self.do("mv", "describe", view, "--json")
        assert answer.code == 0, answer.err
        done = [one["refresh_type"] for one in answer.json["refreshes"] if one["refresh_type"] != "none"]
        return str(done[0])
