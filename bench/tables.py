"""What applying changes costs alongside the same MERGE written by hand, and how it grows with the table.

    .venv/bin/python bench/tables.py --rows 1000000 --changes 100000 --steps 5

Both keep the latest state of the same Delta topic in a Delta table of their own, taking turns step by step. Both order
the changes of a key by `--sequence-by`, by default the position that every record of a topic has, and store it. Both
tables record their changes for those who follow them (`delta.enableChangeDataFeed`), have no deletion vectors and are
written with zstd. What ours does beyond that: it notes the step in a ledger and marks its commit, refuses changes
without key or order, counts them, and remembers deletes. By another column than the position it resolves ties too, for
which it stores the position alongside it. The job written by hand does none of it: a late change brings back a deleted
row. `bare` is the same job into a table without a feed.

Then one step of `--few` changes into tables of growing size, clustered by the key into files of 8 MB: by keys that lie
together, and by keys at random. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.runner.setups.tables import table_flow
from headwater.spark.session import fork

PROJECT = """\
name: bench
spark: {master: "local[*]", conf: {spark.driver.memory: 4g}}
sources: {api: {type: append}}
topics: {log: {from: api}}
tables:
  kept:
    from: topic('log')
    apply: {keys: [id], sequence_by: SEQUENCE, delete_when: gone}
    z_order_by: [id]
    target_file_size: 8MB
"""
FEED = "delta.enableChangeDataFeed"


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
        F.lpad(n.cast("string"), 20, "0").alias("_position"),
    )


def merge_by_hand(spark: SparkSession, topic: str, target: str, by: str, start: int, end: int) -> None:
    """As one would write it: the rows since the last version, the newest of each key, one MERGE."""
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    rows = feed.option("startingVersion", start + 1).option("endingVersion", end).load(topic)
    names = [name for name in columns_by_hand(by) if name != "id"]
    newest = rows.groupBy("id").agg(F.max_by(F.struct(*names), by).alias("row")).select("id", "row.*")
    newest.createOrReplaceTempView("newest")
    values = ", ".join(f"t.{name} = s.{name}" for name in names)
    spark.sql(
        f"MERGE INTO delta.`{target}` t USING newest s ON t.id = s.id "
        f"WHEN MATCHED AND s.gone AND s.{by} > t.{by} THEN DELETE "
        f"WHEN MATCHED AND s.{by} > t.{by} THEN UPDATE SET {values} "
        f"WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id, {', '.join(names)}) "
        f"VALUES (s.id, {', '.join(f's.{name}' for name in names)})"
    )


def columns_by_hand(by: str) -> list[str]:
    return list(dict.fromkeys(["id", "n", "gone", "name", "amount", by]))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Bench:
    """A topic filled past its source, and the tables that follow it."""

    def __init__(self, root: Path, name: str = "bench", by: str = "_position") -> None:
        self.root, self.by = root / name, by
        self.root.mkdir()
        (self.root / "headwater.yml").write_text(PROJECT.replace("SEQUENCE", by), encoding="utf-8")
        self.lake = Lake.open(self.root)
        self.spark = fork(self.lake.spark)
        self.spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
        warehouse = self.lake._warehouse
        self.topic = warehouse.table(Kind.TOPIC, "log", self.spark)
        self.flow = table_flow(warehouse, "kept", self.spark, lambda: None)
        self.by_hand = {"by_hand": str(self.root / "by_hand"), "bare": str(self.root / "bare")}
        self.n = self.steps = 0

    def append(self, rows: DataFrame, count: int) -> None:
        if not self.topic.exists():
            self.topic.create(rows.schema)
            self.lake._warehouse.remember(Kind.TOPIC, "log")
        self.topic.append(rows)
        self.n += count

    def fill(self, rows: int, *, hand: bool = True) -> None:
        self.append(changes(self.spark, self.n, rows, rows, together=True), rows)
        self.flow.step()
        for name, path in self.by_hand.items() if hand else ():
            there = self.spark.read.format("delta").load(str(self.topic.address.path)).where("NOT gone")
            there = there.select(*columns_by_hand(self.by))
            there.write.format("delta").option(FEED, str(name == "by_hand").lower()).save(path)

    def step(self, count: int, keys: int, *, together: bool = False, hand: bool = True) -> dict[str, float]:
        """The seconds that each needs for the next changes."""
        before = self.topic.version()
        self.append(changes(self.spark, self.n, count, keys, together=together), count)
        after, topic = self.topic.version(), str(self.topic.address.path)
        assert before is not None and after is not None
        works: list[tuple[str, Callable[[], object]]] = [("apply", self.flow.step)]
        for name, path in self.by_hand.items() if hand else ():
            works.append((name, partial(merge_by_hand, self.spark, topic, path, self.by, before, after)))
        self.steps += 1  # none of them is always the first to read the new rows
        turn = self.steps % len(works)
        return {name: timed(work) for name, work in [*works[turn:], *works[:turn]]}

    def same(self) -> bool:
        kept = self.lake.table("kept").df().select("id", "n")
        other = self.spark.read.format("delta").load(self.by_hand["by_hand"]).select("id", "n")
        return kept.exceptAll(other).isEmpty() and other.exceptAll(kept).isEmpty()


def compared(root: Path, rows: int, count: int, steps: int, by: str) -> dict[str, Any]:
    bench = Bench(root, by=by)
    bench.fill(rows)
    bench.step(count, rows)  # warm
    found = [bench.step(count, rows) for _ in range(steps)]
    ours, theirs, bare = (statistics.median(one[name] for one in found) for name in ("apply", "by_hand", "bare"))
    return {
        "rows": rows,
        "changes_a_step": count,
        "apply_s": round(ours, 2),
        "by_hand_s": round(theirs, 2),
        "bare_s": round(bare, 2),
        "added_percent": round(100 * (ours / theirs - 1)),
        "same_rows": bench.same(),
    }


def growing(root: Path, sizes: list[int], few: int) -> list[dict[str, Any]]:
    found = []
    for size in sizes:
        bench = Bench(root, f"growing_{size}")
        bench.fill(size, hand=False)
        bench.lake._warehouse.table(Kind.TABLE, "kept", bench.spark).cluster()
        row: dict[str, Any] = {"rows": size}
        for name, together in (("together_s", True), ("random_s", False)):
            times = [
                bench.step(few, few if together else size, together=together, hand=False)["apply"] for _ in range(3)
            ]
            row[name] = round(statistics.median(times[1:]), 2)
        found.append(row)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--changes", type=int, default=100_000)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--sequence-by", default="_position", choices=["_position", "n"])
    options.add_argument("--few", type=int, default=5_000)
    options.add_argument("--sizes", type=int, nargs="*", default=[250_000, 1_000_000, 4_000_000])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {
            "beside_a_merge": compared(Path(folder), given.rows, given.changes, given.steps, given.sequence_by)
        }
        print(json.dumps(found), file=sys.stderr, flush=True)
        found["by_size_of_the_table"] = growing(Path(folder), given.sizes, given.few)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
