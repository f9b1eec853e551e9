"""A partitioned table of events, written without a JVM: small files and row groups, so that each can be counted."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import BloomFilterProperties, ColumnProperties, WriterProperties, write_deltalake

from headwater.core.model import Kind
from headwater.project.load.loader import load_project
from headwater.warehouse import Warehouse

DAYS = 4
FILES = 2
ROWS = 400
"""In one file; a row group has a quarter of them."""
FIRST = date(2024, 5, 1)


def events(root: Path) -> Warehouse:
    """Days of two files each: ids grow from file to file, names are sorted, every other file has no note at all."""
    (root / "headwater.yml").write_text(
        "name: pruned\nsources: {api: {type: append}}\ntopics: {events: {from: api, partition_by: [day]}}\n"
    )
    warehouse = Warehouse(load_project(root))
    address = warehouse.address(Kind.TOPIC, "events")
    bloom = ColumnProperties(bloom_filter_properties=BloomFilterProperties(True))
    writing = WriterProperties(max_row_group_size=ROWS // 4, column_properties={"key": bloom})
    for n in range(DAYS * FILES):
        ids = range(n * ROWS, (n + 1) * ROWS)
        rows = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "day": pa.array([FIRST + timedelta(days=n // FILES)] * ROWS, pa.date32()),
                "name": [f"n{n}-{i:06d}" for i in ids],
                "key": [f"k{i * 7919 % 100_003:06d}" for i in ids],
                "amount": [float(i % 100) for i in ids],
                "note": pa.array([None] * ROWS if n % 2 else [f"note {i}" for i in ids], pa.string()),
            }
        )
        write_deltalake(str(address.path), rows, mode="append", partition_by=["day"], writer_properties=writing)
    warehouse.remember(Kind.TOPIC, "events")
    return warehouse
