"""What becomes of a view when its sources are replaced, restored, or get other columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater import Lake
from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec import Layout, Refresh
from headwater.operations.views import create_view, refresh_view
from tests.hints.followed import follows

FOLLOWED = Refresh(mode="manual", policy="incremental")


class Source:
    """A lake with one table, written by hand."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / "headwater.yml").write_text("name: lab\ntables: {t: {keys: [id]}}\n", encoding="utf-8")
        self.lake = Lake.open(root)
        self.warehouse = self.lake._warehouse
        self.table = self.warehouse.table(Kind.TABLE, "t")
        self.make("id bigint, a int, b string", [(1, 10, "x"), (2, 20, "y")])

    def make(self, ddl: str, rows: list[tuple[object, ...]]) -> None:
        df = self.lake.spark.createDataFrame(rows, ddl)
        self.table.create(df.schema, Layout(keys=("id",)))
        self.warehouse.remember(Kind.TABLE, "t")
        self.table.append(df)

    def add(self, ddl: str, *rows: tuple[object, ...]) -> None:
        self.table.upsert(self.lake.spark.createDataFrame(list(rows), ddl))

    def sql(self, text: str) -> None:
        self.lake.spark.sql(text.format(t=f"delta.`{self.table.address.path}`"))

    def rows(self, view: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in self.lake.view(view).df().collect())


@pytest.fixture
def source(tmp_path: Path, spark: SparkSession) -> Source:
    return Source(tmp_path)


def test_restored_and_made_again(source: Source) -> None:
    create_view(source.warehouse, "v", "SELECT id, a FROM t WHERE a > 5", FOLLOWED)
    source.add("id bigint, a int, b string", (3, 30, "z"))
    assert refresh_view(source.warehouse, "v").refresh_type == "incremental"
    source.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    done = refresh_view(source.warehouse, "v")
    assert done.refresh_type == "full" and "tables.t was restored or replaced" in done.reason
    assert source.rows("v") == [(1, 10), (2, 20)]
    source.table.drop()
    source.make("id bigint, a int, b string", [(9, 90, "n")])
    for number in range(3):
        source.add("id bigint, a int, b string", (number, 7, "n"))
    done = refresh_view(source.warehouse, "v")
    assert done.refresh_type == "full" and "made again" in done.reason
    assert source.rows("v") == [(0, 7), (1, 7), (2, 7), (9, 90)]
    source.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    with pytest.raises(HeadwaterError, match="NOT_INCREMENTAL"):
        refresh_view(source.warehouse, "v", "incremental_strict")
    source.lake.close()


def test_other_columns(source: Source) -> None:
    create_view(source.warehouse, "stars", "SELECT * FROM t", FOLLOWED)
    create_view(source.warehouse, "sums", "SELECT b, sum(a) AS s FROM t GROUP BY b", FOLLOWED)
    create_view(source.warehouse, "ids", "SELECT id FROM t", FOLLOWED)
    source.sql("ALTER TABLE {t} ADD COLUMNS (c string)")
    source.add("id bigint, a int, b string, c string", (3, 30, "x", "more"))
    for view in ("stars", "sums", "ids"):
        assert refresh_view(source.warehouse, view).refresh_type == "incremental"
        assert source.lake.view(view).verify().equal
    assert source.lake.view("stars").df().columns == ["id", "a", "b"]
    assert source.rows("sums") == [("x", 40), ("y", 20)]

    source.table.drop()
    source.make("id bigint, a int", [(1, 10)])
    before = source.rows("sums")
    with pytest.raises(HeadwaterError, match=r"'b' of tables.t is gone.*SCHEMA_MISMATCH"):
        refresh_view(source.warehouse, "sums")
    assert source.rows("sums") == before
    done = refresh_view(source.warehouse, "ids")
    assert done.refresh_type == "full" and source.rows("ids") == [(1,)]
    source.table.drop()
    source.make("id bigint, a string, b string", [(1, "ten", "x")])
    with pytest.raises(HeadwaterError, match=r"'a' of tables.t was int and is string now"):
        refresh_view(source.warehouse, "sums")
    assert refresh_view(source.warehouse, "stars", rebuild=True).reason == "it is rebuilt"
    assert source.rows("stars") == [(1, "ten", "x")]
    source.lake.close()


def test_a_star_is_all_columns_and_a_count_is_none(source: Source) -> None:
    counted = "SELECT b, count(*) AS n FROM t WHERE EXISTS (SELECT * FROM t AS other WHERE other.b = t.b) GROUP BY b"
    create_view(source.warehouse, "counted", counted, FOLLOWED)
    create_view(source.warehouse, "most", "SELECT b, count(*) AS n, max(a) AS m FROM t GROUP BY b", FOLLOWED)
    create_view(source.warehouse, "stars", "SELECT t.* FROM t", FOLLOWED)
    source.table.drop()
    source.make("id bigint, a string, b string", [(1, "9", "x"), (2, "10", "x")])
    for view, before in (("most", [("x", 1, 10), ("y", 1, 20)]), ("stars", [(1, 10, "x"), (2, 20, "y")])):
        with pytest.raises(HeadwaterError, match=r"'a' of tables.t was int and is string now.*SCHEMA_MISMATCH"):
            refresh_view(source.warehouse, view)
        assert source.rows(view) == before
    source.table.drop()
    source.make("id bigint, b string", [(1, "x"), (3, "z")])
    assert refresh_view(source.warehouse, "counted").refresh_type == "full"
    assert source.rows("counted") == [("x", 1), ("z", 1)]
    source.lake.close()


@follows("change its query, or rebuild its rows: {}")
def test_structs_that_get_fields(source: Source) -> None:
    """At any depth, what comes is left out; what goes or changes counts only where the query looks."""
    was = "id bigint, s struct<a: int, inner: array<struct<x: int>>>, n int"
    source.table.drop()
    source.make(was, [(1, (1, [(5,)]), 0), (2, (2, None), 0), (3, None, 0)])
    views = {
        "whole": "SELECT * FROM t",
        "struct": "SELECT id, s FROM t",
        "distinct": "SELECT DISTINCT * FROM t",
        "field": "SELECT t.s.a, count(*) AS n FROM t GROUP BY t.s.a",
        "joined": "SELECT l.id, r.s.inner AS i FROM t l JOIN t r ON l.s = r.s",
    }
    for view, sql in views.items():
        create_view(source.warehouse, view, sql, FOLLOWED)
    later = "id bigint, s struct<a: int, inner: array<struct<x: int, y: string>>, more: string>, n int"
    source.sql("ALTER TABLE {t} ADD COLUMNS (s.inner.element.y string, s.more string)")
    source.add(later, (1, (1, [(6, "y")], "m"), 0), (3, (3, [], None), 0), (4, (4, [(7, None)], "m"), 0))
    for view in views:
        assert refresh_view(source.warehouse, view).refresh_type == "incremental", view
        assert source.lake.view(view).verify().equal, view
    assert source.rows("struct") == [(1, (1, [(6,)])), (2, (2, None)), (3, (3, [])), (4, (4, [(7,)]))]
    assert source.rows("field") == [(1, 1), (2, 1), (3, 1), (4, 1)]

    source.table.drop()
    source.make("id bigint, s struct<a: int, inner: array<struct<x: string>>>, n int", [(1, (1, [("5",)]), 0)])
    for view in ("whole", "struct", "joined"):
        with pytest.raises(HeadwaterError, match=r"'s.inner.x' of tables.t was int and is string now"):
            refresh_view(source.warehouse, view)
    assert refresh_view(source.warehouse, "field").refresh_type == "full" and source.rows("field") == [(1, 1)]
    source.table.drop()
    source.make("id bigint, s struct<inner: int>, n int", [(1, (1,), 0)])
    with pytest.raises(HeadwaterError, match=r"'s.a' of tables.t is gone"):
        refresh_view(source.warehouse, "field")
    create_view(source.warehouse, "field", views["field"].replace("t.s.a", "t.s.inner"), FOLLOWED, replace=True)
    assert source.rows("field") == [(1, 1)]
    source.lake.close()
