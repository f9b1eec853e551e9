"""A lake with one topic, written to by hand, and what readers that are not ours see of it in other formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.api.lake import Lake
from headwater.core.model import DELETED, Kind, Version
from headwater.core.spec import Layout
from headwater.exports.interop.sync import SyncResult
from headwater.formats.base import Address
from headwater.formats.registry import FORMATS
from headwater.formats.spark_table import SparkTable
from headwater.schema.types import parse_ddl
from headwater.warehouse import Warehouse

SCHEMA = (
    "id bigint, region string, day date, amount decimal(9, 2), ratio double, small smallint, at timestamp, "
    "`odd name` string, tags array<string>, part struct<x: int, y: string>"
)
"""Types of all kinds, and a name that files of some formats can't have."""
PLAIN = SCHEMA.replace("`odd name`", "odd_name")


@dataclass
class Lab:
    root: Path
    lake: Lake
    format: str

    @staticmethod
    def make(
        root: Path, format: str, schema: str, partition_by: Sequence[str] = (), options: dict[str, str] | None = None
    ) -> Lab:
        """A lake whose topic `t` is in a format, with its columns and nothing in it."""
        root.mkdir(exist_ok=True)
        (root / "headwater.yml").write_text(
            f"name: interop\nformat: {format}\nsources:\n  given: {{type: append, schema: id bigint}}\n"
            "topics:\n  t: {from: given}\n  u: {from: given, format: iceberg}\n  v: {from: given, format: delta}\n",
            encoding="utf-8",
        )
        lab = Lab(root, Lake.open(root), format)
        columns = parse_ddl(lab.warehouse.spark, schema)
        keys = () if format in ("parquet", "paimon") else ("id",)
        lab.table.create(columns, Layout(keys=keys, partition_by=tuple(partition_by), options=options or {}))
        lab.warehouse.remember(Kind.TOPIC, "t")
        return lab

    @property
    def warehouse(self) -> Warehouse:
        return self.lake._warehouse

    @property
    def table(self) -> SparkTable:
        return self.warehouse.table(Kind.TOPIC, "t")

    @property
    def label(self) -> str:
        return "topics.t"

    def rows(self, *rows: tuple[Any, ...]) -> DataFrame:
        """Rows under the table's columns; what is left out at the end is NULL."""
        schema = self.table.schema()
        return self.warehouse.spark.createDataFrame([row + (None,) * (len(schema) - len(row)) for row in rows], schema)

    def append(self, *rows: tuple[Any, ...]) -> Version:
        return self.table.append(self.rows(*rows))

    def upsert(self, *rows: tuple[Any, ...], gone: Sequence[int] = ()) -> Version:
        new = self.rows(*rows).withColumn(DELETED, F.lit(False))
        old = self.rows(*((id,) for id in gone)).withColumn(DELETED, F.lit(True))
        return self.table.upsert(new.unionByName(old))

    def add_column(self, ddl: str) -> None:
        self.table.evolve(StructType([*self.table.schema().fields, *parse_ddl(self.warehouse.spark, ddl).fields]))

    def sync(self, to: str, **how: bool) -> SyncResult:
        [done] = self.lake.sync_interop("t", [to], **how)
        return done

    def source(self) -> list[dict[str, Any]]:
        return rows_of(self.table.read())

    def seen(self, to: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The target's rows, as Spark sees them and as a library without a JVM does."""
        spark = self.warehouse.spark
        if to == "iceberg":
            address = Address(table="lake.interop_topics.t")
            by_spark = FORMATS.get("iceberg").spark(spark, address, self.warehouse.context)
            return rows_of(by_spark.read()), listed(self.pyiceberg().scan().to_arrow())
        location = next(one.target.location for one in self.lake.interop_targets() if one.target.format == "delta")
        return rows_of(spark.read.format("delta").load(location)), listed(by_deltalake(location))

    def pyiceberg(self, name: str = "interop_topics.t") -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        file = self.root / ".headwater" / "iceberg.db"
        return SqlCatalog("lake", uri=f"sqlite:///{file}", init_catalog_tables="false").load_table(name)

    def require_same(self, to: str) -> None:
        """Every reader sees the source's rows."""
        source = self.source()
        for reader, rows in zip(("Spark", "the library"), self.seen(to), strict=True):
            wrong = [row for row in rows if row not in source], [row for row in source if row not in rows]
            assert rows == source, f"{to} by {reader}: {wrong}"


def by_deltalake(location: str) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    found: Any = QueryBuilder().register("t", DeltaTable(location)).execute("SELECT * FROM t")
    return pa.RecordBatchReader.from_stream(found).read_all()


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    from headwater.spark.arrow_bridge import gathered

    return listed(gathered(frame))


def listed(found: pa.Table) -> list[dict[str, Any]]:
    """Rows in an order of their own, their columns by name."""
    rows = [dict(sorted(row.items())) for row in found.to_pylist()]
    return sorted(rows, key=lambda row: str(row.get("id", row)))
