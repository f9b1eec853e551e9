"""Tables by a function of frames: it runs on the changes of what it takes, and history gives the same rows as live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_examples import blocks
from tests.hints.followed import follows
from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")

PROJECT = """\
name: shop
code: shop.py
sources:
  placed: {type: files, path: ./placed, schema: "id bigint, customer string, lines array<string>"}
  returned: {type: files, path: ./returned, schema: "id bigint, line string"}
  crm: {type: files, path: ./crm, schema: "id bigint, n bigint, name string, gone boolean"}
topics: {orders: {from: placed}, returns: {from: returned}, log: {from: crm}}
tables:
  people: {from: topic('log'), apply: {keys: [id], sequence_by: n, delete_when: gone}}
"""
TABLES = "  lines: {transform: lines}\n  greeted: {transform: greeted}\n"
CODE = """\
import pandas as pd
from pyspark.sql import functions as F

from headwater import transform


@F.pandas_udf("string")
def shouted(name: pd.Series) -> pd.Series:
    return name.str.upper()


@transform("lines")
def lines(orders, returns):
    bought = orders.select("id", F.explode("lines").alias("line"), F.lit(1).alias("n"))
    back = returns.select("id", "line", F.lit(-1).alias("n"))
    return bought.unionByName(back).where("line <> 'gift'").withColumn("line", shouted("line"))


@transform
def greeted(people):
    hello = F.udf(lambda name: f"Hello {name}", "string")
    return people.where("name IS NOT NULL").select("id", hello("name").alias("hello"))
"""


class Shop:
    def __init__(self, root: Path, tables: str = TABLES, code: str = CODE) -> None:
        self.root = root
        for folder in ("placed", "returned", "crm"):
            (root / folder).mkdir(parents=True)
        (root / "headwater.yml").write_text(PROJECT + tables, encoding="utf-8")
        self.code(code)

    def code(self, text: str) -> None:
        (self.root / "shop.py").write_text(text, encoding="utf-8")

    def land(self, name: str, *rows: dict[str, Any]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.root / f"{name}.json").write_text(text, encoding="utf-8")

    def run(self, *flows: str) -> dict[str, dict[str, Any]]:
        """What failed, by its flow."""
        ran = headwater("run", *flows, "--once", "--json", "--project", self.root)
        failed = {one["flow"]: one for one in ran.events if one["event"] == "failed"}
        assert ran.code == (1 if failed else 0), ran.out + ran.err
        return failed

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found = headwater("query", sql, "--json", "--project", self.root)
        assert found.code == 0, found.err
        return [tuple(row.values()) for row in found.json]


STEPS = [
    {
        "placed/1": [{"id": 1, "lines": ["boots", "boots", "gift"]}],
        "returned/1": [],
        "crm/1": [{"id": 1, "n": 1, "name": "Ann"}, {"id": 2, "n": 1, "name": "Bea"}, {"id": 3, "n": 1, "name": "Ann"}],
    },
    {
        "placed/2": [{"id": 2, "lines": ["maps"]}],
        "returned/2": [{"id": 1, "line": "boots"}],
        "crm/2": [{"id": 1, "n": 2, "name": "Amy"}, {"id": 2, "n": 2, "gone": True}, {"id": 3, "n": 2}],
    },
]
LINES = "SELECT id, line, n FROM table('lines') ORDER BY id, line, n"
GREETED = "SELECT id, hello FROM table('greeted') ORDER BY id"


@follows("give it, or rebuild its rows: {}")
def test_changes_and_history_give_the_same_rows(tmp_path: Path) -> None:
    live, later = Shop(tmp_path / "live"), Shop(tmp_path / "later")
    for step in STEPS:
        for name, rows in step.items():
            for shop in (live, later):
                shop.land(name, *rows)
        assert live.run() == {}
    assert later.run() == {}
    assert later.rows(LINES) == [(1, "BOOTS", -1), (1, "BOOTS", 1), (1, "BOOTS", 1), (2, "MAPS", 1)]
    assert live.rows(LINES) == later.rows(LINES)
    assert later.rows(GREETED) == [(1, "Hello Amy")]
    assert live.rows(GREETED) == later.rows(GREETED)
    history = headwater("table", "history", "lines", "--json", "--project", live.root).json
    assert [(one["rows_added"], one["rows_removed"] or 0) for one in history if one["step"]] == [(2, 0)]

    # A function that has changed is taken up by the next step, without what was read before. Not where rows may go:
    # they would be looked for as they are made now, so all of them are rebuilt.
    with_order = CODE.replace("withColumn(", "withColumn('order', F.concat(F.lit('o'), 'id')).withColumn(")
    live.code(with_order.replace("Hello", "Good day"))
    live.land("returned/3", {"id": 2, "line": "maps"})
    live.land(
        "crm/3", {"id": 1, "n": 3, "gone": True}, {"id": 4, "n": 1, "name": "Dan"}, {"id": 5, "n": 1, "name": "Eve"}
    )
    assert live.run() == {}
    maps = "SELECT id, n, `order` FROM table('lines') WHERE line = 'MAPS' ORDER BY n"
    assert live.rows(maps) == [(2, -1, "o2"), (2, 1, None)]
    assert live.rows(GREETED) == [(4, "Good day Dan"), (5, "Good day Eve")]

    # A column that the table has can't go missing.
    live.code(with_order.replace('.withColumn("line", shouted("line"))', '.drop("n")'))
    live.land("placed/4", {"id": 9, "lines": ["tent"]})
    failed = live.run("topics.orders", "tables.lines")["tables.lines"]["error"]
    assert "SCHEMA_MISMATCH" in failed and "column 'n'" in failed and "headwater flow rebuild tables.lines" in failed
    assert live.rows(maps) == [(2, -1, "o2"), (2, 1, None)]
    rebuilt = headwater("flow", "rebuild", "tables.lines", "--yes", "--project", live.root)
    assert rebuilt.code == 0, rebuilt.err
    assert live.run("tables.lines") == {}
    assert live.rows("SELECT id FROM table('lines') WHERE line = 'tent'") == [(9,)]


WRONG = {
    "counted": ("return orders.groupBy('customer').count()", "NOT_LINEAR", "aggregates rows (Aggregate)"),
    "joined": ("return orders.join(returns, 'id')", "NOT_LINEAR", "joins its inputs (Join)"),
    "once": ("return orders.select('id').distinct()", "NOT_LINEAR", "there twice (Deduplicate)"),
    "some": ("return orders.limit(3)", "NOT_LINEAR", "by a limit (GlobalLimit)"),
    "newest": (
        "return orders.select('id', F.row_number().over(Window.orderBy('id')).alias('n'))",
        "NOT_LINEAR",
        "by a window (Window)",
    ),
    "dice": ("return orders.select('id', F.rand().alias('x'))", "NOT_LINEAR", "something else each time (rand("),
    "clock": ("return orders.select('id', F.current_timestamp().alias('x'))", "NOT_LINEAR", "the time of its run"),
    "asked": ("return orders.where('id IN (SELECT 1)')", "NOT_LINEAR", "a query inside of an expression"),
    "made_up": ("return orders.sparkSession.range(3)", "NOT_LINEAR", "none of its parameters (Range)"),
    "read": ("return orders.withColumn('n', F.lit(orders.count()))", "NOT_LINEAR", "read inside of the function"),
    "nothing": ("return 5", "TRANSFORM_FAILED", "it gives a int, not a DataFrame"),
    "raising": ("raise ValueError('no')", "TRANSFORM_FAILED", "ValueError: no"),
    "misspelt": ("return orders.select('idd')", "TRANSFORM_FAILED", "idd"),
    "doubled": ("return orders.select('id', 'id')", "TRANSFORM_FAILED", "the name 'id'"),
}


@follows("write it as `sql:`, which is kept by its changes whatever it does, or as @transform(…, …")
def test_what_needs_more_than_single_rows_is_refused_with_what_does(tmp_path: Path) -> None:
    code = "from pyspark.sql import Window\nfrom pyspark.sql import functions as F\nfrom headwater import transform\n"
    for name, (body, _, _) in WRONG.items():
        code += f"\n\n@transform\ndef {name}(orders, returns):\n    {body}\n"
    shop = Shop(tmp_path, "".join(f"  {name}: {{transform: {name}}}\n" for name in WRONG), code)
    shop.land("placed/1", {"id": 1, "customer": "c", "lines": ["a"]})
    shop.land("returned/1", {"id": 1, "line": "a"})
    shop.land("crm/1", {"id": 1, "n": 1, "name": "Ann"})
    failed = shop.run()
    assert set(failed) == {f"tables.{name}" for name in WRONG}
    for name, (_, code, words) in WRONG.items():
        told = failed[f"tables.{name}"]["error"]
        assert f"[{code}]" in told and words in told and "shop.py:" in told, told
    assert "write it as `sql:`" in failed["tables.counted"]["error"]


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = next(one for one in blocks("docs/tables.md", "yaml") if "transform: lines" in one)
    code = next(one for one in blocks("docs/tables.md", "python") if "def lines" in one)
    (tmp_path / "headwater.yml").write_text(page, encoding="utf-8")
    (tmp_path / "shop.py").write_text(code, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text('{"id": 1, "lines": ["boots", "gift"]}\n', encoding="utf-8")
    assert headwater("run", "--once", "--project", tmp_path).code == 0
    found = headwater("query", "SELECT id, line FROM table('lines')", "--json", "--project", tmp_path)
    assert found.json == [{"id": 1, "line": "boots"}]
