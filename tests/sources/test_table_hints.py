"""Tables of others that can't be followed as they are: what the hint says is done, and they can."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.hints.followed import follows
from tests.sources.table_lab import Follower, paimon_catalog


@follows("take its files in with a source of type `files`, `file_format: parquet`")
def test_a_folder_of_parquet_files_has_no_versions(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "theirs" / "1.parquet")
    follower = Follower.make(tmp_path, {"theirs": {"format": "parquet", "path": "theirs"}})
    assert "can't be followed" in follower.failed()
    follower.define({"theirs": {"type": "files", "path": "./theirs", "file_format": "parquet"}})
    assert follower.ran() == {"theirs": 2}


@pytest.mark.full
@follows("write that table with `file.format: orc`")
def test_structs_in_parquet_files_whose_rows_must_be_merged(spark: SparkSession, tmp_path: Path) -> None:
    paimon_catalog(spark, "hints_pai", tmp_path / "pai")
    spark.sql("CREATE DATABASE hints_pai.db")

    def write(file_format: str) -> None:
        options = f"'primary-key' = 'id', 'bucket' = '1', 'file.format' = '{file_format}'"
        spark.sql(f"CREATE TABLE hints_pai.db.in_{file_format} (id bigint, s struct<x: int>) TBLPROPERTIES ({options})")
        spark.sql(f"INSERT INTO hints_pai.db.in_{file_format} SELECT 1L, named_struct('x', 7)")

    def source(file_format: str) -> dict[str, dict[str, str]]:
        return {file_format: {"format": "paimon", "path": f"pai/db.db/in_{file_format}", "read": "changes"}}

    write("parquet")
    follower = Follower.make(tmp_path, source("parquet"))
    assert "can't read structs exactly" in follower.failed()
    write("orc")
    follower.define(source("orc"))
    assert follower.ran() == {"orc": 1}
    assert follower.rows("orc", "id", "s.x") == {(1, 7): 1}
