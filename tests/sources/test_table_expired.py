"""Hudi and Paimon tables whose owners clean up quicker than they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.sources.table_lab import Follower, paimon_catalog

HUDI = {
    "hoodie.table.name": "theirs",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}


def test_versions_that_were_expired(spark: SparkSession, tmp_path: Path) -> None:
    paimon_catalog(spark, "expired_pai", tmp_path / "pai")
    spark.sql("CREATE DATABASE expired_pai.db")
    kept = "'primary-key' = 'id', 'snapshot.num-retained.min' = '2', 'snapshot.num-retained.max' = '2'"
    spark.sql(f"CREATE TABLE expired_pai.db.t (id bigint, v bigint) TBLPROPERTIES ({kept})")

    def write(v: int) -> None:
        rows = spark.range(3).selectExpr("id", f"{v}L AS v")
        rows.write.format("hudi").options(**HUDI).mode("append").save(str(tmp_path / "hudi"))
        rows.createOrReplaceTempView("expired_rows")
        spark.sql("INSERT INTO expired_pai.db.t SELECT * FROM expired_rows")

    def sources(**more: Any) -> dict[str, dict[str, Any]]:
        places = {"hudi": "hudi", "paimon": "pai/db.db/t"}
        return {name: {"format": name, "path": path, "read": "changes", **more} for name, path in places.items()}

    follower = Follower.make(tmp_path, sources())
    write(0)
    assert follower.ran() == {"hudi": 3, "paimon": 3}
    for v in range(1, 7):
        write(v)
    answer = follower.run()
    assert answer.code == 1
    for flow in answer.events[-1]["flows"]:
        assert flow["state"] == "failed" and "DATA_LOSS" in flow["error"] and "on_data_loss" in flow["error"], flow
    follower.define(sources(on_data_loss="continue"))
    follower.ran()
    for name in ("hudi", "paimon"):
        assert any("lost" in position for position in follower.positions(name)), name
    write(7)
    assert follower.ran() == {"hudi": 6, "paimon": 6}  # three rows went, and three came
