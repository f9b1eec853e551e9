"""A table as another format's, over its own files: rows, types, partitions, updates, deletes and new columns."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.interop.lab import PLAIN, SCHEMA, Lab

pytestmark = pytest.mark.usefixtures("spark")

MOMENT = datetime(2026, 3, 29, 1, 30, 0, 123456, timezone.utc)
PAIRS = [
    ("delta", "iceberg"),
    ("iceberg", "delta"),
    pytest.param("parquet", "iceberg", marks=pytest.mark.full),
    pytest.param("parquet", "delta", marks=pytest.mark.full),
    pytest.param("hudi", "iceberg", marks=pytest.mark.full),
    pytest.param("hudi", "delta", marks=pytest.mark.full),
    pytest.param("paimon", "iceberg", marks=pytest.mark.full),
    pytest.param("paimon", "delta", marks=pytest.mark.full),
]
UPSERTS = {"delta", "iceberg", "hudi"}


def row(id: int, region: str | None, day: date | None = date(2026, 3, 29)) -> tuple[Any, ...]:
    return (id, region, day, Decimal("12.50") + id, id / 3, id, MOMENT, f"té, {id}", ["a", None], (id, "ÿ"))


def cut(width: int, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [one[:width] for one in rows]


EMPTY = (9, None, None, None, None, None, None, None, None, None)


@pytest.mark.parametrize(("format", "to"), PAIRS)
@pytest.mark.parametrize("partition_by", [("region", "day"), ()], ids=["partitioned", "flat"])
def test_every_change_shows(
    spark: SparkSession, tmp_path: Path, format: str, to: str, partition_by: tuple[str, ...]
) -> None:
    # Nested columns under column mapping have no numbers, so that Delta's have plain names here.
    schema = SCHEMA if format == "iceberg" else PLAIN
    if format not in UPSERTS and format != "iceberg":
        schema = schema.replace("small smallint", "small int")
    if format == "paimon":  # whose tables with nested columns are of ORC files
        schema = schema.replace(", tags array<string>, part struct<x: int, y: string>", "")
    lab = Lab.make(tmp_path, format, schema, partition_by)
    width = len(lab.table.schema())
    lab.append(*cut(width, row(1, "EU"), row(2, "a/b c#%é=d"), row(3, None, None), EMPTY))
    first = lab.sync(to)
    assert (first.outcome, first.full, first.rows) == ("synced", True, 4)
    lab.require_same(to)
    assert lab.sync(to).outcome == "unchanged"

    lab.append(*cut(width, row(4, "EU"), row(5, "US")))
    more = lab.sync(to)
    assert not more.full
    if format != "hudi":  # it writes a small file again with the new rows
        assert (more.rows, more.files_removed) == (2, 0), "only what is new is read back"
    lab.require_same(to)

    if format in UPSERTS:
        lab.upsert(row(1, "EU", date(2020, 2, 29)), row(6, None), gone=[2, 3])
        lab.sync(to)
        lab.require_same(to)

    lab.add_column("extra double, note string")
    lab.append((*row(7, "EU")[:width], 0.5, "n"))
    lab.sync(to)
    lab.require_same(to)
    assert {"extra", "note"} <= set(lab.source()[0])

    if format == "parquet":
        return  # its files are only ever added to
    lab.table.replace(lab.rows(row(1, "EU")[:width]))
    assert lab.sync(to).files == len(lab.table.files())
    lab.require_same(to)
    lab.lake.close()


def test_a_delta_table_with_a_name_that_files_cannot_have(spark: SparkSession, tmp_path: Path) -> None:
    """Column mapping: files know the columns by number, and so does the Iceberg table."""
    lab = Lab.make(tmp_path, "delta", "id bigint, `odd name` string, part struct<`x y`: int>, `p q` string", ["p q"])
    lab.append((1, "a", (1,), "x y"), (2, None, None, None))
    lab.sync("iceberg")
    lab.require_same("iceberg")
    lab.upsert((1, "b", (None,), "x y"), gone=[2])
    lab.sync("iceberg")
    lab.require_same("iceberg")
    lab.lake.close()


def test_an_iceberg_table_partitioned_by_expressions(spark: SparkSession, tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, "iceberg", "id bigint, at timestamp, region string", ["date(at)", "region"])
    lab.append((1, MOMENT, "EU"), (2, None, ""))
    lab.sync("delta")
    lab.require_same("delta")
    lab.append((3, MOMENT, "US"))
    lab.sync("delta")
    lab.require_same("delta")
    lab.lake.close()
