"""docs/mapping.md as a project: its code, its events, and the rows that it promises."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater import Lake
from tests.docs.test_examples import blocks
from tests.support import Shop, headwater

PAGE = "docs/mapping.md"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Shop:
    root = tmp_path_factory.mktemp("mapping")
    (project,) = blocks(PAGE, "yaml")
    (events,) = blocks(PAGE, "json")
    (root / "headwater.yml").write_text(project, encoding="utf-8")
    (root / "shop.py").write_text("\n".join(blocks(PAGE, "python")), encoding="utf-8")
    shop = Shop(root)
    shop.land("a.json", events.splitlines())
    checked = headwater("check", "--project", root)
    assert checked.code == 0, checked.err
    ran = shop.run()
    assert ran.code == 0, ran.out + ran.err
    return shop


def test_the_rows_of_the_page(shop: Shop) -> None:
    (statement,) = blocks(PAGE, "sql")
    page = (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8")
    table = page.partition("and one dead letter:\n```\n")[2].partition("```")[0]
    wanted = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.splitlines()]
    found = [[_shown(value) for value in row.values()] for row in shop.query(statement)]
    assert sorted(found) == sorted(wanted)


def test_the_dead_letter_of_the_page(shop: Shop) -> None:
    with Lake.open(shop.root) as lake:
        (letter,) = lake.dead_letters("orders")
    assert letter.reason == "mapper"
    code = (shop.root / "shop.py").read_text(encoding="utf-8").splitlines()
    line = code.index('        raise ValueError("a refund is not negative")') + 1
    assert letter.message == f"ValueError: a refund is not negative (mapper refunded, shop.py:{line})"


def test_a_filter_function_and_upcasters_without_mappers(shop: Shop) -> None:
    rows = shop.query("SELECT * FROM topic('large_orders')")
    assert [(row["amount"], row["currency"], row["event_version"]) for row in rows] == [("150.00", "CHF", 3)]


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)
