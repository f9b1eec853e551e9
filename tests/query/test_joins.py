"""Spark joins in the order that the tables' statistics speak for: the same rows by another plan; EXPLAIN says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headwater.core.model import Kind
from headwater.project.load.loader import load_project
from headwater.query.engines import answer
from headwater.query.explain import explain
from headwater.query.limits import QueryStop
from headwater.query.spark.answer import SparkAnswer
from headwater.query.values import told_apart
from headwater.warehouse import Warehouse
from tests.query.comparing import differences
from tests.query.lab import QUICK

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SALES, ITEMS, SHOPS, REGIONS = 600, 40, 30, 5

BAD = (
    "SELECT i.name, count(*) AS n FROM sales s JOIN items i ON s.item = i.id JOIN shops p ON s.shop = p.id "
    "JOIN regions r ON p.region = r.id WHERE r.id = 3 GROUP BY i.name"
)
"""Everything is joined first that the last condition leaves a fifth of."""

REORDERED = [
    BAD,
    "SELECT * FROM sales s, items i, shops p WHERE s.item = i.id AND s.shop = p.id AND p.id = 7",
    "SELECT amount, p.region FROM sales JOIN items i ON item = i.id JOIN shops p ON p.id = shop AND p.id < 4",
    "SELECT *, count(*) OVER () AS n FROM sales s JOIN items i ON s.item = i.id AND (s.amount > 5 OR i.price < 3) "
    "JOIN shops p ON s.shop = p.id LEFT JOIN regions r ON r.id = p.region AND r.name LIKE 'r%' WHERE p.id IN (1, 2)",
    "WITH sold AS (SELECT s.id, i.name FROM sales s JOIN items i ON s.item = i.id JOIN shops p ON s.shop = p.id "
    "WHERE p.id = 2) SELECT name, count(*) AS n FROM sold GROUP BY name",
    "SELECT s.id FROM sales s JOIN items i ON s.item = i.id JOIN shops p ON s.shop = p.id LEFT SEMI JOIN regions r "
    "ON r.id = p.region WHERE p.id = 3",
    "SELECT a.id, b.id AS other FROM sales a JOIN sales b ON a.item = b.item JOIN shops p ON a.shop = p.id "
    "WHERE p.id = 3 AND b.id < 50",
]
LEFT_ALONE = [
    BAD.replace("SELECT", "SELECT /*+ MERGE(s) */", 1),
    "SELECT * FROM sales s JOIN (SELECT id AS item FROM items) i USING (item) JOIN shops p ON s.shop = p.id "
    "WHERE p.id = 3",
    "SELECT s.id FROM sales s LEFT JOIN items i ON s.item = i.id JOIN shops p ON s.shop = p.id WHERE p.id = 3",
    "SELECT s.id FROM sales s JOIN shops p ON s.shop = p.id JOIN items i ON s.item = i.id WHERE p.id = 3",
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    root: Path = tmp_path_factory.mktemp("joined")
    telling = {**QUICK, "spark.sql.maxMetadataStringLength": "1000"}  # else the plan cuts the tables' names off
    conf = ", ".join(f'{key}: "{value}"' for key, value in telling.items())
    tables = "".join(f"  {name}: {{keys: [id]}}\n" for name in ("sales", "items", "shops", "regions"))
    (root / "headwater.yml").write_text(f"name: joined\nspark: {{conf: {{{conf}}}}}\ntables:\n{tables}")
    warehouse = Warehouse(load_project(root))
    numbers = list(range(SALES))
    rows = {
        "sales": {
            "id": numbers, "item": [n % ITEMS for n in numbers], "shop": [n * 7 % SHOPS for n in numbers],
            "amount": [n % 11 for n in numbers],
        },
        "items": {"id": numbers[:ITEMS], "name": [f"i{n % 9}" for n in range(ITEMS)], "price": numbers[:ITEMS]},
        "shops": {"id": numbers[:SHOPS], "region": [n % REGIONS for n in range(SHOPS)]},
        "regions": {"id": numbers[:REGIONS], "name": [f"r{n}" for n in range(REGIONS)]},
    }  # fmt: skip
    for name, columns in rows.items():
        write_deltalake(str(warehouse.address(Kind.TABLE, name).path), pa.table(columns))
        warehouse.remember(Kind.TABLE, name)
    yield warehouse
    warehouse.close()


def scanned(plan: str) -> list[str]:
    """The tables of a physical plan, in the order in which they are joined."""
    return re.findall(r"Location: [^,]*?tables/(\w+)", plan)


def test_a_join_in_a_bad_order_is_turned_round(lake: Warehouse) -> None:
    without = SparkAnswer(lake, BAD, "", QueryStop())
    plan = without.df._jdf.queryExecution().executedPlan().toString()
    assert scanned(plan) == ["sales", "items", "shops", "regions"]
    explained = explain(lake, BAD, engine="spark", analyze=True)
    assert scanned(explained.plan)[2:] == ["sales", "items"]
    (order,) = explained.joins
    assert order.changed and [one.name for one in order.relations][2:] == ["s", "i"]
    assert {one.name: (one.rows_all, one.rows_estimated) for one in order.relations} == {
        "s": (SALES, SALES), "i": (ITEMS, ITEMS), "p": (SHOPS, SHOPS), "r": (REGIONS, 1),
    }  # fmt: skip
    # A region has 6 of the 30 shops, and those 120 of the 600 sales.
    assert (order.rows, order.rows_as_written) == (6 + 120 + 120, 600 + 600 + 120)
    (line,) = [line for line in explained.lines() if line.startswith("join order: ")]
    assert "r (1 of 5 rows)" in line and "246 rows on the way; 1320 as written, s, i, p, r" in line
    assert explained.to_dict()["joins"][0]["rows"] == 246
    expected = sorted((row["name"], row["n"]) for row in answer(lake, BAD, engine="duckdb"))
    assert sorted((row["name"], row["n"]) for row in answer(lake, BAD, engine="spark")) == expected


@pytest.mark.parametrize("sql", REORDERED[1:])
def test_rows_and_columns_stay_as_they_are_written(lake: Warehouse, sql: str) -> None:
    written = SparkAnswer(lake, sql, "", QueryStop()).df
    fast = answer(lake, sql, engine="duckdb")
    spark = answer(lake, sql, engine="spark")
    assert explain(lake, sql, engine="spark").joins[0].changed
    assert not differences(fast.arrow(), spark.arrow(), sql)
    assert spark.columns == fast.columns == told_apart(written.columns)


def test_what_is_not_free_is_left_as_it_is_written(lake: Warehouse) -> None:
    for sql in LEFT_ALONE:
        assert not any(order.changed for order in explain(lake, sql, engine="spark").joins), sql
    many = " ".join(f"JOIN items i{n} ON s.item = i{n}.id" for n in range(10))
    (order,) = explain(lake, f"SELECT s.id FROM sales s {many}", engine="spark").joins
    assert not order.changed and "more than 10 relations" in order.line()
