"""What DuckDB is asked: names, values and depth come through as they are meant, and no column is read in vain."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.query.explain import explain

NAMES = ["id", "select", 'a"b', "it's", "Größe", "t0", "c1", "$t0"]
TEXT = "o'clock $t0 $1 ? :x %s {y} -- /* */"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    root = tmp_path_factory.mktemp("asked")
    (root / "headwater.yml").write_text("name: asked\nsources: {a: {type: append}}\ntopics: {odd: {from: a}}\n")
    with Lake.open(root) as opened:
        warehouse = opened._warehouse
        ids = pa.array([1, 2, 3], pa.int64())
        rows = pa.table([ids, *(pa.array([f"{name} {n}" for n in range(2)] + [TEXT]) for name in NAMES[1:])], NAMES)
        write_deltalake(str(warehouse.address(Kind.TOPIC, "odd").path), rows)
        warehouse.remember(Kind.TOPIC, "odd")
        yield opened


@pytest.mark.parametrize("name", NAMES[1:])
def test_any_name_can_be_asked_for(lake: Lake, name: str) -> None:
    sql = f"SELECT o.`{name}` AS `{name}`, max(`{name}`) OVER (PARTITION BY id) AS m FROM topic('odd') o WHERE id = 2"
    assert lake.sql(sql, engine="duckdb").rows() == [{name: f"{name} 1", "m": f"{name} 1"}]


def test_a_text_stays_as_it_is(lake: Lake) -> None:
    sql = f"""SELECT id, "{TEXT}" AS t FROM topic('odd') WHERE `select` = "{TEXT}" AND `it's` IN ("{TEXT}")"""
    assert lake.sql(sql, engine="duckdb").rows() == [{"id": 3, "t": TEXT}]


def test_what_is_deep_is_written(lake: Lake) -> None:
    deep = {
        " + ".join(["id"] * 250): 500,
        "CASE WHEN id = 1 THEN 0 ELSE " * 20 + "7" + " END" * 20: 7,
        "coalesce(NULL, " * 20 + "id" + ")" * 20: 2,
        "(SELECT max(id) + " * 5 + "1" + " AS y FROM topic('odd') WHERE id = 2)" * 5: 11,
    }
    for expression, value in deep.items():
        sql = f"SELECT {expression} AS x FROM topic('odd') WHERE id = 2"
        assert lake.sql(sql, engine="duckdb").rows() == [{"x": value}], expression[:60]


def test_columns_are_those_that_the_query_names(lake: Lake) -> None:
    """Also where a text looks like one of our names."""
    sql = "SELECT o.id, 't0.c1' AS x, p.t0 FROM topic('odd') o JOIN topic('odd') p ON o.id = p.id"
    first, second = explain(lake._warehouse, sql, engine="duckdb").tables
    assert (first.columns, second.columns) == (("id",), ("id", "t0"))


def test_the_plan_shows_a_scan_by_its_alias(lake: Lake) -> None:
    plan = explain(lake._warehouse, "SELECT id FROM topic('odd') WHERE id > 1", engine="duckdb").plan
    assert plan == "SELECT t0.c0 AS c0 FROM ($t0) AS t0 WHERE (t0.c0 > CAST(1 AS BIGINT))"
