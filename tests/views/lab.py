"""A lake with the tables of a small shop that change at random, and views over them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from headwater import Lake
from headwater.core.model import DELETED, Kind
from headwater.core.spec import Layout
from headwater.formats.spark_table import SparkTable
from headwater.spark.arrow_bridge import local_frame
from headwater.warehouse import Warehouse
from tests.changes.lab import SCHEMAS, Row, Shop, arrow_of, schema_of

KEY = "row_key"


@dataclass
class Lab:
    """A lake whose tables are written by hand: each row has a key of its own."""

    lake: Lake
    shop: Shop
    _keys: dict[str, dict[Row, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    _made: int = 0

    @staticmethod
    def open(root: Path, format: str, seed: int, more: str = "") -> Lab:
        tables = "".join(f"  {name}: {{keys: [{KEY}]}}\n" for name in SCHEMAS)
        root.mkdir(parents=True, exist_ok=True)
        (root / "headwater.yml").write_text(f"name: lab\nformat: {format}\ntables:\n{tables}{more}", encoding="utf-8")
        lab = Lab(Lake.open(root), Shop(seed))
        for name, rows in lab.shop.tables.items():
            lab.table(name).create(
                StructType([*schema_of(lab.lake.spark, name).fields]).add(KEY, StringType(), False),
                Layout(keys=(KEY,)),
            )
            lab.warehouse.remember(Kind.TABLE, name)
            lab.write(name, rows, [])
        return lab

    @property
    def warehouse(self) -> Warehouse:
        return self.lake._warehouse

    def table(self, name: str) -> SparkTable:
        return self.warehouse.table(Kind.TABLE, name)

    def cycle(self) -> dict[str, tuple[list[Row], list[Row]]]:
        """Some tables change."""
        changes = self.shop.change()
        for name, (came, went) in changes.items():
            self.write(name, came, went)
        return changes

    def write(self, name: str, came: list[Row], went: list[Row]) -> None:
        rows: list[Row] = []
        keys: list[str] = []
        for row in went:
            rows.append(row)
            keys.append(self._keys[name][_hashable(row)].pop())
        for row in came:
            self._made += 1
            rows.append(row)
            keys.append(f"{name}-{self._made}")
            self._keys[name][_hashable(row)].append(keys[-1])
        if not rows:
            return
        flags = [True] * len(went) + [False] * len(came)
        arrow = arrow_of(self.lake.spark, name, rows)
        arrow = arrow.append_column(KEY, pa.array(keys)).append_column(DELETED, pa.array(flags))
        self.table(name).upsert(local_frame(self.lake.spark, arrow))


def _hashable(row: Row) -> Row:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)
