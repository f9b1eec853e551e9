"""Snapshots in an Iceberg catalog behind REST."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError
from headwater.core.spec import Export
from headwater.exports.destinations import location_of
from headwater.exports.snapshot import export_snapshot
from tests.exports.lakes import lake_with_rows
from tests.services.rest_catalog import rest_catalog

pytestmark = pytest.mark.usefixtures("spark")


def test_a_snapshot_goes_to_a_rest_catalog(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rest").mkdir()
    with rest_catalog(tmp_path / "rest") as uri:
        more = f"catalogs:\n  partner: {{type: rest, uri: '{uri}'}}\n"
        with lake_with_rows(tmp_path / "shop", more=more) as lake:
            definition = Export.model_validate(
                {
                    "from": "table('goods')",
                    "format": "iceberg",
                    "to": "rest://catalog/bi/goods",
                    "partition_by": ["date(at)"],
                }
            )
            assert location_of(lake._warehouse, definition) == "partner.bi.goods"
            done = export_snapshot(lake._warehouse, definition)
            assert [one.rows for one in done.readers] == [6, 6]
            table = load_catalog("partner", type="rest", uri=uri).load_table("bi.goods")
            assert table.scan().to_arrow().num_rows == 6
            assert len(table.spec().fields) == 1
            wrong = definition.model_copy(update={"to": "glue://catalog/bi/goods"})
            with pytest.raises(HeadwaterError) as refused:
                location_of(lake._warehouse, wrong)
            assert refused.value.code is Code.UNKNOWN_REFERENCE
