"""A small lake whose files hold customers' data in every shape, and readers of those files that are not ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support import Answer, headwater

GONE = "cust-0007-anna.maria@example.org"
"""Longer than bounds in metadata are: those hold its beginning."""
CONDITION = f"customer_id = '{GONE}'"
PROJECT = """\
name: shop
format: {format}
sources:
  landing: {{type: files, path: ./landing, schema_hints: "n bigint"}}
topics:
  orders: {{from: landing, keep_raw: true{topic}}}
{readers}"""
READERS = """\
tables:
  customers: {from: topic('orders'), apply: {keys: [customer_id], sequence_by: n}}
  plain: {sql: "SELECT customer_id, n FROM stream(topic('orders'))"}
views:
  totals: {sql: "SELECT count(*) AS k, sum(n) AS n FROM topic('orders')"}
  newest: {sql: "SELECT customer_id, max(n) AS n FROM topic('orders') GROUP BY customer_id"}
  others: {sql: "SELECT n FROM topic('orders') WHERE customer_id LIKE 'cust-0001%'"}
"""


class ErasureLake:
    def __init__(self, root: Path, format: str = "delta", topic: str = "", readers: str = READERS) -> None:
        self.root = root
        (root / "landing").mkdir(parents=True)
        (root / "headwater.yml").write_text(
            PROJECT.format(format=format, topic=topic, readers=readers), encoding="utf-8"
        )

    def __call__(self, *arguments: str) -> Answer:
        return headwater(*arguments, "--project", self.root)

    def land(self, name: str, *records: tuple[str, int] | str) -> None:
        lines = [
            one if isinstance(one, str) else json.dumps({"customer_id": one[0], "n": one[1], "note": f"order {one[1]}"})
            for one in records
        ]
        (self.root / "landing" / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def run(self) -> None:
        ran = self("run", "--once", "--json")
        assert ran.code == 0, ran.out + ran.err

    def forget(self, *words: str, where: str = CONDITION) -> Answer:
        return self("forget", "orders", "--where", where, *words, "--json")

    def check(self, where: str = CONDITION) -> Any:
        found = self("forget", "orders", "--where", where, "--check", "--json")
        assert found.code in (0, 1), found.err
        assert found.json["clean"] is (found.code == 0)
        return found.json

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found = self("query", sql, "--json")
        assert found.code == 0, found.err
        return sorted(tuple(row.values()) for row in found.json)


def parquet_files_with(root: Path, text: str) -> list[Path]:
    """Parquet files with a text in any of their cells, by a reader that is not ours."""
    found = []
    for path in root.rglob("*.parquet"):
        cells = str(pq.read_table(path, partitioning=None).to_pylist())
        if text in cells:
            found.append(path)
    return found


def files_with(root: Path, text: str) -> list[Path]:
    """Files with a text in their bytes as they are."""
    return [path for path in root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
