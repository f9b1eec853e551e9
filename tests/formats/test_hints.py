"""What the hints of the formats say is done, and the table can be kept. Without Spark: their own checks are asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from headwater.core.errors import HeadwaterError
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address
from headwater.formats.hudi.keys import check_keys
from headwater.formats.iceberg.layout import partitions
from headwater.formats.iceberg.names import table_name
from headwater.formats.paimon.store import _three_parts
from headwater.formats.parquet.schemas import check_schema
from tests.hints.followed import follows


def of(**types: object) -> StructType:
    return StructType([StructField(name, type) for name, type in types.items()])  # type: ignore[arg-type]


Check = Callable[[], object]


def parquet(schema: StructType, *partition_by: str) -> Check:
    return lambda: check_schema(schema, Layout(partition_by=partition_by))


LONG, TEXT = LongType(), StringType()
CASES: dict[str, tuple[pytest.MarkDecorator, Check, Check]] = {
    "two columns of a name": (follows("rename one of them"), parquet(of(a=LONG, A=LONG)), parquet(of(a=LONG, b=LONG))),
    "a column of nothing": (follows("cast it to another type"), parquet(of(a=NullType())), parquet(of(a=TEXT))),
    "folders of bytes": (
        follows("partition by a text, number, date or time"),
        parquet(of(a=LONG, b=BinaryType()), "b"),
        parquet(of(a=LONG, b=TEXT), "b"),
    ),
    "nothing but folders": (follows("partition by fewer columns"), parquet(of(a=LONG), "a"), parquet(of(a=LONG))),
    "a key of numbers": (
        follows("use a string, an integer, a decimal, a boolean, a date or a timestamp"),
        lambda: check_keys(of(a=DoubleType()), ["a"]),
        lambda: check_keys(of(a=IntegerType()), ["a"]),
    ),
    "a function": (
        follows("did you mean '{}'?"),
        lambda: partitions(of(a=LONG), ["bukket(8, a)"]),
        lambda: partitions(of(a=LONG), ["bucket(8, a)"]),
    ),
    "no function": (
        follows("known: {}"),
        lambda: partitions(of(a=LONG), ["zzz(a)"]),
        lambda: partitions(of(a=LONG), ["bucket(8, a)"]),
    ),
    "a name in a catalog": (
        follows("write catalog.namespace.table: {}.topics.orders"),
        lambda: table_name(Address(table="orders")),
        lambda: table_name(Address(table="lake.topics.orders")),
    ),
    "a name of Paimon": (
        follows("write catalog.database.table"),
        lambda: _three_parts("orders"),
        lambda: _three_parts("lake.topics.orders"),
    ),
    "a storage": (
        follows("use a local path, file://, s3://, gs://, abfss:// or hdfs://"),
        lambda: Files("ftp://host/x").list(),
        lambda: Files("file:///nowhere-at-all").list(),
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=one[0]) for name, one in CASES.items()])
def test_what_the_hint_of_a_format_says_helps(name: str) -> None:
    _, bad, good = CASES[name]
    with pytest.raises(HeadwaterError):
        bad()
    good()


@follows("check the owner and permissions of the folder, or name another `warehouse`")
def test_another_warehouse_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(HeadwaterError):
        Files(str(tmp_path / "file" / "lake")).write_atomic("x", "y")
    Files(str(tmp_path / "lake")).write_atomic("x", "y")
