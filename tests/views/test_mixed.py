"""Views in another format than what they read; laid out as they are declared."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from pyspark.sql import SparkSession

from headwater import Lake
from headwater.core.model import DELETED, Kind
from headwater.core.spec import Layout
from headwater.operations.views import create_view, refresh_view, verify_view
from tests.support import Shop
from tests.views.test_sources import FOLLOWED

ROWS = "id bigint, g string, n int"


def test_an_iceberg_table_under_a_delta_view(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "headwater.yml").write_text(
        "name: mixed\nformat: delta\ntables: {t: {keys: [id], format: iceberg}}\n", encoding="utf-8"
    )
    with Lake.open(tmp_path) as lake:
        warehouse = lake._warehouse
        table = warehouse.table(Kind.TABLE, "t")
        table.create(lake.spark.createDataFrame([], ROWS).schema, Layout(keys=("id",)))
        warehouse.remember(Kind.TABLE, "t")
        create_view(warehouse, "sums", "SELECT g, count(*) AS k, sum(n) AS s FROM t GROUP BY g", FOLLOWED)
        assert lake.table("t").expire(datetime.now(timezone.utc)) == []  # the view has read no version yet
        for rows in ([(1, "a", 1, False), (2, "b", 2, False)], [(1, "a", 1, True), (3, "b", 5, False)]):
            table.upsert(lake.spark.createDataFrame(rows, f"{ROWS}, {DELETED} boolean"))
            last = refresh_view(warehouse, "sums")
            assert verify_view(warehouse, "sums").equal
        assert last.refresh_type == "incremental"
        assert [tuple(row) for row in lake.view("sums").df().collect()] == [("b", 2, 7)]
        assert {view.name: view.format for view in lake.views()} == {"sums": "delta"}


def test_a_parquet_topic_under_a_delta_view(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop.make(tmp_path, topic="format: parquet")
    with (tmp_path / "headwater.yml").open("a", encoding="utf-8") as file:
        file.write(
            "views:\n  sums:\n    sql: SELECT product, sum(amount) AS total FROM topic('orders') GROUP BY product\n"
            "    refresh: {policy: incremental}\n"
        )
    for name in ("a.json", "b.json"):
        shop.land(name, [{"product": "tea", "amount": 3}, {"product": name, "amount": 11}])
        assert shop.run().code == 0
    with Lake.open(tmp_path) as lake:
        assert [one.refresh_type for one in lake.view("sums").describe().refreshes] == ["incremental", "full"]
        assert lake.view("sums").verify().equal
        assert {row["product"]: row["total"] for row in lake.view("sums").df().collect()}["tea"] == 6


def test_laid_out_as_declared(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "headwater.yml").write_text(
        "name: laid\nformat: delta\ntables: {t: {keys: [id]}}\nviews:\n"
        "  parts: {sql: 'SELECT id, g, n FROM t', partition_by: [g], z_order_by: [n], refresh: {mode: manual}}\n",
        encoding="utf-8",
    )
    with Lake.open(tmp_path) as lake:
        warehouse = lake._warehouse
        table = warehouse.table(Kind.TABLE, "t")
        rows = [(n, "ab"[n % 2], n % 7) for n in range(20)]
        table.create(lake.spark.createDataFrame(rows, ROWS).schema, Layout(keys=("id",)))
        warehouse.remember(Kind.TABLE, "t")
        table.append(lake.spark.createDataFrame(rows, ROWS))
        refresh_view(warehouse, "parts")
        table.upsert(lake.spark.createDataFrame([(1, "a", 3), (30, "c", 1), (31, None, 1)], ROWS))
        assert refresh_view(warehouse, "parts", "incremental").refresh_type == "incremental"
        assert verify_view(warehouse, "parts").equal
        view = warehouse.table(Kind.VIEW, "parts")
        assert (view.layout().partition_by, view.layout().z_order_by) == (("g",), ("n",))
        detail = lake.spark.sql(f"DESCRIBE DETAIL delta.`{view.address.path}`").collect()[0]
        assert detail["partitionColumns"] == ["g"]
        files = {Path(file.path).parent.name for file in view.files() if file.rows}
        assert files == {"g=a", "g=b", "g=c", "g=__HIVE_DEFAULT_PARTITION__"}
