"""Views that join columns of different types, over real tables: the keys of a change are compared as the query does."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater import Lake
from headwater.core.model import DELETED, Kind
from headwater.core.spec import Layout
from headwater.operations.views import create_view, refresh_view, verify_view
from tests.views.test_sources import FOLLOWED

SCHEMAS = {"big": "id bigint, at timestamp, price decimal(10,2)", "small": "id int, day date, n int, text string"}
QUERIES = {
    "numbers": "SELECT b.price, s.n FROM big b FULL JOIN small s ON b.id = s.id",
    "days": "SELECT b.id, s.n FROM big b LEFT JOIN small s ON b.at = s.day",
    "texts": "SELECT b.id FROM big b WHERE NOT EXISTS (SELECT 1 FROM small s WHERE s.text = b.id)",
    "lists": "SELECT b.id, (SELECT array_sort(collect_set(s.text)) FROM small s WHERE s.id = b.id) AS l FROM big b",
}


def test_joins_of_different_types(tmp_path: Path, spark: SparkSession) -> None:
    tables = "{big: {keys: [id]}, small: {keys: [id]}}"
    (tmp_path / "headwater.yml").write_text(f"name: types\nformat: delta\ntables: {tables}\n", encoding="utf-8")
    with Lake.open(tmp_path) as lake:
        warehouse = lake._warehouse

        def put(name: str, *rows: tuple[Any, ...]) -> None:
            frame = lake.spark.createDataFrame(list(rows), f"{SCHEMAS[name]}, {DELETED} boolean")
            warehouse.table(Kind.TABLE, name).upsert(frame)

        def day(n: int) -> datetime:
            return datetime(2026, 1, n, tzinfo=timezone.utc)

        for name, ddl in SCHEMAS.items():
            schema = lake.spark.createDataFrame([], ddl).schema
            warehouse.table(Kind.TABLE, name).create(schema, Layout(keys=("id",)))
            warehouse.remember(Kind.TABLE, name)
        put("big", *((n, day(n), Decimal(n), False) for n in range(1, 5)), (5_000_000_000, None, None, False))
        put("small", *((n, date(2026, 1, n), n, f" {n}", False) for n in range(3, 7)))
        names = {f"v{at}": sql for at, sql in enumerate(QUERIES.values())}
        for name, sql in names.items():
            create_view(warehouse, name, sql, FOLLOWED)
        rounds: list[dict[str, tuple[Any, ...]]] = [
            {"small": (1, date(2026, 1, 2), 1, "2", False)},
            {"big": (3, day(5), Decimal(6), False), "small": (3, date(2026, 1, 1), 3, None, True)},
            {"big": (5_000_000_000, None, Decimal(7), False)},
        ]
        for changes in rounds:
            for table, row in changes.items():
                put(table, row)
            for name, sql in names.items():
                assert refresh_view(warehouse, name).refresh_type in ("incremental", "none"), sql
                found = verify_view(warehouse, name)
                assert found.equal, (changes, sql, found)
