"""What notebooks and terminals show of a lake, its relations and results; and results in other shapes. No JVM."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from headwater import HeadwaterError, Lake
from headwater.core.errors import Code

PROJECT = """
name: shop
warehouse: ./lake
sources:
  landing: {type: files, path: ./landing, file_format: json, description: "<script>alert(1)</script>"}
topics:
  orders: {from: landing, description: "<b>orders</b> & more"}
tables:
  rates: {keys: [id], schema: "id int, rate decimal(9,4)"}
views:
  per_day: {sql: "SELECT event_date, count(*) AS n FROM topic('orders') GROUP BY 1"}
"""
TWO = (
    "SELECT 1 AS n, CAST('1.50' AS DECIMAL(12,2)) AS price, '<i>x</i>' AS text UNION ALL "
    "SELECT 2 AS n, CAST('2.25' AS DECIMAL(12,2)) AS price, 'b' AS text ORDER BY n"
)
ROWS = [
    {"n": 1, "price": Decimal("1.50"), "text": "<i>x</i>"},
    {"n": 2, "price": Decimal("2.25"), "text": "b"},
]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    (tmp_path / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    with Lake.open(tmp_path) as lake:
        yield lake


def test_a_lake_says_what_it_has(lake: Lake) -> None:
    assert repr(lake) == f"<Lake 'shop' of {lake.project.file}: 1 topic, 1 table, 1 view>"
    html = lake._repr_html_()
    assert "topic(&#x27;orders&#x27;)" in html and "&lt;b&gt;orders&lt;/b&gt; &amp; more" in html


def test_a_relation_says_what_is_known_of_it(lake: Lake) -> None:
    topic = lake.topic("orders")
    assert repr(topic) == f"<topic 'orders': delta, no data yet, {lake.project.root}/lake/topics/orders>"
    for relation in (topic, lake.table("rates"), lake.view("per_day"), lake.relation("views.per_day")):
        assert repr(relation).startswith(f"<{relation.kind.value} '{relation.name}': ")
        assert relation.name in relation._repr_html_()
    assert type(lake.relation("per_day")) is type(lake.view("per_day"))


def test_what_comes_from_others_is_escaped(lake: Lake) -> None:
    shown = [lake, lake.topic("orders"), lake.topics(), lake.topics()[0], lake.sources(), lake.sql(TWO)]
    html = "".join(one._repr_html_() for one in shown)
    assert "&lt;script&gt;" in html and "&lt;i&gt;x" in html
    assert not any(tag in html for tag in ("<script", "<b>", "<i>"))


def test_lists_are_lists_of_records(lake: Lake) -> None:
    sources, (orders,), (view,) = lake.sources(), lake.topics(), lake.views()
    assert (orders.name, orders.from_, orders.format, orders.created_at) == ("orders", "landing", "delta", None)
    assert (view.mode, view.policy, view.location) == ("immediate", "auto", None)
    assert sources.to_dicts() == [
        {"source": "landing", "type": "files", "topics": ["orders"], "description": "<script>alert(1)</script>"}
    ]
    flows = lake.status()
    assert len(flows) == 2 and flows.head(1) == flows[:1] and "topics.orders" in flows._repr_html_()
    assert list(flows.to_pandas()["state"]) == flows.to_polars()["state"].to_list() == ["new", "new"]
    assert flows.to_arrow().num_rows == 2 and lake.plan()[0].action == "create"
    with pytest.raises(AttributeError):
        orders.name = "others"  # type: ignore[misc]


def test_a_result_in_every_shape(lake: Lake) -> None:
    result = lake.sql(TWO)
    assert repr(result) == "<Result of duckdb (n: int32, price: decimal128(12, 2), text: string)>"
    assert result.to_dicts() == result.rows() == list(result) == ROWS and len(result) == 2
    assert result.to_arrow().schema.field("price").type == pa.decimal128(12, 2) and result.arrow() == result.to_arrow()
    frame = result.to_pandas()
    assert list(frame["price"]) == [Decimal("1.50"), Decimal("2.25")] and frame["price"].sum() == Decimal("3.75")
    assert result.to_polars().schema["price"] == pl.Decimal(12, 2) and result.polars().equals(result.to_polars())
    assert result.pandas().equals(frame)


def test_the_first_rows_are_a_result(lake: Lake) -> None:
    result = lake.sql(TWO)
    first = result.head(1)
    assert (
        first.to_dicts() == ROWS[:1] and len(first) == 1 and first.engine == "duckdb" and first.schema == result.schema
    )
    assert result.head(0).to_dicts() == [] and result.head().to_dicts() == ROWS
    assert result.to_dicts() == ROWS  # whole, after its first rows were read


def test_what_is_known_without_an_engine_is_a_result_too(lake: Lake) -> None:
    shown = lake.sql("SHOW TOPICS")
    assert shown.engine == "headwater" and len(shown) == len(shown.to_pandas()) == 1
    assert "<b>" not in shown._repr_html_() and len(shown.head(0)) == 0


def test_a_notebook_shows_twenty_rows_and_says_that_there_are_more(lake: Lake) -> None:
    many = " UNION ALL ".join(f"SELECT {n} AS n" for n in range(25))
    html = lake.sql(many)._repr_html_()
    assert html.count("<tr>") == 21 and "the first 20 rows; there are more" in html
    assert "no rows" in lake.sql(f"SELECT n FROM ({TWO}) WHERE n > 5")._repr_html_()


def test_polars_that_is_not_there_is_named_with_the_command(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without_polars(name: str, *more: Any) -> Any:
        if name == "polars":
            raise ImportError(name)
        return importing(name, *more)

    monkeypatch.setattr(builtins, "__import__", without_polars)
    with pytest.raises(HeadwaterError) as caught:
        lake.sql(TWO).to_polars()
    assert caught.value.code is Code.MISSING_EXTRA and "pip install polars" in str(caught.value)


def test_moments_in_a_notebook_are_in_utc(lake: Lake) -> None:
    from headwater.core.record import html_record

    html = html_record("x", {"at": datetime(2026, 1, 5, 8, tzinfo=timezone.utc), "raw": b"\xff<a>", "long": "y" * 999})
    assert "2026-01-05 08:00:00" in html and "\\xff&lt;a&gt;" in html and "y…" in html
