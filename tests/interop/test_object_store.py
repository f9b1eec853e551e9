"""The same in an object store: the files, and both kinds of target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from headwater.api.lake import Lake
from headwater.formats.delta.native import storage_options
from tests.interop.light import LightLake, by_pyiceberg, listed
from tests.interop.test_sync import rows
from tests.services.s3 import object_store

pytestmark = [pytest.mark.spark, pytest.mark.full]  # the store runs on Java


def test_a_lake_in_an_object_store(tmp_path: Path) -> None:
    with object_store(tmp_path / "s3") as store:
        store.bucket("lake")
        root = tmp_path / "project"
        root.mkdir()
        (root / "headwater.yml").write_text(
            f"name: stored\nwarehouse: s3://lake/w\nstorage: {{s3: {store.settings}}}\n"
            "tables:\n  d: {keys: [id], format: delta}\n  i: {keys: [id], format: iceberg}\n"
        )
        light = LightLake(root, Lake.open(root))
        options = storage_options(light.lake._warehouse.context.storage)
        light.append(rows(0), partition_by=["p"], storage_options=options)
        light.sync("d", "iceberg")
        DeltaTable(light.delta, storage_options=options).delete("id = 1")
        light.sync("d", "iceberg")
        assert by_pyiceberg(light.target()) == _seen(light.delta, options)
        table = light.iceberg(rows(0).schema)
        table.append(rows(0))
        light.sync("i", "delta")
        table.append(rows(3))
        light.sync("i", "delta")
        assert _seen(table.location(), options) == by_pyiceberg(light.iceberg())
        light.lake.close()


def _seen(location: str, options: dict[str, str] | None) -> list[dict[str, Any]]:
    found: Any = QueryBuilder().register("t", DeltaTable(location, storage_options=options)).execute("SELECT * FROM t")
    return listed(pa.RecordBatchReader.from_stream(found).read_all())
