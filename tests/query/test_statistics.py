"""What is known of tables changes Spark's plan, and EXPLAIN ANALYZE tells of Spark as of DuckDB."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from headwater.core.model import Kind
from headwater.core.spec import Layout, ParquetOptions
from headwater.operations.parquet_files import RelationFiles
from headwater.query import broadcasts
from headwater.query.engines import answer
from headwater.query.explain import explain
from tests.query.events import DAYS, FILES, ROWS, events
from tests.query.lab import fill, project

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.warehouse import Warehouse

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
    assert "SortMergeJoin" in plain.df()._jdf.queryExecution().executedPlan().toString()
    monkeypatch.setattr(broadcasts.small_parts, "__defaults__", (3000,))
    small = answer(lake, JOIN)
    assert "BroadcastHashJoin" in small.df()._jdf.queryExecution().executedPlan().toString()
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
    left_out = (table.files_pruned_by_partition, table.files_pruned_by_bounds)
    if format == "iceberg":  # its files hold the columns that it is partitioned by, and their bounds
        assert left_out == (0, 2)
    else:
        assert (table.partitions, table.partitions_all, left_out) == (1, 3, (2, 0))
    assert table.bytes is not None and table.bytes_all is not None and 0 < table.bytes < table.bytes_all
    assert {stage.name for stage in explained.stages} >= {"analyse", "plan", "run"}
    assert any("scan" in stage.name and stage.rows == 10 for stage in explained.stages)
    assert explained.rows_estimated is not None and explained.cost == table.bytes
    forced = explain(lake, "SELECT id FROM things WHERE id < 5", engine="spark")
    assert forced.engine == "spark" and forced.reason == "it was asked for" and not forced.analyzed
    assert forced.tables[0].conditions == ("id < 5",)
    _gathers_statistics(lake, "word = 'word 3'", 2, 3)
    lake.close()


def _gathers_statistics(lake: Warehouse, condition: str, guessed: int | None, estimated: int) -> None:
    """What is gathered of a column takes the place of a guess, in either engine."""
    sql = f"SELECT id FROM things WHERE {condition}"
    (before,) = explain(lake, sql, engine="duckdb").tables
    version = RelationFiles(lake, Kind.TABLE, "things").stats().version
    (after,) = explain(lake, sql, engine="duckdb").tables
    (by_spark,) = explain(lake, sql, engine="spark").tables
    assert (before.rows_estimated, before.statistics_version) == (guessed, None)
    for table in (after, by_spark):
        assert (table.rows_estimated, table.statistics_version) == (estimated, version) == (estimated, table.version)
        assert table.rows_all is not None


@pytest.mark.parametrize("format", ["hudi", "paimon"])
def test_row_groups_of_files_that_only_spark_knows(spark: SparkSession, tmp_path: Path, format: str) -> None:
    lake = project(tmp_path, format)
    lake.spark.conf.set("spark.sql.parquet.columnIndex.enabled", "false")
    batches = [[(1000 * b + n, date(2024, 1, 1 + b), f"word {n:06d}" * 20) for n in range(1000)] for b in range(3)]
    layout = Layout(partition_by=("day",), parquet=ParquetOptions(row_group_size=64 * 1024))
    fill(lake, "things", SCHEMA, batches, layout)
    sql = "SELECT id FROM things WHERE day = '2024-01-02' AND id < 1050 AND word <> 'x'"
    explained = explain(lake, sql, engine="spark", analyze=True)
    (table,) = explained.tables
    assert (table.partitions, table.partitions_all, table.files, table.files_all) == (1, 3, 1, 3)
    assert explained.rows == 50
    assert table.row_groups == 1 and table.row_groups_all is not None and table.row_groups_all > 3
    assert table.row_groups_skipped_by_bounds == table.row_groups_all - 1
    assert table.rows is not None and 50 <= table.rows < 1000 / (table.row_groups_all - 1) + 1
    assert table.bytes is not None and table.bytes_all is not None and 0 < table.bytes < table.bytes_all / 6
    twice = explain(lake, "SELECT a.id FROM things a JOIN things b ON a.id = b.id", engine="spark", analyze=True)
    assert any("row groups  not known: the query reads it in several places" in line for line in twice.lines())
    native = explain(lake, sql, engine="duckdb", analyze=True)
    assert native.rows == 50 and any("row groups  not known: the rows came through" in line for line in native.lines())
    _gathers_statistics(lake, "id < 600 AND word IS NOT NULL", None, 600)
    lake.close()


def test_row_groups_that_spark_leaves_out(spark: SparkSession, tmp_path: Path) -> None:
    """What is counted by footers is what Spark does: its scan gives the rows of the row groups that are left."""
    lake = events(tmp_path)
    lake.spark.conf.set("spark.sql.parquet.columnIndex.enabled", "false")  # no rows of a row group left out
    for condition, files, groups, left in (
        ("id < 150", 1, 4, 2),
        ("day = '2024-05-01' AND name LIKE 'n1-0005%'", 1, 4, 1),
        ("amount >= 0 AND id BETWEEN 390 AND 410", 2, 8, 2),
        ("note IS NULL AND day = '2024-05-02'", 1, 4, 4),
        ("note IS NOT NULL AND id = 450 OR id = 2999", 1, 4, 1),
        ("NOT (id <= 3100) AND day <> '2024-05-01'", 1, 4, 1),
        ("id IN (5, 3000) AND reverse(name) <> 'x'", DAYS * FILES, 4 * DAYS * FILES, 2),  # Delta skips no file by IN
    ):
        explained = explain(lake, f"SELECT id FROM events WHERE {condition}", engine="spark", analyze=True)
        (table,) = explained.tables
        assert (table.files, table.row_groups_all, table.row_groups) == (files, groups, left), condition
        assert table.row_groups_skipped_by_bounds == groups - left
        assert table.rows == left * ROWS // 4, condition
        assert table.rows_estimated is not None and explained.cost is not None and explained.cost > 0
    bloomed = explain(lake, "SELECT id FROM events WHERE key = 'k050000x' AND id < 400", engine="spark", analyze=True)
    (table,) = bloomed.tables
    assert (table.row_groups_all, table.row_groups, table.row_groups_skipped_by_bloom_filter) == (4, 0, 4)
    assert table.rows == 0
    assert any("left out" in line and "by min and max" in line for line in explained.lines())
    assert any(line.startswith("cost: bytes to be read: estimated") for line in explained.lines())
    lake.close()
