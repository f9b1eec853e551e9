"""Random changes to three tables by concurrent writers, and what their topics make of them."""

from __future__ import annotations

import random
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg

from headwater.api.lake import Lake
from tests.sources.cdc_lab import applied

TABLES = ("public.customers", "public.lines", "public.visits")
SETUP = """
    CREATE TABLE customers (id int PRIMARY KEY, name text, balance numeric(12,2), note text, at timestamptz);
    ALTER TABLE customers ALTER note SET STORAGE EXTERNAL;
    CREATE TABLE lines (order_id int, line int, sku text, amount numeric(12,2), PRIMARY KEY (order_id, line));
    ALTER TABLE lines REPLICA IDENTITY FULL;
    CREATE TABLE visits (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
    CREATE TABLE visits_low PARTITION OF visits FOR VALUES FROM (0) TO (50);
    CREATE TABLE visits_high PARTITION OF visits FOR VALUES FROM (50) TO (1000);
    INSERT INTO customers SELECT n, 'first ' || n, n, repeat('x', 3000), now() FROM generate_series(1, 20) n;
    INSERT INTO lines SELECT n, 1, 'sku', n FROM generate_series(1, 20) n;
    INSERT INTO visits SELECT n * 10, n FROM generate_series(0, 9) n;
"""
_COLUMNS = {
    "customers": "id, name, balance, note, (extract(epoch FROM at) * 1000000)::int8",
    "lines": "order_id, line, sku, amount",
    "visits": "id, n",
}


def statement(rng: random.Random) -> str:
    """One random change; it may hit no row, or a key that is taken."""
    id, other, n = rng.randint(1, 40), rng.randint(1, 40), rng.randint(0, 10**6)
    long = f"repeat('{n}', {rng.choice([1, 700])})"
    choices = [
        f"INSERT INTO customers VALUES ({id}, 'c{n}', {n}.25, {long}, now())",
        f"UPDATE customers SET balance = balance + 1 WHERE id = {id}",
        f"UPDATE customers SET name = 'u{n}', note = {long} WHERE id = {id}",
        f"UPDATE customers SET id = {other} WHERE id = {id}",
        f"DELETE FROM customers WHERE id = {id}",
        f"INSERT INTO lines VALUES ({id}, {n % 3}, 's{n}', {n}.5)",
        f"UPDATE lines SET amount = amount * -1, order_id = {other} WHERE order_id = {id} AND line = {n % 3}",
        f"DELETE FROM lines WHERE order_id = {id}",
        f"INSERT INTO visits VALUES ({n % 100}, {n})",
        f"UPDATE visits SET id = {n % 100} WHERE id = {(n * 7) % 100}",
        f"UPDATE visits SET n = n + 1 WHERE id < {n % 100}",
    ]
    return "TRUNCATE visits" if rng.random() < 0.01 else rng.choice(choices)


def transaction(connection: psycopg.Connection[Any], rng: random.Random) -> None:
    """A few changes, some in savepoints that are rolled back, and now and then all of them."""
    with connection.transaction() as whole:
        for _ in range(rng.randint(1, 6)):
            try:
                with connection.transaction() as part:
                    connection.execute(statement(rng))  # type: ignore[call-overload]
                    if rng.random() < 0.15:
                        raise psycopg.Rollback(part)
            except psycopg.errors.UniqueViolation:
                pass
            if rng.random() < 0.1:
                time.sleep(rng.random() / 20)
        if rng.random() < 0.15:
            raise psycopg.Rollback(whole)


class Writers:
    """Threads that change the tables until told to stop; a server that goes away is waited for."""

    def __init__(self, dsn: str, seed: int, number: int = 3, pause: float = 0.01) -> None:
        self._dsn = dsn
        self._over = threading.Event()
        self._pause = pause
        self._threads = [threading.Thread(target=self._write, args=(seed + n,), daemon=True) for n in range(number)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def _write(self, seed: int) -> None:
        rng = random.Random(seed)
        while not self._over.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True) as connection:
                    while not self._over.wait(self._pause):
                        try:
                            transaction(connection, rng)
                        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                            pass
            except psycopg.OperationalError:
                time.sleep(0.1)


def expected(dsn: str) -> dict[str, list[tuple[Any, ...]]]:
    """The tables as they are."""
    with psycopg.connect(dsn) as connection:
        return {
            table: sorted(connection.execute(f"SELECT {columns} FROM {table}").fetchall())  # type: ignore[call-overload]
            for table, columns in _COLUMNS.items()
        }


def found(lake: Lake, topic: str, table: str) -> list[tuple[Any, ...]]:
    """A table as its topic tells it."""
    rows = [row.asDict(recursive=True) for row in lake.topic(topic).df().collect()]
    positions = [row["_position"] for row in rows]
    assert len(set(positions)) == len(positions), f"{topic}: a change came twice"
    key = ("order_id", "line") if table == "lines" else ("id",)
    state = applied(rows, lambda row: tuple(row[name] for name in key))
    return sorted(tuple(map(_plain, row.values())) for row in state.values())


def _plain(value: Any) -> Any:
    """Times as microseconds: Spark's are UTC, and don't say so."""
    if not isinstance(value, datetime):
        return value
    return (value.replace(tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
