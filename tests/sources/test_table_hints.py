"""Tables of others that can't be followed as they are: what the hint says is done, and they can."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.hints.followed import follows
from tests.sources.table_lab import Follower


@follows("take its files in with a source of type `files`, `file_format: parquet`")
def test_a_folder_of_parquet_files_has_no_versions(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "theirs" / "1.parquet")
    follower = Follower.make(tmp_path, {"theirs": {"format": "parquet", "path": "theirs"}})
    assert "can't be followed" in follower.failed()
    follower.define({"theirs": {"type": "files", "path": "./theirs", "file_format": "parquet"}})
    assert follower.ran() == {"theirs": 2}
