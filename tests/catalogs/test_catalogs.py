"""Tables in catalogs other than the embedded one, each a real one, through both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.catalogs.hadoop import HadoopCatalog
from headwater.catalogs.rest import RestCatalog
from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import DELETED, CommitTag
from headwater.core.spec import Layout
from headwater.formats.base import Address, LakeContext
from headwater.formats.iceberg.format import ICEBERG
from tests.services.rest_catalog import rest_catalog

DDL = "id int, name string"


@pytest.fixture(scope="module")
def catalogs(context: LakeContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeContext]:
    folder = tmp_path_factory.mktemp("catalogs")
    with rest_catalog(folder) as uri:
        known = {
            **context.catalogs,
            "served": RestCatalog(uri=uri),
            "folders": HadoopCatalog(warehouse=str(folder / "folders")),
        }
        yield replace(context, catalogs=known)


@pytest.fixture(params=["rest", "hadoop", "path"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    return {
        "rest": Address(table="served.sales.eu.orders"),
        "hadoop": Address(table="folders.sales.orders"),
        "path": Address(path=str(tmp_path / "somewhere" / "orders")),
    }[request.param]


def test_a_table_lives_in_any_catalog(spark: SparkSession, catalogs: LakeContext, address: Address) -> None:
    table = ICEBERG.spark(spark, address, catalogs)
    native = ICEBERG.native(address, catalogs) if ICEBERG.native else None
    assert native is not None
    assert not table.exists()
    with pytest.raises(HeadwaterError) as caught:
        native.version()
    assert caught.value.code is Code.NO_SUCH_RELATION

    rows = spark.createDataFrame([(1, "Ann"), (2, "Bob")], DDL)
    table.create(rows.schema, Layout(keys=("id",)))
    assert native.version() is None
    assert native.read().read_all().num_rows == 0
    first = table.append(rows, CommitTag("f", 1, 0))
    changed = spark.createDataFrame([(1, None, True), (3, "Cyd", False)], f"{DDL}, {DELETED} boolean")
    second = table.upsert(changed, CommitTag("f", 1, 1))
    assert table.upsert(changed, CommitTag("f", 1, 1)) == second

    assert sorted(map(tuple, table.read().collect())) == [(2, "Bob"), (3, "Cyd")]
    assert sorted(map(tuple, table.read(first).collect())) == [(1, "Ann"), (2, "Bob")]
    assert sorted(map(tuple, table.changes(first, second).collect())) == [(1, "Ann", -1), (3, "Cyd", 1)]
    assert native.version() == second
    assert sorted(native.read().read_all().to_pylist(), key=str) == [
        {"id": 2, "name": "Bob"},
        {"id": 3, "name": "Cyd"},
    ]
    assert native.read(first).read_all().num_rows == 2
    table.drop()
    assert not table.exists()


def test_another_session_sees_the_table_too(spark: SparkSession, catalogs: LakeContext, tmp_path: Path) -> None:
    address = Address(path=str(tmp_path / "t"))
    rows = spark.createDataFrame([(1, "Ann")], DDL)
    ICEBERG.spark(spark, address, catalogs).create(rows.schema)
    other = spark.newSession()
    table = ICEBERG.spark(other, address, catalogs)
    table.append(rows)  # a frame of the first session
    assert table.read().count() == 1


def test_a_catalog_that_nobody_has_named(spark: SparkSession, catalogs: LakeContext) -> None:
    with pytest.raises(HeadwaterError, match="did you mean 'served'") as caught:
        ICEBERG.spark(spark, Address(table="servd.sales.orders"), catalogs)
    assert caught.value.code is Code.UNKNOWN_REFERENCE


@pytest.mark.parametrize("table", ["orders", "lake..orders", "lake.`a"])
def test_a_name_that_is_none(spark: SparkSession, catalogs: LakeContext, table: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        ICEBERG.spark(spark, Address(table=table), catalogs)
    assert caught.value.code is Code.INVALID_VALUE
