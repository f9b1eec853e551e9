"""Snapshots in tables: one commit each, read back by the format's own library and by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError
from headwater.core.spec import Export
from headwater.exports.destinations import open_target
from headwater.exports.snapshot import export_snapshot
from headwater.formats.base import LakeContext
from tests.exports.lakes import lake_with_rows

pytestmark = pytest.mark.usefixtures("spark")

FORMATS = ("delta", "iceberg", "hudi", "paimon")


def definition(**keys: Any) -> Export:
    return Export.model_validate({"from": "table('goods')", **keys})


def export(lake: Lake, **keys: Any) -> Any:
    return export_snapshot(lake._warehouse, definition(**keys))


@pytest.mark.parametrize("format", FORMATS)
def test_a_snapshot_is_one_commit_with_the_source_s_version(
    spark: SparkSession, context: LakeContext, tmp_path: Path, format: str
) -> None:
    with lake_with_rows(tmp_path / "shop", nested=True) as lake:
        done = export(lake, format=format, to="./out", partition_by=["flag"])
        names = [one.reader.split()[0] for one in done.readers]
        assert names == [
            {"delta": "deltalake", "iceberg": "pyiceberg", "hudi": "hudi", "paimon": "pypaimon"}[format],
            "spark",
        ]
        assert done.rows == 6
        target = open_target(lake._warehouse, definition(format=format, to="./out"))
        version = done.versions["tables.goods"]
        assert target.visible() == {"tables.goods": {"version": version}}
        with pytest.raises(HeadwaterError) as there:
            export(lake, format=format, to="./out")
        assert there.value.code is Code.ALREADY_EXISTS
        export(lake, format=format, to="./out", if_exists="append")
        assert lake.foreign(format, path="./out").df().count() == 12
        names = lake.table("goods").df().columns
        lake.sql(f"INSERT INTO goods SELECT 7, {', '.join(names[1:])} FROM goods WHERE id = 1")
        more = export(lake, format=format, to="./out", if_exists="overwrite")
        assert more.rows == 7
        assert lake.foreign(format, path="./out").df().count() == 7


def test_a_copy_that_fails_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    with lake_with_rows(tmp_path / "shop") as lake:
        export(lake, format="delta", to="./out", columns=["id", "name"])
        broken = "IF(id = 6, raise_error('this breaks'), true)"
        for if_exists in ("overwrite", "append"):
            with pytest.raises(HeadwaterError, match="this breaks"):
                export(lake, format="delta", to="./out", columns=["id", "name"], filter=broken, if_exists=if_exists)
        with pytest.raises(HeadwaterError, match="has the columns name, which"):
            export(lake, format="delta", to="./out", columns=["id"], if_exists="overwrite")
        assert lake.foreign("delta", path="./out").df().count() == 6
        with pytest.raises(HeadwaterError):
            export(lake, format="delta", to="./new", columns=["name"], schema="name int")
        assert not (tmp_path / "shop" / "new" / "_delta_log").exists()
