"""The examples of docs/streaming.md, as a project."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.docs.test_examples import blocks
from tests.support import headwater

PAGE = "docs/streaming.md"


@pytest.mark.usefixtures("spark")
def test_the_page(tmp_path: Path) -> None:
    (project,) = blocks(PAGE, "yaml")
    query, code = blocks(PAGE, "python")
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    (tmp_path / "shop.py").write_text(code, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    orders = [{"event_id": f"e{n}", "customer": "ab"[n % 2], "amount": 4 * n + 0.5} for n in range(5)]
    lines = "".join(json.dumps(order) + "\n" for order in orders)
    (tmp_path / "landing" / "1.json").write_text(lines, encoding="utf-8")
    ran = headwater("run", "--once", "--json", "--project", tmp_path)
    assert ran.code == 0, ran.out + ran.err
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(2):
            exec(compile(query, PAGE, "exec"), {})
    finally:
        os.chdir(before)
    large = "SELECT event_id FROM table('large_orders') ORDER BY 1"
    assert [row["event_id"] for row in _query(tmp_path, large)] == ["e3", "e4"]
    spent = "SELECT customer, total FROM table('spent') ORDER BY 1"
    assert _query(tmp_path, spent) == [{"customer": "a", "total": 25.5}, {"customer": "b", "total": 17.0}]


def _query(root: Path, sql: str) -> list[dict[str, object]]:
    answer = headwater("query", sql, "--output", "json", "--project", root)
    assert answer.code == 0, answer.err
    rows: list[dict[str, object]] = answer.json
    return rows
