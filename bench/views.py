"""Materialized views: an incremental refresh alongside a full one of the same view, in one run.

    .venv/bin/python bench/views.py speed             # incremental against full: aggregate, join + aggregate
    .venv/bin/python bench/views.py growth            # the same change over a source that grows
    .venv/bin/python bench/views.py floor             # one changed row: where the time goes

Sources are Delta tables; the change is 10,000 rows by default. Figures are medians.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.core.spec import Layout, Refresh
from headwater.operations.views import create_view, refresh_view, verify_view

PEAK: dict[str, int] = {}
PER_CUSTOMER = 100
FACTS = "id bigint, customer bigint, product int, amount decimal(12,2), at timestamp"
DIMS = "id bigint, region string, segment string"
AGGREGATE = (
    "SELECT product, count(*) AS n, sum(amount) AS total, avg(amount) AS mean, max(amount) AS high "
    "FROM facts GROUP BY product"
)
JOINED = (
    "SELECT d.segment, d.region, count(*) AS n, sum(f.amount) AS total "
    "FROM facts f JOIN dims d ON f.customer = d.id GROUP BY d.segment, d.region"
)


class Bench:
    """A lake with facts of some customers and the customers themselves."""

    def __init__(self, root: Path, rows: int, *, clustered: bool = True) -> None:
        root.mkdir(parents=True)
        (root / "headwater.yml").write_text(
            "name: bench\ntables: {facts: {keys: [id]}, dims: {keys: [id]}}\n"
            "spark: {conf: {spark.driver.memory: 4g}}\n",
            encoding="utf-8",
        )
        self.lake = Lake.open(root)
        self.spark = self.lake.spark
        self.warehouse = self.lake._warehouse
        self.rows, self.next, self.clustered = rows, rows, clustered
        self.customers = max(1, rows // PER_CUSTOMER)
        facts, dims = self._facts(0, rows), self._dims(0, self.customers)
        if clustered:
            facts = facts.repartitionByRange(20, "customer").sortWithinPartitions("customer")
        for name, df in (("facts", facts), ("dims", dims.coalesce(1))):
            table = self.warehouse.table(Kind.TABLE, name)
            table.create(df.schema, Layout(keys=("id",)))
            self.warehouse.remember(Kind.TABLE, name)
            table.append(df)

    def _facts(self, start: int, end: int, customers: tuple[int, int] | None = None) -> DataFrame:
        low, high = customers or (0, self.customers)
        spread = F.pmod(F.xxhash64("id"), F.lit(high - low)) + low
        return self.spark.range(start, end).select(
            "id",
            spread.cast("bigint").alias("customer"),
            F.pmod(F.xxhash64("id", F.lit(1)), F.lit(10_000)).cast("int").alias("product"),
            (F.pmod(F.xxhash64("id", F.lit(2)), F.lit(100_000)) / 100).cast("decimal(12,2)").alias("amount"),
            F.timestamp_seconds(F.lit(1_760_000_000) + F.col("id") % 1_000_000).alias("at"),
        )

    def _dims(self, start: int, end: int, salt: int = 0) -> DataFrame:
        return self.spark.range(start, end).select(
            "id",
            F.concat(F.lit("r"), F.pmod(F.xxhash64("id", F.lit(salt)), F.lit(50))).alias("region"),
            F.concat(F.lit("s"), F.pmod(F.xxhash64("id"), F.lit(20))).alias("segment"),
        )

    def change(self, rows: int, *, dims: int = 0) -> None:
        """New facts, of the newest customers if these lie together; and some customers with another region."""
        near = (max(0, self.customers - rows), self.customers) if self.clustered else None
        table = self.warehouse.table(Kind.TABLE, "facts")
        table.append(self._facts(self.next, self.next + rows, near).coalesce(1))
        self.next += rows
        if dims:
            first = self.customers - dims if self.clustered else 0
            chosen = self._dims(first, first + dims, salt=self.next)
            self.warehouse.table(Kind.TABLE, "dims").upsert(chosen.coalesce(1))


@contextmanager
def bench(rows: int, *, clustered: bool = True) -> Iterator[Bench]:
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        made = Bench(root / "lake", rows, clustered=clustered)
        yield made
        PEAK["Spark"] = max(PEAK.get("Spark", 0), *(peak(child.pid) for child in psutil.Process().children(True)))
        made.lake.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def alternating(made: Bench, view: str, changed: int, dims: int, repeats: int) -> tuple[float, float]:
    """Medians of incremental and full refreshes, each after a change of the same size."""
    took: dict[str, list[float]] = {"incremental": [], "full": []}
    for at in range(repeats + 1):
        for policy, list_ in took.items():
            made.change(changed, dims=dims)
            seconds = timed(partial(refresh_view, made.warehouse, view, policy))
            if at:  # the first pair warms up
                list_.append(seconds)
    return statistics.median(took["incremental"]), statistics.median(took["full"])


def speed(rows: int, changed: int, repeats: int) -> None:
    manual = Refresh(mode="manual", policy="incremental")
    for clustered in (True, False):
        with bench(rows, clustered=clustered) as made:
            for view, sql, dims in (("aggregate", AGGREGATE, 0), ("joined", JOINED, changed // 10)):
                create_view(made.warehouse, view, sql, manual)
                incremental, full = alternating(made, view, changed, dims, repeats)
                same = verify_view(made.warehouse, view).equal
                how = "clustered by the join key" if clustered else "unclustered"
                print(
                    f"{view}, {how}: {rows:,} rows, {changed:,} changed: incremental {incremental * 1000:,.0f} ms, "
                    f"full {full * 1000:,.0f} ms, {full / incremental:.1f}x; equal {same}",
                    flush=True,
                )
    report_memory()


def growth(sizes: list[int], changed: int, repeats: int) -> None:
    manual = Refresh(mode="manual", policy="incremental")
    for view, sql, dims in (("aggregate", AGGREGATE, 0), ("joined", JOINED, changed // 10)):
        first = None
        for rows in sizes:
            with bench(rows) as made:
                create_view(made.warehouse, view, sql, manual)
                took = []
                for at in range(repeats + 1):
                    made.change(changed, dims=dims)
                    seconds = timed(partial(refresh_view, made.warehouse, view))
                    took += [seconds] if at else []
                median = statistics.median(took)
                first = first or median
                print(f"{view}: {rows:,} rows: {median * 1000:,.0f} ms, {median / first:.2f}x", flush=True)
    report_memory()


def floor(rows: int, repeats: int) -> None:
    with bench(rows) as made:
        create_view(made.warehouse, "aggregate", AGGREGATE, Refresh(mode="manual", policy="incremental"))
        profile = cProfile.Profile()
        took = []
        for at in range(repeats + 3):
            made.change(1)
            if at == 3:
                profile.enable()
            took.append(timed(lambda: refresh_view(made.warehouse, "aggregate")))
        profile.disable()
        print(
            f"one changed row: {statistics.median(took[3:]) * 1000:,.0f} ms (runs: {[round(t * 1000) for t in took]})"
        )
        pstats.Stats(profile).sort_stats("cumulative").print_stats("headwater", 45)


def peak(pid: int) -> int:
    """The most memory that a process has held so far, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def report_memory() -> None:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"memory at most: Python {own:,} MiB, Spark's process {PEAK['Spark']:,} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "growth", "floor"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sizes", default="1000000,20000000")
    parser.add_argument("--changed", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.rows, given.changed, given.repeats)
    elif given.what == "growth":
        growth([int(size) for size in given.sizes.split(",")], given.changed, given.repeats)
    else:
        floor(min(given.rows, 1_000_000), given.repeats)


if __name__ == "__main__":
    main()
