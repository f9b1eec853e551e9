"""The examples of docs/engines.md are run as they stand."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import Shop, headwater

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for found, body in _BLOCK.findall(PAGE.read_text(encoding="utf-8")) if found == language]


def test_the_examples(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop.make(tmp_path / "shop")
    shop.land("a.json", [{"event_id": "e1", "event_type": "OrderPlaced", "event_timestamp": "2026-01-05T08:00:00Z"}])
    assert shop.run().code == 0
    plans = []
    for statement in "".join(blocks("sql")).splitlines():
        answer = headwater("query", statement, "--output", "json", "--project", shop.root)
        assert answer.code == 0, answer.err
        plans.append("\n".join(row["plan"] for row in answer.json))
    assert all(plan.startswith("engine: duckdb") for plan in plans) and "came out 1" in plans[1]
    before = os.getcwd()
    os.chdir(shop.root)
    try:
        for body in blocks("python"):
            exec(compile(body, str(PAGE), "exec"), {})
    finally:
        os.chdir(before)
    printed = capsys.readouterr().out
    assert "duckdb" in printed and "distinct=1" in printed and "  statistics  of version " in printed
