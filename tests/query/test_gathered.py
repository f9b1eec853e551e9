"""What `parquet stats` finds out is kept: estimates, the order of joins, broadcasts and the engine follow from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.core.model import Kind
from headwater.project.load.loader import load_project
from headwater.query import broadcasts as broadcasting
from headwater.query.duckdb import eligibility
from headwater.query.engines import answer
from headwater.query.explain import explain
from headwater.query.explanation import TableRead
from headwater.warehouse import Warehouse
from tests.query.lab import QUICK
from tests.support import headwater

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SALES, ITEMS, STALLS = 600, 60, 40

JOIN = (
    "SELECT s.city, i.name, count(*) AS n FROM sales s JOIN stalls p ON s.city = p.city "
    "JOIN items i ON s.item = i.item GROUP BY s.city, i.name"
)
"""Each city has twenty stalls: what is joined to them first is twenty times as much on the way to the items."""


def sales(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "code": [f"s-{n}" for n in numbers],
            "city": ["Oslo" if n % 2 else "Turku" for n in numbers],
            "item": [f"i-{n % ITEMS}" for n in numbers],
            "agent": pa.array([None if n % 4 else f"a-{n % 5}" for n in numbers], pa.string()),
            "note": [f"{n * 7919 % 10007:05d}" * 6 for n in numbers],
        }
    )


ROWS = {
    "sales": sales(0, SALES),
    "items": pa.table({"item": [f"i-{n}" for n in range(ITEMS)], "name": [f"n-{n % 7}" for n in range(ITEMS)]}),
    "stalls": pa.table(
        {
            "place": list(range(STALLS)),
            "city": ["Oslo" if n % 2 else "Turku" for n in range(STALLS)],
            "rent": [float("nan") if n % 5 else float(n) for n in range(STALLS)],
        }
    ),
}


class Market:
    """A lake of three tables that are joined by texts, of whose values nothing is known."""

    def __init__(self, root: Path) -> None:
        self.root = root
        conf = ", ".join(f'{key}: "{value}"' for key, value in QUICK.items())
        tables = "".join(f"  {name}: {{keys: [note]}}\n" for name in (*ROWS, "shelves"))
        (root / "headwater.yml").write_text(f"name: market\nspark: {{conf: {{{conf}}}}}\ntables:\n{tables}")
        self.lake = Warehouse(load_project(root))
        for name in ROWS:
            self.make(name)

    def make(self, name: str) -> None:
        self.append(name, ROWS[name])
        self.lake.remember(Kind.TABLE, name)

    def append(self, name: str, rows: pa.Table) -> None:
        write_deltalake(str(self.lake.address(Kind.TABLE, name).path), rows, mode="append")

    def gather(self, *names: str) -> None:
        for name in names:
            done = headwater("parquet", "stats", name, "--json", "--project", self.root)
            assert done.code == 0, done.err
            json.loads(done.out, parse_constant=pytest.fail)  # NaN is no JSON

    def kept(self, name: str) -> Path:
        return self.root / "lake" / "_headwater" / "statistics" / f"tables.{name}.json"

    def read(self, condition: str, name: str = "sales") -> TableRead:
        (table,) = explain(self.lake, f"SELECT * FROM {name} WHERE {condition}", engine="duckdb").tables
        return table

    def estimated(self, condition: str, name: str = "sales") -> int | None:
        return self.read(condition, name).rows_estimated


@pytest.fixture
def market(spark: SparkSession, tmp_path: Path) -> Iterator[Market]:
    market = Market(tmp_path)
    yield market
    market.lake.close()


def told(market: Market, sql: str) -> list[str]:
    done = headwater("query", sql, "--output", "json", "--project", market.root)
    assert done.code == 0, done.err
    return [row["plan"] for row in done.json]


def test_conditions_are_reckoned_with_them(market: Market) -> None:
    guessed = [market.estimated(f"city {test}") for test in ("= 'Oslo'", "IN ('Oslo', 'Turku')", "<> 'Oslo'")]
    assert guessed == [30, 60, 570] and market.read("city = 'Oslo'").statistics_version is None
    market.gather("sales")
    found = market.read("city = 'Oslo'")
    assert (found.rows_estimated, found.statistics_version, found.statistics_unused) == (SALES // 2, 0, "")
    assert market.estimated("city IN ('Oslo', 'Turku', 'Bergen')") == SALES
    assert market.estimated("city <> 'Oslo'") == SALES // 2
    assert market.estimated("code = 's-7'") == 1
    assert market.estimated("agent = 'a-0'") == SALES // 4 // 5  # three of four have none
    assert market.estimated("agent <> 'a-0'") == market.estimated("NOT agent = 'a-0'") == SALES // 4 - SALES // 4 // 5
    assert market.estimated("city = 'Oslo' AND agent IS NULL") == SALES * 3 // 8
    lines = told(market, "EXPLAIN SELECT code FROM sales WHERE city = 'Oslo'")
    assert "  statistics  of version 0" in lines and "  rows        600 in all, estimated 300" in lines
    # By the columns' bytes, and not by their number: the notes are most of them.
    assert _bytes(market, "note") > 2 * _bytes(market, "city")


def _bytes(market: Market, column: str) -> int:
    (table,) = explain(market.lake, f"SELECT {column} FROM sales", engine="duckdb").tables
    assert table.bytes_estimated is not None
    return table.bytes_estimated


def test_values_that_lie_together_are_all_in_the_files_that_are_left(market: Market) -> None:
    for part in range(4):
        rows = {"shelf": [f"{part}-{n % 5}" for n in range(50)], "box": [f"b{n % 10}" for n in range(50)]}
        market.append("shelves", pa.table(rows))
    market.lake.remember(Kind.TABLE, "shelves")
    market.gather("shelves")
    assert market.estimated("shelf = '2-1'", "shelves") == 10  # of 200 rows and 20 shelves, all in one file
    assert market.estimated("box = 'b3'", "shelves") == 20
    assert market.estimated("shelf LIKE '2-%' AND box = 'b3'", "shelves") == round(50 * 0.05 / 10)
    assert market.estimated("shelf = '2-1' AND box = 'b3'", "shelves") == 1


def test_a_table_that_grows_outgrows_them(market: Market) -> None:
    market.gather("sales")
    market.append("sales", sales(SALES, SALES))
    assert market.estimated("code = 's-700'") == 1  # a new one in each row, so twice as many
    assert market.estimated("city = 'Oslo'") == SALES
    DeltaTable(str(market.lake.address(Kind.TABLE, "sales").path)).optimize.compact()  # changes nothing of it
    assert (market.read("city = 'Oslo'").files_all, market.estimated("city = 'Oslo'")) == (1, SALES)
    market.append("sales", sales(2 * SALES, 10 * SALES))
    late = market.read("city = 'Oslo'")
    assert late.rows_estimated == 12 * SALES // 20
    assert late.statistics_unused == "it had 600 rows then, and has 7200 now"
    assert "  statistics  of version 0, not used: it had 600 rows then, and has 7200 now" in late.lines()
    assert market.read("city = 'Oslo'", "sales VERSION AS OF 1").rows_estimated == SALES
    market.gather("sales")
    assert (market.estimated("city = 'Oslo'"), market.read("city = 'Oslo'").statistics_version) == (6 * SALES, 3)
    write_deltalake(str(market.lake.address(Kind.TABLE, "sales").path), sales(0, 100), mode="overwrite")
    assert "not used" in "".join(market.read("city = 'Oslo'").lines())


def test_another_table_of_the_same_name_has_none(market: Market) -> None:
    market.gather("sales")
    kept = market.kept("sales").read_text()
    found = json.loads(kept)
    assert (found["rows"], found["version"], len(found["columns"])) == (SALES, 0, 5)
    assert headwater("table", "drop", "sales", "--yes", "--project", market.root).code == 0
    assert not market.kept("sales").exists()
    market.make("sales")
    assert market.read("city = 'Oslo'").statistics_version is None
    for left_over in (kept, kept[:100], "{}"):  # gathered while it was dropped, cut off, or of another release
        market.kept("sales").write_text(left_over)
        assert market.read("city = 'Oslo'").statistics_version is None
        assert market.estimated("city = 'Oslo'") == SALES // 20
    # A column of the same name and of another type is another column.
    market.gather("sales")
    rows = sales(0, SALES).set_column(1, "city", pa.array([n % 50 for n in range(SALES)]))
    path = str(market.lake.address(Kind.TABLE, "sales").path)
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
    assert market.estimated("city = 7") == SALES // 50 and market.estimated("code = 's-7'") == 1


def test_a_view_with_another_query_has_none(market: Market) -> None:
    def made(statement: str) -> None:
        done = headwater("query", statement, "--project", market.root)
        assert done.code == 0, done.err

    def read() -> TableRead:
        (table,) = explain(market.lake, "SELECT * FROM mv('sold') WHERE n = 10", engine="duckdb").tables
        return table

    made("CREATE MATERIALIZED VIEW sold AS SELECT item, count(*) AS n FROM sales GROUP BY item")
    market.gather("views.sold")
    assert "views.sold.json" in {file.name for file in market.kept("sales").parent.iterdir()}
    found = read()
    assert (found.rows_estimated, found.statistics_version) == (ITEMS, found.version)
    made("CREATE OR REPLACE MATERIALIZED VIEW sold AS SELECT code AS item, count(*) AS n FROM sales GROUP BY code")
    assert read().statistics_version is None


def test_a_table_is_broadcast_and_an_engine_chosen_by_them(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(file.stat().st_size for file in (market.root / "lake/tables/sales").glob("*.parquet"))
    monkeypatch.setattr(broadcasting.small_parts, "__defaults__", (size // 3,))
    sql = "SELECT p.place FROM stalls p JOIN sales s ON s.city = p.city WHERE s.code = 's-7'"
    assert not explain(market.lake, sql, engine="spark").broadcasts
    monkeypatch.setattr(eligibility, "LARGE_SCAN", size // 2)
    notes = "SELECT max(note) AS {} FROM sales"
    assert explain(market.lake, notes.format("a")).engine == "duckdb"  # a fifth of the columns
    market.gather("sales")
    assert explain(market.lake, notes.format("b")).engine == "spark"  # and most of the bytes
    explained = explain(market.lake, sql, engine="spark")
    (sent,) = explained.broadcasts
    assert (sent.bytes_all, sent.bytes, sent.statistics_version) == (size, round(size / SALES), 0)
    assert "bytes, by statistics of version 0" in "".join(explained.lines())
    assert "BroadcastHashJoin" in explained.plan
    assert len(answer(market.lake, sql, engine="spark").rows()) == 20
    monkeypatch.setattr(broadcasting.small_parts, "__defaults__", (size // 9,))
    assert not explain(market.lake, sql, engine="spark").broadcasts  # too large, should they be wrong
    monkeypatch.setattr(eligibility, "LARGE_SCAN", 0)
    by_size = explain(market.lake, JOIN)
    assert by_size.engine == "spark" and "GiB" in by_size.reason
