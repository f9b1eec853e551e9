"""What a sync costs of a table of many files: 10 new files of a table of 100 and of one of 1,000.

    .venv/bin/python bench/interop.py                 # Delta → Iceberg and Iceberg → Delta
    .venv/bin/python bench/interop.py --files 100 5000

The tables are written by deltalake and pyiceberg, so that no Spark runs. Each figure is the median of five syncs, each
with 10 files that have just come; the first sync, which reads the whole table back, is told apart. The larger table may
take twice as long as the smaller one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.formats.iceberg.names import lake_location
from headwater.formats.iceberg.native import IcebergNativeTable

PROJECT = "name: bench\ntables:\n  d: {keys: [id], format: delta}\n  i: {keys: [id], format: iceberg}\n"
ROWS, NEW, SYNCS, MOST = 1_000, 10, 5, 2.0


def rows(number: int, files: int) -> pa.Table:
    """As many rows as make so many files: one for each partition."""
    ids = range(number, number + ROWS * files)
    return pa.table({"id": list(ids), "p": [id % files for id in ids], "v": [id / 3 for id in ids]})


class Bench:
    def __init__(self, root: Path) -> None:
        (root / "headwater.yml").write_text(PROJECT, encoding="utf-8")
        self.lake = Lake.open(root)
        self.warehouse = self.lake._warehouse
        self._iceberg: Any = None

    def grow(self, name: str, files: int) -> None:
        if name == "d":
            write_deltalake(
                str(self.warehouse.address(Kind.TABLE, "d").path), rows(0, files), partition_by=["p"], mode="append"
            )
        else:
            self._table().append(rows(0, files))
        if self.warehouse.record(Kind.TABLE, name) is None:
            self.warehouse.remember(Kind.TABLE, name)

    def sync(self, name: str) -> float:
        begun = time.perf_counter()
        self.lake.sync_interop(name, ["iceberg" if name == "d" else "delta"])
        return time.perf_counter() - begun

    def _table(self) -> Any:
        if self._iceberg is None:
            from pyiceberg.transforms import IdentityTransform

            from headwater.catalogs.jdbc import JdbcCatalog

            context = self.warehouse.context
            JdbcCatalog().prepare(lake_location(context))
            native = IcebergNativeTable(self.warehouse.address(Kind.TABLE, "i"), context)
            catalog = native.catalog(writable=True)
            catalog.create_namespace("tables")
            found = catalog.create_table("tables.i", rows(0, 1).schema, location=f"{context.warehouse}/tables/i")
            with found.update_spec() as update:
                update.add_field("p", IdentityTransform(), "p")
            self._iceberg = found
        return self._iceberg


def measure(name: str, files: int) -> tuple[float, float]:
    """Seconds of the first sync, and the median of those that follow."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        bench.grow(name, files)
        first, later = bench.sync(name), []
        for _ in range(SYNCS):
            bench.grow(name, NEW)
            later.append(bench.sync(name))
        bench.lake.close()
        return first, statistics.median(later)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs=2, default=[100, 1_000])
    few, many = parser.parse_args().files
    missed = False
    for name, title in (("d", "Delta → Iceberg"), ("i", "Iceberg → Delta")):
        measure(name, 2)  # libraries are loaded
        (_, small), (first, large) = measure(name, few), measure(name, many)
        ratio = large / small
        missed = missed or ratio > MOST
        print(
            f"{title}: {NEW} new files of {few}: {small:.3f} s; of {many}: {large:.3f} s ({ratio:.2f} ×); "
            f"the first sync of {many}: {first:.2f} s",
            flush=True,
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
