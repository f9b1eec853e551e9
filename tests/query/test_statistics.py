"""What is known of tables changes Spark's plan, and EXPLAIN ANALYZE tells of Spark as of DuckDB."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from headwater.query import statistics
from headwater.query.answering import answer
from headwater.query.explaining import explain
from headwater.spec import Layout
from tests.query.lab import fill, project

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = "id int, day date, word string"
JOIN = (
    "SELECT a.id, count(*) AS n FROM things a JOIN others b ON a.id = b.id "
    "WHERE b.day = '2024-01-02' AND reverse(a.word) IS NOT NULL GROUP BY a.id"
)


def test_a_join_is_broadcast_by_what_its_conditions_leave(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = project(tmp_path, "parquet")
    for name in ("things", "others"):
        rows = [(n, date(2024, 1, 1 + n % 4), f"word {n}") for n in range(200)]
        fill(lake, name, SCHEMA, [rows], Layout(partition_by=("day",)))
    lake.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000")
    plain = answer(lake, JOIN)
    assert plain.engine == "spark" and "reverse" in plain.reason
    assert "SortMergeJoin" in plain.df._jdf.queryExecution().executedPlan().toString()
    monkeypatch.setattr(statistics.small_parts, "__defaults__", (3000,))
    small = answer(lake, JOIN)
    assert "BroadcastHashJoin" in small.df._jdf.queryExecution().executedPlan().toString()
    assert sorted(row["id"] for row in small) == sorted(row["id"] for row in plain)
    lake.close()


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_spark_tells_what_it_has_read(spark: SparkSession, tmp_path: Path, format: str) -> None:
    lake = project(tmp_path, format)
    batches = [[(10 * b + n, date(2024, 1, 1 + b), f"word {n}") for n in range(10)] for b in range(3)]
    fill(lake, "things", SCHEMA, batches, Layout(partition_by=("day",)))
    sql = "SELECT id FROM things WHERE day = '2024-01-02' AND reverse(word) < 'a'"
    explained = explain(lake, sql, analyze=True)
    assert explained.engine == "spark" and "reverse" in explained.reason
    assert explained.rows == 10
    (table,) = explained.tables
    assert (table.relation, table.reader, table.files_all, table.rows_all) == ("tables.things", "spark", 3, 30)
    assert table.files == 1 and table.rows == 10
    assert "id" in table.columns and table.columns_all == 3
    assert {stage.name for stage in explained.stages} >= {"analyse", "plan", "run"}
    forced = explain(lake, "SELECT id FROM things WHERE id < 5", engine="spark")
    assert forced.engine == "spark" and forced.reason == "it was asked for" and not forced.analyzed
    assert forced.tables[0].conditions == ("id < 5",)
    lake.close()
