"""Snapshots in files: what foreign readers find in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from csv import DictReader
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars
import pyarrow.orc
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


@pytest.mark.parametrize("format", ["csv", "json", "avro", "arrow"])
def test_each_format_of_files_is_read_back_by_others(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """The job itself compares all values, by a library that is not Spark; here another look at some of them."""
    nested = format != "csv"
    with lake_with_rows(tmp_path / "shop", nested=nested) as lake:
        done = export(lake, format=format, to="./out")
        parts = export(lake, format=format, to="./parts", partition_by=["day"], columns=["id", "name", "day"])
        if format == "csv":
            packed = export(lake, format=format, to="./packed", compression="gzip", delimiter="|", header=False)
            assert packed.rows == 6
    assert (done.rows, parts.rows) == (6, 6)
    assert [one.rows for one in done.readers] == [6]
    out = tmp_path / "shop" / "out"
    files = [out / file["path"] for file in json.loads((out / "_manifest.json").read_text())["files"]]
    names = sorted(str(row["name"]) for row in OTHER_READERS[format](files))
    assert names == sorted(["Ada", "None", 'comma, "quote"', "", "=1+1", "zwei\nZeilen ß €"])
    folders = {path.parent.name for path in (tmp_path / "shop" / "parts").rglob(f"*.{format}*")}
    assert {"day=2024-02-29", "day=__HIVE_DEFAULT_PARTITION__"} <= folders


def _csv_rows(files: list[Path]) -> list[dict[str, Any]]:
    found = []
    for file in files:
        with file.open(newline="", encoding="utf-8") as opened:
            found += [
                {**row, "name": row["name"] if row["name"] or row["id"] == "4" else None} for row in DictReader(opened)
            ]
    return found


def _avro_rows(file: Path) -> list[dict[str, Any]]:
    with file.open("rb") as opened:
        rows: Any = list(fastavro.reader(opened))
    return list(rows)


def test_orc_is_refused_where_readers_disagree(spark: SparkSession, tmp_path: Path) -> None:
    """The last second before 1970: what Spark writes as 1969-12-31 23:59:59.999999 others read as a second later."""
    with lake_with_rows(tmp_path / "shop", nested=True) as lake:
        done = export(lake, format="orc", to="./out", filter="id <> 3")
        with pytest.raises(HeadwaterError) as refused:
            export(lake, format="orc", to="./all")
        assert refused.value.code is Code.EXPORT_MISMATCH
    assert done.rows == 5
    files = (tmp_path / "shop" / "out").glob("*.orc")
    rows = [row for file in files for row in pyarrow.orc.read_table(file).to_pylist()]
    assert sorted(str(row["price"]) for row in rows) == ["0.10", "1.00", "10.50", "99999999.99", "None"]
    assert not list((tmp_path / "shop" / "all").glob("*.orc"))


OTHER_READERS: dict[str, Callable[[list[Path]], list[dict[str, Any]]]] = {
    "csv": _csv_rows,
    "json": lambda files: duckdb.read_json([str(file) for file in files]).fetch_arrow_table().to_pylist(),
    "avro": lambda files: [row for file in files for row in _avro_rows(file)],
    "arrow": lambda files: [row for file in files for row in polars.read_ipc(file, memory_map=False).to_dicts()],
}


def test_brotli_is_written_by_pyarrow(spark: SparkSession, tmp_path: Path) -> None:
    with lake_with_rows(tmp_path / "shop", nested=True) as lake:
        done = export(lake, format="parquet", to="./out", compression="brotli", partition_by=["flag"])
        assert done.rows == 6
        export(lake, format="parquet", to="./none", compression="brotli", filter="false")
    file = next((tmp_path / "shop" / "out" / "flag=true").glob("*.parquet"))
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "BROTLI"
    assert pq.ParquetDataset(tmp_path / "shop" / "none").read().num_rows == 0


def test_csv_values_that_look_like_formulas_get_a_quote(spark: SparkSession, tmp_path: Path) -> None:
    with lake_with_rows(tmp_path / "shop") as lake:
        export(lake, format="csv", to="./out", escape_formulas=True, columns=["id", "name", "n"])
    files = list((tmp_path / "shop" / "out").glob("*.csv"))
    rows = {row["id"]: row for row in _csv_rows(files)}
    assert (rows["5"]["name"], rows["3"]["n"]) == ("'=1+1", "-1")


@pytest.mark.parametrize(
    ("format", "keys", "code", "said"),
    [
        ("csv", {}, Code.UNSUPPORTED, "CSV can't hold structs, arrays and maps"),
        ("avro", {"schema": "id AS `an id`", "columns": ["id"]}, Code.UNSUPPORTED, "of the name 'an id'"),
        ("parquet", {"columns": ["it"]}, Code.UNKNOWN_COLUMN, "no column 'it'"),
        ("parquet", {"schema": "id AS name"}, Code.SCHEMA_MISMATCH, "have the name 'name'"),
        ("parquet", {"filter": "nope > 1"}, Code.INVALID_SQL, "nope"),
        ("excel", {}, Code.UNKNOWN_FORMAT, "excel"),
    ],
)
def test_what_a_target_can_not_hold_is_refused(
    spark: SparkSession, tmp_path: Path, format: str, keys: dict[str, Any], code: Code, said: str
) -> None:
    with lake_with_rows(tmp_path / "shop", nested=True) as lake:
        with pytest.raises(HeadwaterError, match=said) as refused:
            export(lake, format=format, to="./out", **keys)
    assert refused.value.code is code
    assert not (tmp_path / "shop" / "out").exists()


def test_a_copy_that_reads_otherwise_is_discarded(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has one folder for an empty text and for none at all: the reader finds NULL where '' was."""
    with lake_with_rows(tmp_path / "shop") as lake:
        export(lake, format="parquet", to="./out", partition_by=["name"], filter="id = 1")
        with pytest.raises(HeadwaterError) as refused:
            export(lake, format="parquet", to="./out", partition_by=["name"], if_exists="overwrite")
        assert refused.value.code is Code.EXPORT_MISMATCH
    out = tmp_path / "shop" / "out"
    assert pq.ParquetDataset(out).read().to_pylist()[0]["name"] == "Ada"
    assert sorted(path.name for path in out.iterdir()) == ["_manifest.json", "name=Ada"]
