"""Random rows of a small shop, and a query's operators over two states of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.core.model import WEIGHT
from headwater.formats.key_filter import KeyFilter
from headwater.incremental.operator import Moment
from headwater.schema.types import parse_ddl
from headwater.spark.arrow_bridge import local_frame

Row = tuple[Any, ...]

SCHEMAS = {
    "orders": "id bigint, customer bigint, amount decimal(10,2), qty int, note string, at timestamp, "
    "tags array<string>",
    "customers": "id bigint, name string, region string, rank int",
    "items": "order_id bigint, product string, price decimal(10,2)",
}


def _order(random: random.Random) -> Row:
    return (
        random.choice([None, *range(1, 9)]),
        random.choice([None, *range(1, 6)]),
        random.choice([None, *(Decimal(n) / 4 for n in range(-8, 40, 5))]),
        random.choice([None, 0, 1, 2, 3]),
        random.choice([None, "a", "b", "c"]),
        random.choice([None, datetime(2026, random.randint(1, 3), random.randint(1, 28), 12, tzinfo=timezone.utc)]),
        random.choice([None, [], ["x"], ["x", "y"]]),
    )


def _customer(random: random.Random) -> Row:
    id = random.choice([None, *range(1, 6)])
    return (id, f"c{id}", random.choice([None, "n", "s"]), random.choice([None, 0, 1, 2]))


def _item(random: random.Random) -> Row:
    price = random.choice([None, Decimal("1.50"), Decimal("6.25"), Decimal("12.00")])
    return (random.choice([None, *range(1, 9)]), random.choice(["p", "q"]), price)


MAKE: dict[str, Callable[[random.Random], Row]] = {"orders": _order, "customers": _customer, "items": _item}


class Shop:
    """Three tables that change at random, several at once: duplicates, NULL keys, groups that vanish and return."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.tables: dict[str, list[Row]] = {
            name: [make(self._random) for _ in range(self._random.randint(0, 9))] for name, make in MAKE.items()
        }

    def change(self, *only: str) -> dict[str, tuple[list[Row], list[Row]]]:
        """What came and what went, per table that changed; of some tables, or of any."""
        chosen = only or self._random.sample(list(self.tables), self._random.randint(1, 3))
        found = {}
        for name in chosen:
            rows = self.tables[name]
            went = self._random.sample(rows, self._random.randint(0, min(3, len(rows))))
            came = [MAKE[name](self._random) for _ in range(self._random.randint(0, 3))]
            if went and self._random.random() < 0.5:  # an update: the same row with other values
                came.append((went[0][0], *MAKE[name](self._random)[1:]))
            for row in went:
                rows.remove(row)
            rows += came
            found[name] = (came, went)
        return found


class States:
    """The sources of a test: two states of the shop, and the change between them."""

    def __init__(self, spark: SparkSession, tables: dict[str, list[Row]], before: States | None = None) -> None:
        new = {name: frame(spark, name, rows) for name, rows in tables.items()}
        old: dict[str, DataFrame] = new if before is None else before._frames[Moment.NEW]
        self._spark = spark
        self._frames: dict[Moment, dict[str, DataFrame]] = {Moment.OLD: old, Moment.NEW: {**old, **new}}
        self._changes: dict[str, DataFrame] = {}

    def after(self, shop: Shop, change: dict[str, tuple[list[Row], list[Row]]]) -> States:
        """From the new state of these to the shop as it is now."""
        found = States(self._spark, {name: shop.tables[name] for name in change}, self)
        found._changes = {name: _signed(self._spark, name, came, went) for name, (came, went) in change.items()}
        return found

    def rows(self, source: str, at: Moment) -> DataFrame:
        return self._frames[at][source]

    def key_filter(self, source: str, at: Moment, key_filter: KeyFilter) -> DataFrame | None:
        return None

    def new(self, source: str) -> DataFrame:
        return self._frames[Moment.NEW][source]

    def change(self, source: str) -> DataFrame | None:
        return self._changes.get(source)


def frame(spark: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    return _local(spark, rows, SCHEMAS[name])


def _signed(spark: SparkSession, name: str, came: Sequence[Row], went: Sequence[Row]) -> DataFrame:
    weighted = [(*row, 1) for row in came] + [(*row, -1) for row in went]
    return _local(spark, weighted, f"{SCHEMAS[name]}, {WEIGHT} bigint")


def _local(spark: SparkSession, rows: Sequence[Row], ddl: str) -> DataFrame:
    """A frame that lies in the JVM: no Python worker reads it again and again."""
    return local_frame(spark, _arrow(spark, rows, ddl))


def schema_of(spark: SparkSession, name: str) -> StructType:
    declared = parse_ddl(spark, SCHEMAS[name])
    assert declared is not None
    return declared


def arrow_of(spark: SparkSession, name: str, rows: Sequence[Row]) -> pa.Table:
    return _arrow(spark, rows, SCHEMAS[name])


def _arrow(spark: SparkSession, rows: Sequence[Row], ddl: str) -> pa.Table:
    declared = parse_ddl(spark, ddl)
    assert declared is not None
    schema = to_arrow_schema(declared)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def frame_of(spark: SparkSession, rows: Sequence[Any], schema: StructType) -> DataFrame:
    """Rows that were collected, as a frame again."""
    arrow = to_arrow_schema(schema)
    plain = [row.asDict(recursive=True) for row in rows]
    arrays = [pa.array([_utc(row[field.name]) for row in plain], field.type) for field in arrow]
    return local_frame(spark, pa.table(arrays, schema=arrow))


def _utc(value: Any) -> Any:
    """Spark gives times of this machine's zone."""
    return value.astimezone(timezone.utc) if isinstance(value, datetime) and value.tzinfo is None else value


def as_text(df: DataFrame) -> Counter[str]:
    """How often each row is there, as text."""
    struct = F.struct(*(F.col(f"`{name}`") for name in df.columns)).cast("string")
    return Counter(row[0] for row in df.select(struct).collect())
