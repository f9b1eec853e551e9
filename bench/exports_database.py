"""Exports to Postgres alongside what people write by hand: `df.write.jdbc`, and a staged table with a MERGE.

    .venv/bin/python bench/exports_database.py --rows 500000 --repeats 3

Both sides run in one Spark, in turns, from the same Parquet files into the same server, with the same columns. `first`
is a snapshot without a key, by hand `df.write.jdbc`, plain and with rewritten batches; `again` updates half of the rows
and adds a tenth, by hand through a staged table (`df.write.jdbc`) and `MERGE`. What Headwater does includes its
position, and reading back where that is said.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame, SparkSession
from tests.exports.databases import database
from tests.services.postgres import Server, server

from headwater.core.model import CommitTag
from headwater.core.spec import Export, SparkSpec
from headwater.exports.checksum import measured_on_the_way
from headwater.exports.read_back import read_back
from headwater.formats.base import LakeContext
from headwater.spark.session import SessionNeeds, close_session, open_session
from headwater.targets.base import Destination, ExportTarget, SourceState
from headwater.targets.registry import TARGETS

COLUMNS = (
    "id",
    "concat('customer ', id % 100000) AS customer",
    "CAST(id * 7919 % 100000 / 100.0 AS decimal(12,2)) AS amount",
    "timestamp_micros(1700000000000000 + id * 1000003) AS at",
    "id % 3 = 0 AS paid",
    "id % 50 AS quantity",
    "rand(7) AS ratio",
)
MERGE = """
MERGE INTO {table} t USING staged s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET customer = s.customer, amount = s.amount, at = s.at, paid = s.paid, quantity = s.quantity,
  ratio = s.ratio
WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.customer, s.amount, s.at, s.paid, s.quantity, s.ratio)
"""


class Bench:
    """One Spark, one server, and both sides."""

    def __init__(self, root: Path, postgres: Server, rows: int) -> None:
        self.root, self.rows = root, rows
        self.dsn = postgres.database()
        needs = [SessionNeeds(connectors=("postgres",))]
        self.spark: SparkSession = open_session("bench", needs, SparkSpec(master="local[2]"), home=root)
        self.first = self._saved("first", self.spark.range(rows))
        newer = self.spark.range(rows // 2, rows + rows // 10)
        self.again = self._saved("again", newer)
        self._number = 0

    def _saved(self, name: str, ids: DataFrame) -> DataFrame:
        path = str(self.root / name)
        ids.selectExpr(*COLUMNS).write.parquet(path)
        return self.spark.read.parquet(path)

    def options(self, **more: str) -> dict[str, str]:
        info = psycopg.conninfo.conninfo_to_dict(self.dsn)
        url = f"jdbc:postgresql://{info['host']}:{info['port']}/{info['dbname']}"
        login = {"user": str(info["user"]), "password": str(info["password"]), "driver": "org.postgresql.Driver"}
        return {"url": url, **login, **more}

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def target(self, table: str, **keys: Any) -> ExportTarget:
        given = {"from": "table('orders')", "format": "postgres", "to": f"postgresql://crm/public.{table}", **keys}
        definition = Export.model_validate(given)
        context = LakeContext(warehouse=str(self.root / "warehouse"), home=str(self.root))
        kind = TARGETS.get("postgres")
        return kind.open(Destination(definition, context, self.spark, definition.to, database(self.dsn)))

    def table(self) -> str:
        self._number += 1
        return f"orders_{self._number}"

    # --- the sides, each in seconds

    def snapshot(self, *, verify: bool) -> float:
        target, source = self.target(self.table()), SourceState("tables.orders", {}, "run")
        begun = time.perf_counter()
        rows, told = target.prepared(self.first), None
        if verify:
            rows, told = measured_on_the_way(rows)
        written = target.stage(rows, source)
        if told is not None:
            read_back(target.readers(), rows.schema, told(), "here")
        target.publish(written, source, None)
        took = time.perf_counter() - begun
        target.close()
        return took

    def by_hand(self, **more: str) -> float:
        begun = time.perf_counter()
        options = self.options(dbtable=self.table(), **more)
        self.first.write.format("jdbc").options(**options).mode("append").save()
        return time.perf_counter() - begun

    def step(self) -> float:
        target = self.target(self.table(), primary_key=["id"])
        target.apply(self.first, CommitTag("exports.orders", 1, 0, {}), first=True)
        change = self.again.selectExpr("*", "false AS _deleted")
        begun = time.perf_counter()
        target.apply(change, CommitTag("exports.orders", 1, 1, {}), first=False)
        took = time.perf_counter() - begun
        target.close()
        return took

    def merge_by_hand(self, **more: str) -> float:
        table = self.table()
        self.first.write.format("jdbc").options(**self.options(dbtable=table, **more)).mode("append").save()
        self.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
        begun = time.perf_counter()
        options = self.options(dbtable="staged", **more)
        self.again.write.format("jdbc").options(**options).mode("append").save()
        self.execute(MERGE.format(table=table))
        self.execute("DROP TABLE staged")
        return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        with server() as postgres:
            bench = Bench(root, postgres, given.rows)
            run(bench, given.repeats)
            close_session(bench.spark)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run(bench: Bench, repeats: int) -> None:
    rewritten = {"reWriteBatchedInserts": "true"}
    sides: dict[str, Callable[[], float]] = {
        "first: headwater": lambda: bench.snapshot(verify=False),
        "first: headwater, read back": lambda: bench.snapshot(verify=True),
        "first: df.write.jdbc": bench.by_hand,
        "first: df.write.jdbc, rewritten batches": lambda: bench.by_hand(**rewritten),
        "again: headwater": bench.step,
        "again: staged MERGE": bench.merge_by_hand,
        "again: staged MERGE, rewritten batches": lambda: bench.merge_by_hand(**rewritten),
    }
    for side in sides.values():
        side()  # Java warms up
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            found[name].append(side())
    medians = {name: statistics.median(times) for name, times in found.items()}
    for name, seconds in medians.items():
        rows = bench.rows if name.startswith("first") else int(bench.rows * 0.6)
        print(f"{name:45} {seconds:7.2f} s {rows / seconds:10,.0f} rows/s")
    first, again = medians["first: headwater"], medians["again: headwater"]
    for name, seconds in medians.items():
        if "headwater" not in name:
            print(f"{name:45} headwater is {seconds / (first if name.startswith('first') else again):.2f} x as fast")


if __name__ == "__main__":
    main()
