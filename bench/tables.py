"""What applying changes costs beside the same MERGE written by hand, and how it grows with the table.

    .venv/bin/python bench/tables.py --rows 1000000 --changes 100000 --steps 5

Both keep the latest state of the same Delta topic in a Delta table of their own, taking turns step by step. The job
written by hand has no ledger, no marks and no tombstones. Then one step of `--few` changes into tables of growing size,
by keys that lie together and by keys at random. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.lake import Lake
from headwater.model import Kind
from headwater.runtime.tables import table_flow
from headwater.session import fork

PROJECT = """\
name: bench
spark: {master: "local[*]", conf: {spark.driver.memory: 4g}}
sources: {api: {type: append}}
topics: {log: {from: api}}
tables:
  kept: {from: topic('log'), apply: {keys: [id], sequence_by: n, delete_when: gone}}
"""


def changes(spark: SparkSession, first: int, count: int, keys: int, *, together: bool = False) -> DataFrame:
    """Changes of keys at random, or of those that lie together; one in fifty is a delete."""
    n = F.col("id") + first
    key = F.pmod(F.col("id"), F.lit(keys)) if together else F.pmod(F.xxhash64(n), F.lit(keys))
    return spark.range(count).select(
        key.alias("id"),
        n.alias("n"),
        (F.pmod(F.xxhash64(n, F.lit(1)), F.lit(50)) == 0).alias("gone"),
        F.sha2(n.cast("string"), 256).alias("name"),
        (F.pmod(F.xxhash64(n, F.lit(2)), F.lit(10_000)) / 100).alias("amount"),
    )


def merge_by_hand(spark: SparkSession, topic: str, target: str, start: int, end: int) -> None:
    """As one would write it: the rows since the last version, the newest of each key, one MERGE."""
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    rows = feed.option("startingVersion", start + 1).option("endingVersion", end).load(topic)
    names = ["n", "gone", "name", "amount"]
    newest = rows.groupBy("id").agg(F.max_by(F.struct(*names), "n").alias("row")).select("id", "row.*")
    newest.createOrReplaceTempView("newest")
    values = ", ".join(f"t.{name} = s.{name}" for name in names)
    spark.sql(
        f"MERGE INTO delta.`{target}` t USING newest s ON t.id = s.id "
        "WHEN MATCHED AND s.gone AND s.n > t.n THEN DELETE "
        f"WHEN MATCHED AND s.n > t.n THEN UPDATE SET {values} "
        "WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id, n, gone, name, amount) "
        "VALUES (s.id, s.n, s.gone, s.name, s.amount)"
    )


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Bench:
    """A topic filled past its source, and the two tables."""

    def __init__(self, root: Path, name: str = "bench") -> None:
        self.root = root / name
        self.root.mkdir()
        (self.root / "headwater.yml").write_text(PROJECT, encoding="utf-8")
        self.lake = Lake.open(self.root)
        self.spark = fork(self.lake.spark)
        warehouse = self.lake._warehouse
        self.topic = warehouse.table(Kind.TOPIC, "log", self.spark)
        self.flow = table_flow(warehouse, "kept", self.spark, lambda: None)
        self.by_hand = str(self.root / "by_hand")
        self.n = 0

    def append(self, rows: DataFrame, count: int) -> None:
        if not self.topic.exists():
            self.topic.create(rows.schema)
            self.lake._warehouse.remember(Kind.TOPIC, "log")
        self.topic.append(rows)
        self.n += count

    def fill(self, rows: int) -> None:
        first = changes(self.spark, self.n, rows, rows, together=True)
        self.append(first, rows)
        self.flow.step()
        (
            self.spark.sql(f"SELECT * FROM delta.`{self.topic.address.path}` WHERE NOT gone")
            .write.format("delta")
            .save(self.by_hand)
        )

    def step(self, count: int, keys: int, *, together: bool = False, hand: bool = True) -> tuple[float, float | None]:
        before = self.topic.version()
        self.append(changes(self.spark, self.n, count, keys, together=together), count)
        after, path = self.topic.version(), str(self.topic.address.path)
        assert before is not None and after is not None
        ours = timed(self.flow.step)
        theirs = timed(lambda: merge_by_hand(self.spark, path, self.by_hand, before, after)) if hand else None
        return ours, theirs

    def same(self) -> bool:
        kept = self.lake.table("kept").df().select("id", "n")
        other = self.spark.read.format("delta").load(self.by_hand).select("id", "n")
        return kept.exceptAll(other).isEmpty() and other.exceptAll(kept).isEmpty()


def compared(root: Path, rows: int, count: int, steps: int) -> dict[str, Any]:
    bench = Bench(root)
    bench.fill(rows)
    bench.step(count, rows)  # warm
    pairs = [bench.step(count, rows) for _ in range(steps)]
    ours, theirs = (statistics.median(float(one[at] or 0) for one in pairs) for at in (0, 1))
    return {
        "rows": rows,
        "changes_a_step": count,
        "apply_s": round(ours, 2),
        "by_hand_s": round(theirs, 2),
        "added_percent": round(100 * (ours / theirs - 1)),
        "same_rows": bench.same(),
    }


def growing(root: Path, sizes: list[int], few: int) -> list[dict[str, Any]]:
    found = []
    for size in sizes:
        bench = Bench(root, f"growing_{size}")
        bench.fill(size)
        bench.lake._warehouse.table(Kind.TABLE, "kept", bench.spark).compact(8 << 20)
        row: dict[str, Any] = {"rows": size}
        for name, together in (("together_s", True), ("random_s", False)):
            bench.step(few, few if together else size, together=together, hand=False)
            row[name] = round(bench.step(few, few if together else size, together=together, hand=False)[0], 2)
        found.append(row)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--changes", type=int, default=100_000)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--few", type=int, default=5_000)
    options.add_argument("--sizes", type=int, nargs="*", default=[250_000, 1_000_000, 4_000_000])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"beside_a_merge": compared(Path(folder), given.rows, given.changes, given.steps)}
        print(json.dumps(found), file=sys.stderr, flush=True)
        found["by_size_of_the_table"] = growing(Path(folder), given.sizes, given.few)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
