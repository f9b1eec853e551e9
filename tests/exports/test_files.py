"""Snapshots in files: what foreign readers find in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError
from headwater.core.spec import Export
from headwater.exports.snapshot import export_snapshot
from tests.exports.lakes import lake_with_rows
from tests.hints.followed import follows

pytestmark = pytest.mark.usefixtures("spark")


def export(lake: Lake, **keys: Any) -> Any:
    definition = Export.model_validate({"from": "table('goods')", **keys})
    return export_snapshot(lake._warehouse, definition)


def test_a_parquet_snapshot_has_the_rows_and_a_manifest(spark: SparkSession, tmp_path: Path) -> None:
    with lake_with_rows(tmp_path / "shop", nested=True) as lake:
        done = export(lake, format="parquet", to="./out", compression="zstd")
        expected = sorted(map(str, lake.sql("SELECT * FROM goods").to_arrow().to_pylist()))
    out = tmp_path / "shop" / "out"
    manifest = json.loads((out / "_manifest.json").read_text())
    assert (done.rows, done.files) == (6, len(manifest["files"]))
    assert manifest["rows"] == 6
    assert manifest["checksum"] == done.checksum
    assert manifest["source"]["versions"] == {"tables.goods": done.versions["tables.goods"]}
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["_manifest.json", *(file["path"] for file in manifest["files"])]
    )
    found = pq.ParquetDataset(out).read()
    assert sorted(map(str, found.to_pylist())) == expected
    assert done.readers[0].reader.startswith("pyarrow ")
    first = pq.ParquetFile(out / manifest["files"][0]["path"])
    assert first.metadata.row_group(0).column(0).compression == "ZSTD"


@follows(
    "export to another folder",
    "export to another place, or say what to do with it: --if-exists append or overwrite",
)
def test_a_destination_that_is_there_is_left_alone_unless_said_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    with lake_with_rows(tmp_path / "shop") as lake:
        first = export(lake, format="parquet", to="./out")
        with pytest.raises(HeadwaterError) as refused:
            export(lake, format="parquet", to="./out")
        assert refused.value.code is Code.ALREADY_EXISTS
        twice = export(lake, format="parquet", to="./out", if_exists="append")
        assert pq.ParquetDataset(tmp_path / "shop" / "out").read().num_rows == 12
        manifest = json.loads((tmp_path / "shop" / "out" / "_manifest.json").read_text())
        assert (manifest["rows"], first.checksum) == (12, twice.checksum)
        export(lake, format="parquet", to="./out", if_exists="overwrite")
        assert pq.ParquetDataset(tmp_path / "shop" / "out").read().num_rows == 6
        (tmp_path / "shop" / "notes").mkdir()
        (tmp_path / "shop" / "notes" / "mine.txt").write_text("mine")
        with pytest.raises(HeadwaterError) as other:
            export(lake, format="parquet", to="./notes", if_exists="overwrite")
        assert other.value.code is Code.ALREADY_EXISTS
        assert (tmp_path / "shop" / "notes" / "mine.txt").read_text() == "mine"


def test_columns_filter_names_types_and_partitions(spark: SparkSession, tmp_path: Path) -> None:
    with lake_with_rows(tmp_path / "shop") as lake:
        done = export(
            lake,
            format="parquet",
            to="./out",
            columns=["id", "price", "at", "flag"],
            filter="id <> 4",
            schema="id AS key string, price decimal(14,3)",
            partition_by=["date(at)", "flag"],
        )
        assert done.rows == 5
        out = tmp_path / "shop" / "out"
        folders = {path.parent.relative_to(out).as_posix() for path in out.rglob("*.parquet")}
        assert "date_at=2024-05-01/flag=true" in folders
        table = pq.ParquetDataset(out).read()
        assert str(table.schema.field("key").type) == "string"
        assert str(table.schema.field("price").type) == "decimal128(14, 3)"
        with pytest.raises(HeadwaterError, match="does not fit into int"):
            export(lake, format="parquet", to="./bad", schema="name int")
        assert not (tmp_path / "shop" / "bad").exists() or not list((tmp_path / "shop" / "bad").iterdir())


def test_a_query_is_exported_at_the_versions_that_it_reads(spark: SparkSession, tmp_path: Path) -> None:
    with lake_with_rows(tmp_path / "shop") as lake:
        query = "SELECT flag, count(*) AS n FROM table('goods') GROUP BY flag"
        definition = Export.model_validate({"from": query, "format": "parquet", "to": "./out"})
        done = export_snapshot(lake._warehouse, definition)
    found = pq.ParquetDataset(tmp_path / "shop" / "out").read().to_pylist()
    assert {row["flag"]: row["n"] for row in found} == {True: 3, False: 2, None: 1}
    assert list(done.versions) == ["tables.goods"]
