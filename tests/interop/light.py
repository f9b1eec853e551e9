"""A lake whose tables are written by deltalake and pyiceberg: no Java."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.exports.interop.sync import SyncResult
from headwater.formats.iceberg.names import lake_location
from headwater.formats.iceberg.native import IcebergNativeTable

PROJECT = """\
name: light
tables:
  d: {{keys: [id], format: delta{more}}}
  i: {{keys: [id], format: iceberg{more}}}
"""


@dataclass
class LightLake:
    """Table `d` is Delta, `i` is Iceberg."""

    root: Path
    lake: Lake

    @staticmethod
    def make(root: Path, more: str = "") -> LightLake:
        root.mkdir(exist_ok=True)
        (root / "headwater.yml").write_text(PROJECT.format(more=f", {more}" if more else ""), encoding="utf-8")
        return LightLake(root, Lake.open(root))

    # --- Delta

    @property
    def delta(self) -> str:
        return str(self.lake._warehouse.address(Kind.TABLE, "d").path)

    def append(self, rows: pa.Table, **how: Any) -> None:
        write_deltalake(self.delta, rows, mode="append", **how)
        self._remember("d")

    # --- Iceberg

    def iceberg(self, schema: pa.Schema | None = None) -> Any:
        """The table, made if there is a schema for it."""
        context = self.lake._warehouse.context
        address = self.lake._warehouse.address(Kind.TABLE, "i")
        native = IcebergNativeTable(address, context)
        if schema is None:
            return native.opened()
        from headwater.catalogs.jdbc import JdbcCatalog

        JdbcCatalog().prepare(lake_location(context))
        catalog = native.catalog(writable=True)
        catalog.create_namespace_if_not_exists("tables")
        found = catalog.create_table("tables.i", schema, location=f"{context.warehouse}/tables/i")
        self._remember("i")
        return found

    # --- targets

    def target(self, name: str = "d") -> Any:
        """The Iceberg table over a table's files."""
        context = self.lake._warehouse.context
        from headwater.formats.base import Address

        return IcebergNativeTable(Address(table=f"lake.interop_tables.{name}"), context).opened()

    def sync(self, name: str, to: str, **how: bool) -> SyncResult:
        [done] = self.lake.sync_interop(name, [to], **how)
        return done

    def _remember(self, name: str) -> None:
        if self.lake._warehouse.record(Kind.TABLE, name) is None:
            self.lake._warehouse.remember(Kind.TABLE, name)


def by_deltalake(location: str) -> list[dict[str, Any]]:
    found: Any = QueryBuilder().register("t", DeltaTable(location)).execute("SELECT * FROM t")
    return listed(pa.RecordBatchReader.from_stream(found).read_all())


def by_pyiceberg(table: Any) -> list[dict[str, Any]]:
    return listed(table.scan().to_arrow())


def listed(found: pa.Table) -> list[dict[str, Any]]:
    rows = [dict(sorted(row.items())) for row in found.to_pylist()]
    return sorted(rows, key=lambda row: str(row.get("id", row)))
