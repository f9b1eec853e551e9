"""An event store in Postgres into Delta: Headwater alongside a hand-written partitioned JDBC read, and alongside dlt.

    .venv/bin/python bench/postgres.py --rows 2000000 --repeats 3

Headwater and the hand-written job run in one Spark, in turns, on the same table, with the same columns. dlt is set up
in an environment of its own in the user's cache, and left out with a word where it can't be had.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.services.postgres import Server, server

from headwater.api.lake import Lake
from headwater.sources.postgres.events.setup import COLUMN

TABLE = """
CREATE TABLE events (
  global_position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id uuid NOT NULL, event_type text NOT NULL,
  stream_id text NOT NULL, version int NOT NULL, data jsonb NOT NULL, metadata jsonb, created_at timestamptz NOT NULL)
"""
FILL = """
INSERT INTO events (event_id, event_type, stream_id, version, data, metadata, created_at)
SELECT gen_random_uuid(), (ARRAY['OrderPlaced', 'OrderShipped', 'PaymentProcessed'])[n % 3 + 1], 'order-' || n % 100000,
       n % 50, jsonb_build_object('customer_id', n % 100000,
       'amount', (n::int8 * 7919 % 100000) / 100.0, 'currency', 'EUR',
       'city', 'Frankfurt am Main', 'lines', n % 7), jsonb_build_object('tenant_id', 't' || n % 20), now()
FROM generate_series(1, {rows}) n
"""
WARM = 200_000
"""Events that each side takes in first, twice, so that neither is measured while Java warms up."""
PAYLOAD = "customer_id bigint, amount double, currency string, city string, lines bigint"
HAND_AGAIN = "by hand, with a column of transactions"
DLT = ["dlt[filesystem,deltalake]", "sqlalchemy>=2", "psycopg2-binary", "pyarrow<20"]
DLT_SCRIPT = """
import sys, time
import dlt
from dlt.destinations import filesystem
from dlt.sources.sql_database import sql_table
dsn, folder = sys.argv[1:]
events = sql_table(credentials=dsn, schema="public", table="events", backend="pyarrow", chunk_size=50_000)
events.apply_hints(table_format="delta")
pipeline = dlt.pipeline("bench", destination=filesystem(bucket_url=folder), dataset_name="lake",
                        pipelines_dir=folder + "/state")
begun = time.perf_counter()
pipeline.run(events, loader_file_format="parquet", write_disposition="append")
print(time.perf_counter() - begun)
"""


class Bench:
    """One Spark, one server, and all sides."""

    def __init__(self, root: Path, postgres: Server, rows: int) -> None:
        self.root = root
        self.rows = rows
        self._number = 0
        self.dsn = self._store(postgres, rows)
        self.warm = self._store(postgres, WARM)
        self._postgres = postgres

    def with_column(self) -> str:
        """The same events in a table that had the column of transactions before them."""
        return self._store(
            self._postgres, self.rows, f"ALTER TABLE events ADD {COLUMN} xid8 DEFAULT pg_current_xact_id()"
        )

    def _store(self, postgres: Server, rows: int, *more: str) -> str:
        dsn = postgres.database()
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in (TABLE, *more):
                connection.execute(statement.encode())
            connection.execute(FILL.replace("{rows}", str(rows)).encode())
            connection.execute("VACUUM ANALYZE events")
        return dsn

    def _folder(self) -> Path:
        self._number += 1
        folder = self.root / f"run{self._number}"
        folder.mkdir()
        return folder

    def headwater(self, dsn: str, *, by_tx: bool) -> float:
        """Seconds to take in the whole table."""
        folder = self._folder()
        source: dict[str, Any] = {"type": "postgres_events", "dsn": dsn, "table": "public.events"}
        if by_tx:
            source["columns"] = {"transaction": COLUMN}
        told = {"name": "bench", "sources": {"store": source}, "topics": {"events": {"from": "store"}}}
        (folder / "headwater.yml").write_text(json.dumps(told))
        with Lake.open(folder) as lake:
            if by_tx:
                lake.prepare_source("store", run=True)
            _ = lake.spark
            begun = time.perf_counter()
            [report] = lake.run(once=True)
            seconds = time.perf_counter() - begun
            if report.error is not None:
                raise report.error
            shutil.rmtree(folder / "lake")
            return seconds

    def by_hand(self, spark: Any, dsn: str) -> float:
        """What a careful person writes: bounds, a partition a core, the same columns, one append."""
        from pyspark.sql import functions as F

        folder = self._folder()
        spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
        begun = time.perf_counter()
        options = {"user": "headwater", "password": "hidden", "driver": "org.postgresql.Driver", "fetchsize": "10000"}
        address = "jdbc:postgresql://" + dsn.split("@", 1)[1]
        with psycopg.connect(dsn) as connection:
            row = connection.execute("SELECT min(global_position), max(global_position) FROM events").fetchone()
        assert row is not None
        query = "(SELECT global_position, event_id::text, event_type, stream_id, version, data::text, metadata::text,"
        query += " metadata ->> 'tenant_id' AS tenant_id, created_at FROM events) e"
        cores = spark.sparkContext.defaultParallelism
        read = spark.read.jdbc(
            address, query, column="global_position", lowerBound=row[0], upperBound=row[1], numPartitions=cores,
            properties=options,
        )  # fmt: skip
        parsed = read.withColumn(
            "e", F.from_json("data", PAYLOAD + ", _corrupt string", {"columnNameOfCorruptRecord": "_corrupt"})
        )
        rows = parsed.select(
            "event_id",
            "event_type",
            F.col("created_at").alias("event_timestamp"),
            F.col("stream_id").alias("aggregate_id"),
            "tenant_id",
            F.col("version").cast("bigint").alias("event_version"),
            "e.customer_id", "e.amount", "e.currency", "e.city", "e.lines",
            F.to_date("created_at").alias("event_date"),
            F.lit("store").alias("_source"),
            F.lpad(F.col("global_position").cast("string"), 20, "0").alias("_position"),
            F.col("metadata").alias("_metadata"),
            F.current_timestamp().alias("_ingested_at"),
            F.col("version").cast("string").alias("_version"),
            F.col("e._corrupt").alias("_corrupt"),
        )  # fmt: skip
        rows.write.format("delta").save(str(folder / "table"))
        seconds = time.perf_counter() - begun
        shutil.rmtree(folder)
        return seconds

    def dlt(self, python: Path, dsn: str) -> float:
        folder = self._folder()
        command = [str(python), "-c", DLT_SCRIPT, dsn.replace("postgresql:", "postgresql+psycopg2:"), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        shutil.rmtree(folder)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return float(done.stdout.strip().splitlines()[-1])


def dlt_python() -> Path | None:
    """A Python with dlt, or None where there is none to be had."""
    folder = Path.home() / ".cache" / "headwater" / "bench-dlt"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, clear=True, with_pip=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", *DLT], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"without dlt: {done.stderr.strip().splitlines()[-1]}", flush=True)
            return None
        (folder / "ready").touch()
    return python


def backlog(bench: Bench, repeats: int, *, with_dlt: bool) -> None:
    session = bench.root / "session"
    session.mkdir()
    told = {"name": "session", "sources": {"store": {"type": "postgres_events", "dsn": bench.dsn, "table": "events"}},
            "topics": {"events": {"from": "store"}}}  # fmt: skip
    (session / "headwater.yml").write_text(json.dumps(told))
    python = dlt_python() if with_dlt else None
    found: dict[str, list[float]] = {"by hand": [], "headwater, by gaps": []}
    found |= {"dlt": []} if python is not None else {}
    found |= {HAND_AGAIN: [], "headwater, by transactions": []}
    with Lake.open(session) as lake:
        spark = lake.spark
        for _ in range(2):
            bench.headwater(bench.warm, by_tx=False)
            bench.by_hand(spark, bench.warm)
        for _ in range(repeats):
            found["by hand"].append(bench.by_hand(spark, bench.dsn))
            found["headwater, by gaps"].append(bench.headwater(bench.dsn, by_tx=False))
            if python is not None:
                found["dlt"].append(bench.dlt(python, bench.dsn))
        bench.headwater(bench.warm, by_tx=True)
        with_column = bench.with_column()
        for _ in range(repeats):
            found[HAND_AGAIN].append(bench.by_hand(spark, with_column))
            found["headwater, by transactions"].append(bench.headwater(with_column, by_tx=True))
    hand = statistics.median(found["by hand"])
    for name, seconds in found.items():
        hand = statistics.median(found[HAND_AGAIN]) if name == HAND_AGAIN else hand
        middle = statistics.median(seconds)
        rates = ", ".join(f"{bench.rows / one:,.0f}" for one in seconds)
        print(f"{name}: {bench.rows / middle:,.0f} events/s, {hand / middle:.2f} of by hand  ({rates})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--without-dlt", action="store_true")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        with server() as postgres:
            backlog(Bench(root, postgres, given.rows), given.repeats, with_dlt=not given.without_dlt)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
