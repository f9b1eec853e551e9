"""Changes of a Postgres table into Delta: how many a second are sustained, and whether memory stays flat.

    .venv/bin/python bench/postgres_cdc.py --changes 500000

Writers change a table all the while; the topic is read until it has all of it. Then the same number of changes as one
transaction. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.services.postgres import server

from headwater.api.lake import Lake

ROWS = 100_000
PER_TRANSACTION = 500


class Held:
    """Megabytes that this process holds, without its JVM, sampled four times a second."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._over.wait(0.25):
            self.samples.append(me.memory_info().rss / 1e6)

    def end(self) -> dict[str, float]:
        self._over.set()
        self._thread.join()
        early = self.samples[len(self.samples) // 5 : 2 * len(self.samples) // 5] or self.samples
        late = self.samples[-len(early) :]
        return {
            "peak_mb": round(max(self.samples)),
            "early_mb": round(sum(early) / len(early)),
            "late_mb": round(sum(late) / len(late)),
        }


def write(dsn: str, changes: int, per_transaction: int) -> float:
    """Update rows; seconds that it took."""
    begun = time.monotonic()
    with psycopg.connect(dsn) as connection:
        for at in range(0, changes, per_transaction):
            first = at % ROWS
            connection.execute(
                "UPDATE items SET amount = amount + 1, at = now() WHERE id > %s AND id <= %s",
                [first, first + per_transaction],
            )
            connection.commit()
    return time.monotonic() - begun


def sustained(dsn: str, lake: Lake, changes: int) -> dict[str, Any]:
    """Writers and runner at the same time, until the topic has everything."""
    begun_with = lake.topic("items_log").df().count()
    stopping, held = threading.Event(), Held()
    rows = 0

    def count(event: Any) -> None:
        nonlocal rows
        if event.event == "step":
            rows += event.details["rows"] or 0
            if rows >= changes:
                stopping.set()

    begun = time.monotonic()
    writing: list[float] = []
    writer = threading.Thread(target=lambda: writing.append(write(dsn, changes, PER_TRANSACTION)))
    writer.start()
    lake.run(on_event=count, stopping=stopping)
    seconds = time.monotonic() - begun
    writer.join()
    assert lake.topic("items_log").df().count() == begun_with + changes
    told = {"changes": changes, "seconds": round(seconds, 1), "written_in": round(writing[0], 1)}
    return {**told, "changes_per_second": round(changes / seconds), **held.end()}


def at_once(dsn: str, lake: Lake, changes: int) -> dict[str, Any]:
    """One transaction of all rows, and as many of them as it takes."""
    with psycopg.connect(dsn) as connection:
        for _ in range(max(1, changes // ROWS)):
            connection.execute("UPDATE items SET amount = amount + 1")
    total = max(1, changes // ROWS) * ROWS
    held, begun = Held(), time.monotonic()
    (report,) = lake.run(once=True)
    seconds = time.monotonic() - begun
    assert report.error is None and report.rows == total
    told = {"changes": total, "seconds": round(seconds, 1), "steps": report.steps}
    return {**told, "changes_per_second": round(total / seconds), **held.end()}


def main(changes: int) -> dict[str, Any]:
    with server() as postgres, tempfile.TemporaryDirectory() as folder:
        dsn = postgres.database()
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "CREATE TABLE items (id int PRIMARY KEY, name text, amount numeric(12,2), at timestamptz)"
            )
            connection.execute(
                "INSERT INTO items SELECT n, 'item ' || n, n, now() FROM generate_series(1, %s) n", [ROWS]
            )
        source = {"type": "postgres_cdc", "dsn": dsn, "tables": ["public.items"]}
        project = {"name": "bench", "sources": {"crm": source}, "topics": {"items_log": {"from": "crm"}}}
        Path(folder, "headwater.yml").write_text(yaml.safe_dump(project))
        with Lake.open(folder) as lake:
            begun = time.monotonic()
            (report,) = lake.run(once=True)
            assert report.error is None and report.rows == ROWS, report
            snapshot = {"rows": ROWS, "seconds": round(time.monotonic() - begun, 1)}
            return {
                "snapshot": snapshot,
                "sustained": sustained(dsn, lake, changes),
                "one_transaction": at_once(dsn, lake, changes),
            }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=500_000)
    print(json.dumps(main(parser.parse_args().changes), indent=2))
