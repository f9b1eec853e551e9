"""Maintenance: what small files cost, how quickly they are joined, what the proof costs, what ingest feels of it.

    .venv/bin/python bench/maintenance.py files --files 5000       # queries and refreshes before and after compaction
    .venv/bin/python bench/maintenance.py throughput               # beside the format's own call; and without the proof
    .venv/bin/python bench/maintenance.py ingest --minutes 5       # p95 from file to row, with and without maintenance

`--format delta | iceberg | hudi | paimon | parquet`. Figures are medians of `--repeats`; the sides alternate. `ingest`
runs `bench/soak.py` once with maintenance and once without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.api.lake import Lake
from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec import Layout, Refresh
from headwater.formats.spark_table import SparkTable
from headwater.operations.views import create_view, refresh_view
from headwater.query.engines import Engine

TARGET = 128 * 1024 * 1024
QUERIES = {
    "count": "SELECT count(*) AS n FROM table('facts')",
    "sums by product": "SELECT product, count(*) AS n, sum(amount) AS s FROM table('facts') GROUP BY product",
    "one customer": "SELECT id, amount FROM table('facts') WHERE customer = 77",
}
VIEW = "SELECT product, count(*) AS n, sum(amount) AS total FROM table('facts') GROUP BY product"
OWN: Mapping[str, str] = {
    "delta": "OPTIMIZE delta.`{path}`",
    "iceberg": "CALL lake.system.rewrite_data_files(table => 'tables.{name}', options => map('min-input-files', '2'))",
    "paimon": "CALL paimon.sys.compact(table => 'tables.{name}')",
}
"""The format's own call; Hudi's works on its own schedule, and plain Parquet has none."""


class Facts:
    """A lake with a table of facts, which is made as often as it is needed."""

    def __init__(self, root: Path, format: str) -> None:
        root.mkdir(parents=True)
        # Hudi and Paimon tables have keys, and are compacted by these.
        tables = ", ".join(f"{name}: {{keys: [id]}}" for name in ("facts", "ours", "unproved", "own"))
        (root / "headwater.yml").write_text(
            f"name: bench\nformat: {format}\ntables: {{{tables}}}\nspark: {{conf: {{spark.driver.memory: 3g}}}}\n",
            encoding="utf-8",
        )
        self.lake = Lake.open(root)
        self.warehouse, self.spark, self.format = self.lake._warehouse, self.lake.spark, format

    def rows(self, start: int, end: int) -> DataFrame:
        return self.spark.range(start, end).select(
            "id",
            F.pmod(F.xxhash64("id"), F.lit(100_000)).cast("bigint").alias("customer"),
            F.pmod(F.xxhash64("id", F.lit(1)), F.lit(1000)).cast("int").alias("product"),
            (F.pmod(F.xxhash64("id", F.lit(2)), F.lit(100_000)) / 100).cast("decimal(12,2)").alias("amount"),
            F.concat(F.lit("note "), F.hex(F.xxhash64("id", F.lit(3)))).alias("note"),
        )

    def make(self, name: str, rows: int, files: int) -> SparkTable:
        """The table anew, in so many files."""
        table = self.warehouse.table(Kind.TABLE, name)
        if table.exists():
            table.drop()
            table = self.warehouse.table(Kind.TABLE, name)
        df = self.rows(0, rows)
        table.create(df.schema, Layout(target_file_size=TARGET))
        self.warehouse.remember(Kind.TABLE, name)
        table.append(df.repartition(files))
        return table

    def size(self, table: SparkTable) -> tuple[int, int]:
        """Live files and their bytes."""
        found = table.files()
        return len(found), sum(file.bytes for file in found)


@contextmanager
def facts(format: str) -> Iterator[Facts]:
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        made = Facts(root / "lake", format)
        yield made
        made.lake.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def whole(table: SparkTable) -> None:
    """Piece after piece, as maintenance does it."""
    while table.compact(TARGET) is not None:
        pass


@contextmanager
def unproved() -> Iterator[None]:
    """No proof is made, wherever a format would."""
    from headwater.formats.maintenance import proof

    none = proof.Proof(0, "0")
    instead: dict[str, Callable[..., object]] = {
        "measure": lambda rows: none,
        "measured_on_the_way": lambda rows: (rows, lambda: none),
        "require_same": lambda *compared: None,
    }
    with ExitStack() as stack:
        users = [module for name, module in sys.modules.items() if name.startswith("headwater.formats.")]
        for module in users:
            for function, nothing in instead.items():
                if module is not proof and getattr(module, function, None) is getattr(proof, function):
                    stack.enter_context(patch.object(module, function, nothing))
        yield


def files(format: str, rows: int, count: int, repeats: int) -> None:
    """Queries and refreshes over a table of many small files, and over the same after compaction."""
    with facts(format) as made:
        table = made.make("facts", rows, count)
        create_view(made.warehouse, "sums", VIEW, Refresh(mode="manual", policy="incremental"))
        next_row = rows

        def change() -> None:
            nonlocal next_row
            made.warehouse.table(Kind.TABLE, "facts").append(made.rows(next_row, next_row + 1000).coalesce(1))
            next_row += 1000

        def once() -> Iterator[tuple[str, float]]:
            for name, sql in QUERIES.items():
                for engine in ("duckdb", "spark"):
                    try:
                        yield f"{name} by {engine}", timed(partial(asked, sql, engine))
                    except HeadwaterError as refused:
                        print(f"  {name} by {engine}: {refused}", flush=True)
            yield "full refresh", timed(partial(refresh_view, made.warehouse, "sums", "full"))
            change()
            yield "refresh of 1,000 new rows", timed(partial(refresh_view, made.warehouse, "sums", "incremental"))

        def asked(sql: str, engine: Engine) -> None:
            made.lake.sql(sql, engine=engine).to_arrow()

        def measured() -> dict[str, float]:
            found: dict[str, list[float]] = {}
            for at in range(repeats + 1):
                for name, seconds in once():
                    if at:  # the first round warms up
                        found.setdefault(name, []).append(seconds)
            return {name: statistics.median(some) for name, some in found.items()}

        before, (files_before, bytes_before) = measured(), made.size(table)
        took = timed(lambda: whole(table))
        after, (files_after, bytes_after) = measured(), made.size(table)
        print(
            f"{format}: {files_before:,} → {files_after:,} files, {bytes_before:,} → {bytes_after:,} B in {took:.1f} s"
        )
        for name in before:
            if name in after:
                print(f"  {name}: {before[name]:.3f} → {after[name]:.3f} s ({before[name] / after[name]:.1f} ×)")


def throughput(format: str, rows: int, count: int, repeats: int) -> bool:
    """Compaction by us, by us without the proof, and by the format's own call."""
    took: dict[str, list[float]] = {}
    with facts(format) as made:
        for at in range(repeats + 1):
            for side in ("ours", "unproved", "own"):
                if side == "own" and format not in OWN:
                    continue
                table = made.make(side, rows, count)
                _, size = made.size(table)
                if side == "own":
                    path = made.warehouse.address(Kind.TABLE, side).path
                    seconds = timed(
                        lambda path=path: made.spark.sql(OWN[format].format(path=path, name="own")).collect()
                    )
                elif side == "unproved":
                    with unproved():
                        seconds = timed(partial(whole, table))
                else:
                    seconds = timed(partial(whole, table))
                left, _ = made.size(made.warehouse.table(Kind.TABLE, side))
                print(f"  {side}: {size / 2**20:,.1f} MiB of {count:,} files → {left:,} in {seconds:.2f} s", flush=True)
                if at:  # the first round warms up
                    took.setdefault(side, []).append(size / seconds)
    rates = {side: statistics.median(some) for side, some in took.items()}
    print(f"{format}: " + ", ".join(f"{side} {rate / 2**20:,.1f} MiB/s" for side, rate in rates.items()))
    print(f"  price of the proof: {rates['unproved'] / rates['ours'] - 1:+.0%} of the time")
    if "own" not in rates:
        print(f"  {format} has no call of its own to compare with")
        return True
    ratio = rates["ours"] / rates["own"]
    print(f"  {ratio:.2f} × the throughput of the format's own call (≥ 0.9: {'ok' if ratio >= 0.9 else 'NOT'})")
    return ratio >= 0.9


def ingest(format: str, minutes: float, warm: float) -> bool:
    """p95 from a landed file to its rows, by the soak."""
    p95: dict[str, float] = {}
    for side in ("without", "with"):
        soak = [sys.executable, str(Path(__file__).with_name("soak.py")), "--json", "--format", format]
        soak += ["--minutes", str(minutes), "--warm", str(warm), *(["--no-maintenance"] if side == "without" else [])]
        done = subprocess.run(soak, capture_output=True, text=True, check=False, env=dict(os.environ))
        for line in done.stdout.splitlines():
            check = json.loads(line)
            if check["what"] in ("latency of topics.events is flat", "maintenance", "no step failed"):
                print(f"  {side} maintenance: {check['what']}: {check['told']}", flush=True)
            if check["what"] == "latency of topics.events is flat":
                p95[side] = float(check["told"].rsplit("p95 ", 1)[1].removesuffix(" s"))
        if side not in p95:
            sys.exit(f"the soak gave no figures: {done.stdout} {done.stderr}")
    ratio = p95["with"] / p95["without"]
    print(f"{format}: p95 {ratio:.2f} × with maintenance (≤ 1.3: {'ok' if ratio <= 1.3 else 'NOT'})")
    return ratio <= 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["files", "throughput", "ingest"])
    parser.add_argument("--format", default="delta", choices=["delta", "iceberg", "hudi", "paimon", "parquet"])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=0, help="5,000 for `files`, 400 for `throughput`")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--warm", type=float, default=30)
    given = parser.parse_args()
    if given.what == "files":
        files(given.format, given.rows, given.files or 5000, given.repeats)
        return
    if given.what == "throughput":
        good = throughput(given.format, given.rows, given.files or 400, given.repeats)
    else:
        good = ingest(given.format, given.minutes, given.warm)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
