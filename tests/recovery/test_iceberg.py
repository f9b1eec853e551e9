"""Iceberg's metadata after a move, where it is more than file lists: deletes by position, old versions, odd names."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.iceberg.avro import AvroFile
from headwater.formats.iceberg.format import ICEBERG
from headwater.formats.iceberg.relocation import metadata_files, relocate, tables_in
from headwater.formats.iceberg.spark import IcebergTable
from headwater.formats.relocation import PathMap

ROWS = [(n, f"name {n}", n % 3) for n in range(60)]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> IcebergTable:
    """By folder, so that nothing but the table itself knows its place; rows are deleted by position in two versions."""
    context = LakeContext(str(tmp_path / "lake here"), str(tmp_path / ".headwater"), {})
    Path(context.home).mkdir()
    made = IcebergTable(ICEBERG, spark, Address(path=str(tmp_path / "lake here" / "odd [name]")), context)
    frame = spark.createDataFrame(ROWS, "id int, name string, part int")
    options = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}
    made.create(frame.schema, Layout(partition_by=("part",), options=options))
    made.append(frame)
    for condition in ("id < 10", "id % 7 = 0"):
        spark.sql(f"DELETE FROM {made.name.sql()} WHERE {condition}")
    return made


def ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("move", ["rename", "copy"])
def test_rows_that_were_deleted_by_position_stay_deleted(
    table: IcebergTable, move: str, spark: SparkSession, tmp_path: Path
) -> None:
    versions = [commit.version for commit in table.history()]
    expected = {version: ids(table.read(version).collect()) for version in versions}
    assert [len(expected[version]) for version in versions] == [43, 50, 60]
    old, new = tmp_path / "lake here", tmp_path / "there"
    if move == "rename":
        old.rename(new)
    else:
        shutil.copytree(old, new)
    files, paths = Files(str(new)), PathMap(((str(old), str(new)),))
    (folder,) = tables_in(files)
    relocate(files, folder, paths)
    before = {path: path.read_bytes() for path in new.rglob("*") if path.is_file()}
    relocate(files, folder, paths)
    assert {path: path.read_bytes() for path in new.rglob("*") if path.is_file()} == before, "again it changes nothing"
    if move == "copy":
        shutil.rmtree(old)  # nothing may be read there
    moved = IcebergTable(
        ICEBERG, spark, Address(path=str(new / "odd [name]")), LakeContext(str(new), table.context.home, {})
    )
    assert {version: ids(moved.read(version).collect()) for version in versions} == expected
    static = StaticTable.from_metadata(files.join(metadata_files(files, folder)[0]))
    for version in versions:
        assert ids(static.scan(snapshot_id=version).to_arrow().to_pylist()) == expected[version]
    spark.sql(f"DELETE FROM {moved.name.sql()} WHERE id = 59")
    assert ids(moved.read().collect()) == [each for each in expected[versions[0]] if each != 59]
    moved.compact()
    assert ids(moved.read().collect()) == [each for each in expected[versions[0]] if each != 59]


def test_avro_files_are_written_as_they_were_read(table: IcebergTable, tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    for path in (tmp_path / "lake here").rglob("*.avro"):
        data = path.read_bytes()
        again = AvroFile.read(data, path.name).to_bytes()
        then, now = (fastavro.reader(io.BytesIO(each)) for each in (data, again))
        assert list(now) == list(then)
        assert {**now.metadata, "avro.codec": ""} == {**then.metadata, "avro.codec": ""}


@pytest.mark.parametrize(
    ("old", "new", "path", "mapped"),
    [
        ("/a/lake", "/b/lake", "/a/lake/x", "/b/lake/x"),
        ("/a/lake", "/b/lake", "file:/a/lake/x", "file:/b/lake/x"),
        ("/a/lake", "/b/lake", "file:///a/lake/x", "file:///b/lake/x"),
        ("/a/lake", "/b/lake", "/a/lake2/x", "/a/lake2/x"),
        ("/a/lake", "/b/lake", "s3a://a/lake/x", "s3a://a/lake/x"),
        ("/a/lake", "/a/lake/old", "/a/lake/x", "/a/lake/old/x"),
        ("/a/lake", "/a", "/a/lake/x", "/a/x"),
        ("s3a://b/lake", "s3a://c", "s3://b/lake/x", "s3://c/x"),
        ("/a/lake", "s3a://c/lake", "file:/a/lake/x", "s3a://c/lake/x"),
    ],
)
def test_paths_are_mapped_once(old: str, new: str, path: str, mapped: str) -> None:
    paths = PathMap(((old, new),))
    assert paths(path) == mapped
    assert paths(mapped) == mapped


def test_paths_in_uris_are_encoded() -> None:
    paths = PathMap((("/a b/lake", "/c [d]/lake"),)).as_uris()
    assert paths("file:///a%20b/lake/topics/x%20y") == "file:///c%20%5Bd%5D/lake/topics/x%20y"
