"""Iceberg tables of others as a source: written by plain Spark, by path, and by pyiceberg, in a catalog."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from tests.sources.table_lab import Follower, hadoop_catalog

MERGE_ON_READ = ", ".join(f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))


@pytest.fixture
def sql(spark: SparkSession, tmp_path: Path) -> Any:
    # A session keeps a catalog as it was first opened: each test has one of its own.
    name = f"theirs_{uuid.uuid4().hex[:8]}"
    hadoop_catalog(spark, name, tmp_path)
    return lambda text: spark.sql(text.replace("theirs.", f"{name}."))


def source(**more: Any) -> dict[str, dict[str, Any]]:
    return {"t": {"format": "iceberg", "path": "db/t", **more}}


def create(sql: Any, properties: str = "") -> None:
    clause = f"TBLPROPERTIES ({properties})" if properties else ""
    sql(f"CREATE TABLE theirs.db.t (id int, v string) USING iceberg {clause}")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merge_overwrite_and_compaction(sql: Any, tmp_path: Path, mode: str) -> None:
    create(sql, MERGE_ON_READ if mode == "merge-on-read" else "")
    follower = Follower.make(tmp_path, source(read="changes"))
    assert follower.ran() == {"t": 0}  # a table without a snapshot
    sql("INSERT INTO theirs.db.t VALUES (1, 'a'), (2, 'a'), (2, 'a'), (3, NULL)")
    assert follower.ran() == {"t": 4}
    sql(
        "MERGE INTO theirs.db.t t USING (SELECT id, 'b' AS v FROM VALUES (1), (9) AS s(id)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    sql("CALL theirs.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    assert follower.ran() == {"t": 3}
    assert follower.summed("t", "id", "v") == {(1, "b"): 1, (2, "a"): 2, (3, None): 1, (9, "b"): 1}
    sql("INSERT OVERWRITE theirs.db.t VALUES (3, NULL), (4, 'o')")
    sql("DELETE FROM theirs.db.t WHERE id = 3")
    follower.ran()
    assert follower.summed("t", "id", "v") == {(4, "o"): 1}


def test_appends_through_expiry_and_a_rollback(sql: Any, tmp_path: Path) -> None:
    create(sql)
    follower = Follower.make(tmp_path, source())
    sql("INSERT INTO theirs.db.t VALUES (1, 'a')")
    sql("INSERT INTO theirs.db.t VALUES (2, 'a')")
    follower.ran()
    first = sql("SELECT snapshot_id FROM theirs.db.t.snapshots ORDER BY committed_at").first()[0]
    sql("INSERT INTO theirs.db.t VALUES (3, 'a')")
    sql("CALL theirs.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    sql("INSERT INTO theirs.db.t VALUES (4, 'a')")
    assert follower.ran() == {"t": 2}  # three versions, and one of them moved rows only
    sql(f"CALL theirs.system.rollback_to_snapshot('db.t', {first})")
    assert "changed or removed 3 rows" in follower.failed()
    follower.define(source(on_change="ignore"))
    assert follower.ran() == {"t": 0}
    sql("INSERT INTO theirs.db.t VALUES (5, 'a')")
    sql("INSERT INTO theirs.db.t VALUES (6, 'a')")
    sql("CALL theirs.system.expire_snapshots(table => 'db.t', older_than => timestamp'2099-01-01', retain_last => 1)")
    why = follower.failed()
    assert "DATA_LOSS" in why and f"version {first} has been expired" in why
    follower.define(source(on_change="ignore", on_data_loss="continue"))
    assert follower.ran() == {"t": 0}
    assert "has been expired" in follower.positions("t")[-1]["lost"]
    sql("INSERT INTO theirs.db.t VALUES (7, 'a')")
    assert follower.ran() == {"t": 1}
    assert follower.rows("t", "id") == {(n,): 1 for n in (1, 2, 3, 4, 7)}


def test_columns_that_are_added_and_widened(sql: Any, tmp_path: Path) -> None:
    create(sql)
    follower = Follower.make(tmp_path, source(read="changes"))
    sql("INSERT INTO theirs.db.t VALUES (1, 'a')")
    follower.ran()
    sql("ALTER TABLE theirs.db.t ADD COLUMN note string")
    sql("ALTER TABLE theirs.db.t ALTER COLUMN id TYPE bigint")
    sql("INSERT INTO theirs.db.t VALUES (5000000000, 'b', 'n')")
    sql("DELETE FROM theirs.db.t WHERE id = 1")
    assert follower.ran() == {"t": 2}
    assert follower.summed("t", "id", "v", "note") == {(5000000000, "b", "n"): 1}


def test_a_table_that_pyiceberg_writes_in_a_catalog(spark: SparkSession, tmp_path: Path) -> None:
    database = tmp_path / "theirs.db"
    catalog = SqlCatalog("theirs_sql", uri=f"sqlite:///{database}", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("sales")
    shape = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = catalog.create_table("sales.orders", schema=shape)

    def append(*ids: int) -> None:
        table.append(pa.table({"id": list(ids), "v": ["a"] * len(ids)}, schema=shape))

    append(1, 2)
    spec = {"format": "iceberg", "table": "theirs_sql.sales.orders", "read": "changes"}
    catalogs = {"theirs_sql": {"type": "jdbc", "uri": f"jdbc:sqlite:{database}", "warehouse": f"file://{tmp_path}/wh"}}
    follower = Follower.make(tmp_path, {"t": spec, "fresh": {**spec, "read": "appends"}}, catalogs=catalogs)
    assert follower.ran() == {"t": 2, "fresh": 2}
    append(3)
    assert follower.ran() == {"t": 1, "fresh": 1}
    table.delete("id = 2")
    table.overwrite(pa.table({"id": [1], "v": ["b"]}, schema=shape), overwrite_filter="id = 1")
    answer = follower.run()
    assert answer.code == 1
    errors = {flow["flow"]: flow["error"] for flow in answer.events[-1]["flows"]}
    assert errors["topics.t"] is None and "SOURCE_ROWS_CHANGED" in str(errors["topics.fresh"])
    assert follower.summed("t", "id", "v") == {(1, "b"): 1, (3, "a"): 1}
    follower.define({"t": {"format": "iceberg", "path": "wh/sales/orders"}}, catalogs=catalogs)
    assert "NO_SUCH_RELATION" in follower.failed() and "goes by name" in follower.failed()
