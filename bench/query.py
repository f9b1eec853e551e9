"""Queries over the lake: columnar against row by row, the fast engine against DuckDB alone, and a cold command.

    .venv/bin/python bench/query.py                   # everything, with 10 million events
    .venv/bin/python bench/query.py --rows 200000     # the same, small
    .venv/bin/python bench/query.py --no-spark        # without Spark's figures

One run, one machine: every figure of a line is measured in the same minute, alternating.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
from deltalake import write_deltalake

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.query.engines import Engine
from headwater.warehouse import Warehouse

FILTERED = (
    "SELECT event_type, count(*) AS n, sum(amount) AS total, max(customer_id) AS last FROM {events} "
    "WHERE event_type IN ('OrderPlaced', 'PaymentProcessed') AND amount > 90 AND event_date >= DATE '2024-01-15' "
    "GROUP BY event_type"
)
POINT = "SELECT total, n FROM {view} WHERE hour = TIMESTAMP '2024-01-03 05:00:00' AND product_id = 77"
SMALL_GROUP = (
    "SELECT product_id, sum(total) AS total, sum(n) AS n FROM {view} WHERE product_id < 20 GROUP BY product_id"
)
TYPES = (
    "event_id string, event_type string, event_date date, customer_id bigint, amount double, currency string, "
    "city string"
)
DAYS = 30
CHUNK = 1_000_000


VIEW = (
    "SELECT CAST(event_date AS TIMESTAMP) AS hour, customer_id AS product_id, "
    "CAST(sum(amount) AS DECIMAL(12,2)) AS total, count(*) AS n FROM topic('events') GROUP BY 1, 2"
)


class Bench:
    """A lake with a topic of events and a view of 72,000 sums, both written without a JVM; and the JSON lines."""

    def __init__(self, root: Path, rows: int) -> None:
        self.root = root
        self.rows = rows
        (root / "headwater.yml").write_text(
            "name: bench\nsources: {api: {type: append}}\n"
            "topics: {events: {from: api, partition_by: [event_date]}}\n"
            f'views: {{hourly: {{sql: "{VIEW}"}}}}\n'
        )
        self.lake = Lake.open(root)
        self.warehouse: Warehouse = self.lake._warehouse
        self.lines = root / "lines"
        self.lines.mkdir()
        self._fill()

    def _fill(self) -> None:
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        events = str(self.warehouse.address(Kind.TOPIC, "events").path)
        for start in range(0, self.rows, CHUNK):
            end = min(self.rows, start + CHUNK)
            made = f"""
                SELECT 'e-' || lpad(i::VARCHAR, 12, '0') AS event_id,
                       ['OrderPlaced', 'OrderShipped', 'PaymentProcessed'][(i % 3 + 1)::INT] AS event_type,
                       DATE '2024-01-01' + (i * {DAYS} // {self.rows})::INT AS event_date,
                       i % 100000 AS customer_id, round((i * 7919 % 10000) / 100, 2) AS amount,
                       'EUR' AS currency, 'Frankfurt am Main' AS city
                FROM range({start}, {end}) t(i)
            """
            rows: pa.Table = connection.sql(made).to_arrow_table()
            write_deltalake(events, rows, mode="append", partition_by=["event_date"])
            connection.execute(f"COPY ({made}) TO '{self.lines}/{start:09d}.json' (FORMAT JSON)")
        hourly = connection.sql(
            f"""SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (h) HOUR AS hour, p AS product_id,
                       (h * p % 1000)::DECIMAL(12,2) AS total, h + p AS n
                FROM range({DAYS * 24}) a(h), range(100) b(p)"""
        ).to_arrow_table()
        write_deltalake(str(self.warehouse.address(Kind.VIEW, "hourly").path), hourly)
        self.warehouse.remember(Kind.TOPIC, "events")
        self.warehouse.remember(Kind.VIEW, "hourly")
        connection.close()

    def files(self, kind: Kind, name: str) -> str:
        found = sorted(Path(str(self.warehouse.address(kind, name).path)).rglob("*.parquet"))
        return "[" + ", ".join(f"'{path}'" for path in found) + "]"

    def asked(self, sql: str, engine: Engine) -> Callable[[], object]:
        return lambda: self.lake.sql(sql, engine=engine).rows()


def timed(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each, one after the other in turn; a first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for n in range(repeats + 1):
        for name, run in sides.items():
            begun = time.perf_counter()
            run()
            if n:
                seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(each) * 1000 for name, each in seconds.items()}


def columnar(bench: Bench, repeats: int, spark: bool) -> None:
    """A filtered aggregate over the topic, against the same events as JSON lines in the same engine."""
    alone = duckdb.connect()
    columns = ", ".join(
        f"{name}: '{ {'string': 'VARCHAR'}.get(kind, kind.upper()) }'"
        for name, kind in map(str.split, TYPES.split(", "))
    )
    rows = FILTERED.format(
        events=f"read_json('{bench.lines}/*.json', format = 'newline_delimited', columns = {{{columns}}})"
    )
    sides: dict[str, Callable[[], object]] = {
        "duckdb, topic": bench.asked(FILTERED.format(events="topic('events')"), "duckdb"),
        "duckdb, JSON lines": lambda: alone.execute(rows).fetchall(),
    }
    if spark:
        session = bench.lake.spark
        session.read.schema(TYPES).json(str(bench.lines)).createOrReplaceTempView("lines")
        sides["spark, topic"] = bench.asked(FILTERED.format(events="topic('events')"), "spark")
        sides["spark, JSON lines"] = lambda: session.sql(FILTERED.format(events="lines")).collect()
    found = timed(sides, repeats)
    for engine in ("duckdb", "spark") if spark else ("duckdb",):
        fast, slow = found[f"{engine}, topic"], found[f"{engine}, JSON lines"]
        print(f"filtered aggregate, {bench.rows:,} events, {engine}: topic {fast:,.0f} ms, "
              f"JSON lines {slow:,.0f} ms: {slow / fast:.1f} times", flush=True)  # fmt: skip
    if spark:
        print(f"  overall: {found['spark, JSON lines'] / found['duckdb, topic']:.1f} times", flush=True)


def small(bench: Bench, repeats: int, spark: bool) -> None:
    """A point look-up and a small group-by, warm: against DuckDB alone on the same files."""
    alone = duckdb.connect()
    alone.execute("SET TimeZone = 'UTC'")
    files = f"read_parquet({bench.files(Kind.VIEW, 'hourly')})"
    for name, query in (("point look-up", POINT), ("small group-by", SMALL_GROUP)):
        direct = query.format(view=files).replace("TIMESTAMP '", "TIMESTAMPTZ '")
        sides: dict[str, Callable[[], object]] = {
            "headwater": bench.asked(query.format(view="mv('hourly')"), "duckdb"),
            "duckdb alone": lambda direct=direct: alone.execute(direct).fetchall(),  # type: ignore[misc]
        }
        found = timed(sides, repeats * 20)
        told = f"{name}: p50 {found['headwater']:.1f} ms, DuckDB alone {found['duckdb alone']:.1f} ms"
        told += f": {found['headwater'] / found['duckdb alone']:.2f} times"
        if spark:
            slow = timed({"spark": bench.asked(query.format(view="mv('hourly')"), "spark")}, repeats)["spark"]
            told += f"; Spark {slow:,.0f} ms"
        print(told, flush=True)


def large(bench: Bench, repeats: int) -> None:
    """The filtered aggregate over the topic, against DuckDB alone on the same files."""
    alone = duckdb.connect()
    source = f"read_parquet({bench.files(Kind.TOPIC, 'events')}, hive_partitioning = true)"
    found = timed(
        {
            "headwater": bench.asked(FILTERED.format(events="topic('events')"), "duckdb"),
            "duckdb alone": lambda: alone.execute(FILTERED.format(events=source)).fetchall(),
        },
        repeats,
    )
    print(f"filtered aggregate: {found['headwater']:.0f} ms, DuckDB alone {found['duckdb alone']:.0f} ms: "
          f"{found['headwater'] / found['duckdb alone']:.2f} times", flush=True)  # fmt: skip


def cold(bench: Bench, repeats: int, spark: bool) -> None:
    """`headwater query` from a cold shell, with the bytecode that an installed package has."""
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(bench.root / "bytecode")}
    command = [str(Path(sys.executable).with_name("headwater")), "query", "--project", str(bench.root)]
    for engine in ("auto", "spark") if spark else ("auto",):
        taken, java = [], False
        for number in range(1 + (repeats if engine == "auto" else 1)):
            begun = time.perf_counter()
            process = subprocess.Popen(
                [*command, POINT.format(view="mv('hourly')"), "--engine", engine, "--output", "ndjson"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **bytecode},
            )  # fmt: skip
            seen = Watch(process.pid)
            process.communicate()
            if number:  # the first one compiles
                taken.append(time.perf_counter() - begun)
            java = seen.ended() or java
            if process.returncode:
                raise SystemExit(f"headwater query failed with {process.returncode}")
        what = "a JVM was started" if java else "no JVM"
        print(f"cold headwater query, engine {engine}: {statistics.median(taken):.2f} s, {what}", flush=True)


class Watch:
    """Whether a process has a JVM among its children."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._found = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ending.wait(0.05):
            try:
                children = psutil.Process(self._pid).children(recursive=True)
                self._found = self._found or any("java" in child.name() for child in children)
            except psutil.Error:
                return

    def ended(self) -> bool:
        self._ending.set()
        self._thread.join()
        return self._found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-spark", action="store_true")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        bench = Bench(root, given.rows)
        cold(bench, given.repeats, not given.no_spark)
        small(bench, given.repeats, not given.no_spark)
        large(bench, given.repeats)
        columnar(bench, given.repeats, not given.no_spark)
        bench.lake.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
