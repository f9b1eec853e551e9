"""Queries that a view can answer: the same rows from the view as from the table, and only while it is fresh."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.operations.views import refresh_view
from headwater.project.load.loader import load_project
from headwater.query.engines import answer
from headwater.query.explain import explain
from headwater.query.view_rewrite import by_view
from headwater.warehouse import Warehouse
from tests.query.comparing import differences
from tests.query.lab import QUICK, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = """\
name: shop
spark: {{conf: {{{conf}}}}}
tables:
  sales: {{keys: [id]}}
views:
  by_day:
    sql: >
      SELECT day, shop, count(*) AS n, sum(amount) AS total, min(amount) AS least, max(price) AS most,
      count(price) AS priced, avg(price) AS mean FROM table('sales') WHERE kind = 'sale' GROUP BY day, shop
    refresh: {{mode: manual}}
"""
SCHEMA = "id int, day date, shop string, kind string, amount decimal(10,2), price double"

ANSWERED = [
    "SELECT shop, count(*) AS n FROM sales WHERE kind = 'sale' GROUP BY shop",
    "SELECT day, sum(amount) AS t, min(amount) AS m FROM sales WHERE kind = 'sale' GROUP BY 1 ORDER BY 1",
    "SELECT count(*) FROM sales WHERE kind = 'sale'",
    "SELECT count(*) AS n, sum(amount) AS t FROM sales WHERE kind = 'sale' AND shop = 'none'",
    "SELECT shop, sum(amount) AS t FROM sales WHERE kind = 'sale' AND day >= '2024-01-02' GROUP BY shop "
    "HAVING count(*) > 1",
    "SELECT upper(shop) AS s, max(price) AS m, count(price) AS c FROM sales WHERE kind = 'sale' GROUP BY upper(shop)",
    "SELECT shop, day, avg(price) AS a, sum(amount) AS t FROM sales WHERE kind = 'sale' GROUP BY day, shop",
    "SELECT shop AS s, sum(amount) AS t FROM sales WHERE kind = 'sale' GROUP BY s ORDER BY t DESC LIMIT 2",
]
NOT_ANSWERED = [
    "SELECT shop, count(*) AS n FROM sales GROUP BY shop",  # the view has only some of the rows
    "SELECT shop, avg(price) AS a FROM sales WHERE kind = 'sale' GROUP BY shop",  # averages do not add up
    "SELECT kind, count(*) AS n FROM sales WHERE kind = 'sale' GROUP BY kind",  # no key of the view
    "SELECT shop, count(*) AS n FROM sales WHERE kind = 'sale' AND price > 3 GROUP BY shop",  # nor this
    "SELECT shop, sum(price) AS t FROM sales WHERE kind = 'sale' GROUP BY shop",  # not in the view
    "SELECT shop, count(DISTINCT day) AS n FROM sales WHERE kind = 'sale' GROUP BY shop",
    "SELECT shop, count(*) AS n FROM sales VERSION AS OF 1 WHERE kind = 'sale' GROUP BY shop",
    "SELECT id FROM sales WHERE kind = 'sale'",
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    root: Path = tmp_path_factory.mktemp("rewriting")
    conf = ", ".join(f'{key}: "{value}"' for key, value in QUICK.items())
    (root / "headwater.yml").write_text(PROJECT.format(conf=conf))
    warehouse = Warehouse(load_project(root))
    from datetime import date

    rows = [
        (
            n,
            date(2024, 1, 1 + n % 4),
            "abc"[n % 3],
            "sale" if n % 5 else "loss",
            Decimal(n) / 4,
            n / 8 if n % 7 else None,
        )
        for n in range(60)
    ]
    fill(warehouse, "sales", SCHEMA, [rows])
    refresh_view(warehouse, "by_day")
    yield warehouse
    warehouse.close()


def test_a_view_answers_for_its_table(lake: Warehouse) -> None:
    for sql in ANSWERED:
        offer = by_view(lake, sql)
        assert offer is not None and offer.view == "by_day", sql
        assert offer.fresh, offer.why
        from_view, from_table = answer(lake, sql, rewrite=True), answer(lake, sql)
        assert from_view.from_view == "by_day" and list(from_view.versions) == ["views.by_day"], sql
        assert not differences(from_view.arrow(), from_table.arrow(), sql), sql
    assert {answer(lake, sql, rewrite=True).engine for sql in ANSWERED[:3]} == {"duckdb"}


def test_a_view_is_not_offered_for_what_it_does_not_hold(lake: Warehouse) -> None:
    for sql in NOT_ANSWERED:
        assert by_view(lake, sql) is None, sql
        assert answer(lake, sql, rewrite=True).from_view is None


def test_a_setting_has_views_answer(lake: Warehouse) -> None:
    with Lake.open(lake.project.root) as opened:
        assert opened.sql(ANSWERED[0]).from_view is None
        opened.sql("SET headwater.rewrite = on")
        result = opened.sql(ANSWERED[0])
        assert (result.from_view, result.engine) == ("by_day", "duckdb")
        assert any("mv('by_day') could answer it" in row["plan"] for row in opened.sql(f"EXPLAIN {ANSWERED[0]}"))


def test_a_view_that_is_behind_is_offered_but_not_used(lake: Warehouse) -> None:
    sql = ANSWERED[0]
    explained = explain(lake, sql)
    assert explained.view is not None and explained.view.fresh
    table = lake.table(Kind.TABLE, "sales")
    table.append(lake.spark.createDataFrame([(100, None, "a", "sale", Decimal(1), 1.0)], SCHEMA))
    explained = explain(lake, sql)
    assert explained.view is not None and not explained.view.fresh
    assert "which is at" in explained.view.why and "mv('by_day') could answer it" in "\n".join(explained.lines())
    assert answer(lake, sql, rewrite=True).from_view is None
    refresh_view(lake, "by_day")
    again = answer(lake, sql, rewrite=True)
    assert again.from_view == "by_day"
    assert sum(row["n"] for row in again) == 49
