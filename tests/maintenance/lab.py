"""A lake with a topic of many small files and views over it, kept in one process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headwater.api.lake import Lake
from headwater.maintenance.report import MaintenanceReport

PROJECT = """\
name: looked_after
format: {format}
sources:
  landing: {{type: files, path: ./landing, schema: "n bigint, g string"}}
topics:
  events: {{from: landing{topic}}}
views:
  sums: {{sql: "SELECT g, count(*) AS k, sum(n) AS s FROM events GROUP BY g", refresh: {{policy: incremental}}{views}}}
"""
ROWS = 4


@dataclass
class Lab:
    root: Path
    lake: Lake
    landed: int = 0

    @staticmethod
    def make(root: Path, format: str, topic: str = "", more: str = "") -> Lab:
        (root / "landing").mkdir(parents=True)
        views = ", format: delta" if format == "parquet" else ""  # a view is not only added to
        text = PROJECT.format(format=format, topic=topic and f", {topic}", views=views) + more
        (root / "headwater.yml").write_text(text, encoding="utf-8")
        return Lab(root, Lake.open(root))

    def feed(self, files: int, *, views: bool = True) -> None:
        """One commit of the topic for each file that lands."""
        for _ in range(files):
            land(self.root, self.landed)
            self.landed += 1
            failed = [
                report.error
                for report in self.lake.run([] if views else ["topics.events"], once=True)
                if report.error is not None
            ]
            assert not failed, failed

    def files(self, name: str = "topics.events") -> int:
        return len(self.lake.relation(name).files.list())

    def rows(self) -> list[int]:
        return sorted(row["n"] for row in self.lake.sql("SELECT n FROM topic('events')").to_dicts())

    def acted(self, report: MaintenanceReport, action: str) -> list[dict[str, object]]:
        return [one.to_dict() for one in report.actions if one.action == action]


def land(root: Path, number: int) -> None:
    """A file of events, there whole or not at all."""
    part = root / f"{number}.part"
    lines = (json.dumps({"n": n, "g": f"g{n % 3}"}) for n in range(ROWS * number, ROWS * (number + 1)))
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    part.rename(root / "landing" / f"{number}.json")
