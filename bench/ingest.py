"""Kafka into the lake: Headwater alongside a hand-written Structured Streaming job that does the same work.

    .venv/bin/python bench/ingest.py backlog          # rows/s of a backlog, alternating, medians
    .venv/bin/python bench/ingest.py live             # from event to visible row, at a steady rate
    .venv/bin/python bench/ingest.py costs            # what keep_raw, deduplication and the check of a step cost

Both sides run in one Spark, one after the other, on the same Kafka topic, with the same columns and the same options.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.services.kafka import Broker
from tests.services.kafka import broker as kafka

from headwater.api.lake import Lake
from headwater.sources.kafka.settings import POLLED_RECORDS

SCHEMA = (
    "event_id string, event_type string, event_timestamp string, customer_id bigint, amount double, currency string, "
    "city string, sent_at double"
)
COLUMNS = ["event_id", "event_type", "customer_id", "amount", "currency", "city", "sent_at"]
PARTITIONS = 2
WARM = 200_000
"""Events that each side takes in before it is measured: enough to take the same way as a backlog."""


def event(n: int, now: float) -> bytes:
    return json.dumps(
        {
            "event_id": f"e-{n:012d}",
            "event_type": ("OrderPlaced", "OrderShipped", "PaymentProcessed")[n % 3],
            "event_timestamp": "2026-10-17T12:00:00.000Z",
            "customer_id": n % 100_000,
            "amount": round((n * 7919 % 100_000) / 100, 2),
            "currency": "EUR",
            "city": "Frankfurt am Main",
            "sent_at": now,
        },
        separators=(",", ":"),
    ).encode()


def fill(broker: Broker, topic: str, rows: int) -> None:
    broker.create(topic, partitions=PARTITIONS)
    producer = broker.producer(
        **{"linger.ms": 50, "queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"}
    )
    for n in range(rows):
        producer.produce(topic, value=event(n, time.time()), partition=n % PARTITIONS)
        if n % 50_000 == 0:
            producer.flush()
    producer.flush()


class Memory:
    """The most memory that this process and its children held together."""

    def __init__(self) -> None:
        self.peak = 0
        self._ending = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._ending.wait(0.25):
            held = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    if "kafka.Kafka" not in process.cmdline():
                        held += process.memory_info().rss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, held)


class Bench:
    """One Spark, one broker, and both sides."""

    def __init__(self, root: Path, broker: Broker) -> None:
        self.root = root
        self.broker = broker
        self._number = 0

    def project(self, topic: str, format: str, options: str = "", source: str = "") -> Path:
        self._number += 1
        folder = self.root / f"project{self._number}"
        folder.mkdir()
        (folder / "headwater.yml").write_text(
            f"name: bench\nformat: {format}\n"
            "sources:\n"
            f"  clicks: {{type: kafka, brokers: '{self.broker.address}', topic: {topic}{source}}}\n"
            f"topics:\n  events: {{from: clicks{options}}}\n"
        )
        return folder

    def headwater(self, topic: str, format: str, options: str = "") -> float:
        """Seconds to take in the whole topic."""
        with Lake.open(self.project(topic, format, options)) as lake:
            _ = lake.spark
            begun = time.perf_counter()
            [report] = lake.run(once=True)
            seconds = time.perf_counter() - begun
            if report.error is not None:
                raise report.error
            return seconds

    def by_hand(self, spark: Any, topic: str, format: str, polled: int | None = None) -> float:
        """The same by a streaming query: the same columns, one table, exactly once by its checkpoint.

        `polled`: records that its consumers take at once, if not as many as is Kafka's default.
        """
        self._number += 1
        folder = self.root / f"hand{self._number}"
        rows = hand_written(spark, self.broker.address, topic, polled)
        if format == "iceberg":
            rows.sparkSession.sql("CREATE NAMESPACE IF NOT EXISTS lake.hand")
            name = f"lake.hand.t{self._number}"
            rows.sparkSession.createDataFrame([], rows.schema).writeTo(name).using("iceberg").tableProperty(
                "write.parquet.compression-codec", "zstd"
            ).create()
        begun = time.perf_counter()
        writer = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        if format == "iceberg":
            query = writer.format("iceberg").option("fanout-enabled", "true").toTable(name)
        else:
            query = writer.format("delta").start(str(folder / "table"))
        query.awaitTermination()
        return time.perf_counter() - begun


def hand_written(spark: Any, brokers: str, topic: str, polled: int | None = None) -> Any:
    """What a careful person writes: parse, keep the source's coordinates, date and time of arrival; bad rows apart."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    jvm_schema = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(SCHEMA)
    schema = StructType.fromJson(json.loads(jvm_schema.json())).add(StructField("_corrupt", StringType()))
    reader = spark.readStream.format("kafka")
    if polled is not None:
        reader = reader.option("kafka.max.poll.records", polled)
    records = (
        reader.option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_000_000)
        .option("includeHeaders", "true")
        .load()
    )
    text = F.col("value").cast("string")
    parsed = records.withColumn("e", F.from_json(text, schema, {"columnNameOfCorruptRecord": "_corrupt"}))
    when = F.col("e.event_timestamp").cast("timestamp")
    return parsed.select(
        "e.event_id",
        "e.event_type",
        when.alias("event_timestamp"),
        *[F.col(f"e.{name}") for name in COLUMNS[2:]],
        F.to_date(F.coalesce(when, F.current_timestamp())).alias("event_date"),
        F.lit("clicks").alias("_source"),
        F.concat_ws("/", "topic", _padded("partition", 5), _padded("offset", 20)).alias("_position"),
        F.col("key").cast("string").alias("_key"),
        F.col("headers").alias("_headers"),
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.current_timestamp().alias("_ingested_at"),
        F.col("e._corrupt").alias("_corrupt"),
    )


def _padded(name: str, width: int) -> Any:
    from pyspark.sql import functions as F

    return F.lpad(F.col(name).cast("string"), width, "0")


def warm_up(bench: Bench, spark: Any, format: str) -> None:
    """Both sides twice: neither pays for Java's first steps."""
    for _ in range(2):
        bench.headwater("warm", format)
        bench.by_hand(spark, "warm", format)


def backlog(bench: Bench, rows: int, formats: list[str], repeats: int) -> None:
    fill(bench.broker, "backlog", rows)
    with spark_for(bench, formats) as spark:
        memory = Memory()
        for format in formats:
            warm_up(bench, spark, format)
            ours, theirs, tuned = [], [], []
            for _ in range(repeats):
                ours.append(rows / bench.headwater("backlog", format))
                theirs.append(rows / bench.by_hand(spark, "backlog", format))
                tuned.append(rows / bench.by_hand(spark, "backlog", format, POLLED_RECORDS))
            mine, hand, best = map(statistics.median, (ours, theirs, tuned))
            cores = os.cpu_count() or 1
            print(
                f"{format}: headwater {mine:,.0f} rows/s ({mine / cores:,.0f} a core), by hand {hand:,.0f}, "
                f"ratio {mine / hand:.2f}; by hand with our polls of {POLLED_RECORDS:,} {best:,.0f}, "
                f"ratio {mine / best:.2f}  (ours {_all(ours)}; by hand {_all(theirs)}; polls {_all(tuned)})",
                flush=True,
            )
        print(f"peak memory of Python and JVM together: {memory.peak / 2**20:,.0f} MiB")


def costs(bench: Bench, rows: int, repeats: int) -> None:
    fill(bench.broker, "costs", rows)
    variants = {
        "plain": "",
        "keep_raw": ", keep_raw: true",
        "at_least_once": ", delivery: at_least_once",
        "deduplicate_by event_id within 7d": ", deduplicate_by: event_id, deduplicate_within: 7d",
    }
    with spark_for(bench, ["delta"]):
        bench.headwater("warm", "delta")
        found: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(repeats):
            for name, options in variants.items():
                found[name].append(rows / bench.headwater("costs", "delta", options))
        plain = statistics.median(found["plain"])
        for name, measured in found.items():
            rate = statistics.median(measured)
            print(f"{name}: {rate:,.0f} rows/s, {rate / plain:.2f} of plain", flush=True)


def live(bench: Bench, rate: int, seconds: int) -> None:
    bench.broker.create("live", "live_hand", partitions=PARTITIONS)
    with spark_for(bench, ["delta"]) as spark:
        warm_up(bench, spark, "delta")
        project = bench.project("live", "delta", ", batch_size: 200, flush_interval: 100ms")
        stopping = threading.Event()
        with Lake.open(project) as lake:
            _ = lake.spark
            runner = threading.Thread(target=lambda: lake.run(stopping=stopping))
            runner.start()
            send_elsewhere(bench.broker.address, "live", rate, seconds)
            time.sleep(3)
            stopping.set()
            runner.join()
        report("headwater", spark, project / "lake" / "topics" / "events", rate * seconds)
        table = bench.root / "live_hand_table"
        rows = hand_written(spark, bench.broker.address, "live_hand")
        query = rows.writeStream.option("checkpointLocation", str(bench.root / "live_checkpoint")).format("delta")
        running = query.start(str(table))
        send_elsewhere(bench.broker.address, "live_hand", rate, seconds)
        time.sleep(6)
        running.stop()
        report("by hand", spark, table, rate * seconds)


def send_elsewhere(brokers: str, topic: str, rate: int, seconds: int) -> None:
    """By a process of its own, as producers are."""
    sender = multiprocessing.get_context("spawn").Process(target=send_steadily, args=(brokers, topic, rate, seconds))
    sender.start()
    sender.join()


def send_steadily(brokers: str, topic: str, rate: int, seconds: int) -> None:
    """So many events a second, each with the time it was sent at; the first seconds warm up."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
    begun = time.time()
    for n in range(rate * seconds):
        due = begun + n / rate
        while (wait := due - time.time()) > 0:
            producer.poll(0)
            time.sleep(min(wait, 0.005))
        producer.produce(topic, value=event(n, time.time()), partition=n % PARTITIONS)
    producer.flush()


def report(name: str, spark: Any, table: Path, expected: int) -> None:
    """From a row's own time to the moment at which its commit could be seen: its file in the log."""
    from pyspark.sql import functions as F

    seen: list[float] = []
    rows = 0
    first = None
    for log in sorted((table / "_delta_log").glob("*.json")):
        added = [json.loads(line)["add"]["path"] for line in log.read_text().splitlines() if '"add"' in line[:8]]
        if not added:
            continue
        visible = log.stat().st_mtime
        files = [str(table / path) for path in added]
        sent = [row[0] for row in spark.read.parquet(*files).select(F.col("sent_at")).collect()]
        rows += len(sent)
        first = first or min(sent)
        seen += [visible - at for at in sent if at - first > 10]
    seen.sort()
    print(
        f"{name}: {rows:,} of {expected:,} rows, event to visible row: p50 {seen[len(seen) // 2]:.3f} s, "
        f"p95 {seen[int(len(seen) * 0.95)]:.3f} s, max {seen[-1]:.3f} s",
        flush=True,
    )


@contextmanager
def spark_for(bench: Bench, formats: list[str]) -> Iterator[Any]:
    """One Spark with all formats, open while projects come and go."""
    folder = bench.root / "session"
    folder.mkdir()
    topics = "\n".join(f"  t_{name}: {{from: clicks, format: {name}}}" for name in formats)
    (folder / "headwater.yml").write_text(
        f"name: session\nsources:\n  clicks: {{type: kafka, brokers: '{bench.broker.address}', topic: x}}\n"
        f"topics:\n{topics}\n"
    )
    with Lake.open(folder) as lake:
        yield lake.spark


def _all(values: list[float]) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["backlog", "live", "costs"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    act: dict[str, Callable[[Bench], None]] = {
        "backlog": lambda bench: backlog(bench, given.rows, given.formats.split(","), given.repeats),
        "costs": lambda bench: costs(bench, given.rows, given.repeats),
        "live": lambda bench: live(bench, given.rate, given.seconds),
    }
    try:
        (root / "kafka").mkdir()
        with kafka(root / "kafka") as broker:
            fill(broker, "warm", WARM)
            act[given.what](Bench(root, broker))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
