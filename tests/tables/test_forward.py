"""A changed query goes on from where the old one has come, where no row that is there is touched again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scale import in_formats
from tests.support import Answer, headwater

pytestmark = pytest.mark.usefixtures("spark")

PROJECT = """\
name: shop
format: FORMAT
sources: {landing: {type: files, path: ./landing, schema: "id bigint, kind string, amount int"}}
topics: {events: {from: landing}}
tables:
  orders: {sql: "SELECT id, amount FROM stream(topic('events')) WHERE kind = 'order'"}
  spent: {sql: "SELECT amount > 0 AS paid, count(*) AS n, sum(amount) AS total FROM stream(table('orders')) GROUP BY 1"}
"""


class Shop:
    def __init__(self, root: Path, format: str) -> None:
        self.root = root
        self.text = PROJECT.replace("FORMAT", format)
        self.files = 0
        (root / "landing").mkdir()
        self.change("", "")

    def change(self, old: str, new: str) -> None:
        assert old in self.text
        self.text = self.text.replace(old, new)
        (self.root / "headwater.yml").write_text(self.text, encoding="utf-8")

    def land(self, *rows: tuple[int, str, int]) -> None:
        self.files += 1
        records = (dict(zip(("id", "kind", "amount"), row, strict=True)) for row in rows)
        text = "".join(json.dumps(record) + "\n" for record in records)
        (self.root / "landing" / f"{self.files}.json").write_text(text, encoding="utf-8")

    def run(self, *more: str) -> Answer:
        return headwater("run", "--once", "--json", "--project", self.root, *more)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found = headwater("query", sql, "--json", "--project", self.root)
        assert found.code == 0, found.err
        return [tuple(row.values()) for row in found.json]

    def planned(self) -> dict[str, tuple[str, bool]]:
        found = headwater("plan", "--json", "--project", self.root).json
        return {one["relation"]: (one["action"], one["needs_apply"]) for one in found}


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_what_is_there_stays(format: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, format)
    shop.land((1, "order", 5), (2, "visit", 0))
    assert shop.run().code == 0
    shop.change("SELECT id, amount FROM", "SELECT id, amount, kind FROM")
    shop.change("WHERE", "WHERE kind = 'gift' OR")
    shop.change("orders: {sql", "orders: {description: All of them., sql")
    assert shop.planned() == {"tables.orders": ("change", False)}
    shop.land((3, "gift", 7), (4, "order", 1), (5, "visit", 0))
    assert shop.run().code == 0
    assert shop.planned() == {}
    orders = "SELECT id, amount, kind FROM table('orders') ORDER BY id"
    assert shop.rows(orders) == [(1, 5, None), (3, 7, "gift"), (4, 1, "order")]
    assert shop.rows("SELECT n, total FROM table('spent')") == [(3, 13)]
    history = headwater("table", "history", "orders", "--json", "--project", tmp_path).json
    assert [(one["epoch"], one["step"], one["rows_added"]) for one in history if one["flow"]] == [(1, 1, 2), (1, 0, 1)]

    if format == "delta":
        assert headwater("flow", "rebuild", "tables.orders", "--yes", "--project", tmp_path).code == 0
        assert shop.run().code == 0
        assert shop.rows(orders) == [(1, 5, "order"), (3, 7, "gift"), (4, 1, "order")]
        return
    shop.change("id, amount, kind FROM", "id, amount * 2 AS amount FROM")
    refused = shop.run()
    assert refused.code == 2 and "DESTRUCTIVE_CHANGE" in refused.err
    assert shop.rows(orders) == [(1, 5, None), (3, 7, "gift"), (4, 1, "order")]
    assert shop.run("--apply").code == 0
    assert shop.rows("SELECT id, amount FROM table('orders') ORDER BY id") == [(1, 10), (3, 14), (4, 2)]
    assert shop.rows("SELECT n, total FROM table('spent')") == [(3, 26)]


def test_a_column_of_another_type_stops_the_table(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "delta")
    shop.land((1, "order", 5))
    assert shop.run().code == 0
    shop.change("SELECT id, amount FROM", "SELECT id, kind AS amount FROM")
    shop.land((2, "order", 6))
    ran = shop.run()
    (failed,) = [one for one in ran.events if one["event"] == "failed"]
    assert failed["flow"] == "tables.orders" and failed["code"] == "SCHEMA_MISMATCH", failed
    assert shop.rows("SELECT id, amount FROM table('orders')") == [(1, 5)]
