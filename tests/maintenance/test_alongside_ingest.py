"""A runner keeps a topic and its views, and looks after their files meanwhile; it is killed in the middle."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.core.model import Kind
from tests.maintenance.foreign import foreign_rows
from tests.maintenance.lab import ROWS, land
from tests.runtime.running import Running
from tests.support import COLD

pytestmark = pytest.mark.spark

PROJECT = """\
name: beside
format: FORMAT
spark: {master: 'local[2]', conf: COLD}
runtime: {lease: 5s}
maintenance: MAINTENANCE
sources:
  landing: {type: files, path: ./landing, schema: "n bigint, g string"}
topics:
  events: {from: landing, compact: {every: 1s, small_files: 4}, retain: {versions: 5s}}
views:
  sums:
    format: KEYED
    sql: SELECT g, count(*) AS k, sum(n) AS s FROM events GROUP BY g
    refresh: {policy: incremental}
    compact: {every: 1s, small_files: 4}
  odd:
    format: KEYED
    sql: SELECT n, g FROM topic('events') WHERE n % 2 = 1
    refresh: {policy: incremental}
    compact: {every: 1s, small_files: 4}
"""
FORMATS = [
    "delta",
    *(pytest.param(format, marks=pytest.mark.full) for format in ("iceberg", "hudi", "paimon", "parquet")),
]


class Feed:
    """Files that land one after another, until somebody has seen enough."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.landed = 0
        self._over = threading.Event()

    def _go(self) -> None:
        while not self._over.wait(0.2):
            land(self.root, self.landed)
            self.landed += 1

    @contextmanager
    def steadily(self) -> Iterator[None]:
        self._over.clear()
        thread = threading.Thread(target=self._go)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def make(root: Path, format: str, maintenance: str = "{}") -> Feed:
    (root / "landing").mkdir()
    keyed = "delta" if format == "parquet" else format  # plain Parquet is only added to
    text = (
        PROJECT.replace("FORMAT", format)
        .replace("KEYED", keyed)
        .replace("COLD", COLD)
        .replace("MAINTENANCE", maintenance)
    )
    (root / "headwater.yml").write_text(text, encoding="utf-8")
    return Feed(root)


def compacted(runner: Running, *, least: int = 1) -> bool:
    done = [one for one in runner.of("maintenance", "topics.events") if one["action"] == "compact"]
    return sum(one["outcome"] == "done" for one in done) >= least


def has_all(runner: Running, feed: Feed, before: int) -> bool:
    return sum(step["rows"] or 0 for step in runner.of("step", "topics.events")) >= (feed.landed - before) * ROWS


@pytest.mark.timeout(600)
@pytest.mark.parametrize("format", FORMATS)
def test_ingest_views_and_maintenance_with_a_kill_in_the_middle(
    tmp_path: Path, runners: list[Running], format: str, seed: int
) -> None:
    print(f"seed {seed}")
    feed, rng = make(tmp_path, format), random.Random(seed)
    first = Running(tmp_path)
    runners.append(first)
    with feed.steadily():
        first.until(lambda: compacted(first))
        time.sleep(rng.uniform(0, 2))  # where it is cut off is left to chance
        first.signal(signal.SIGKILL)
        first.process.wait()
    again = Running(tmp_path)
    runners.append(again)
    landed = feed.landed
    with feed.steadily():
        again.until(lambda: compacted(again, least=2))
    land(tmp_path, feed.landed)
    feed.landed += 1
    again.until(lambda: has_all(again, feed, landed))
    again.signal(signal.SIGTERM)
    again.process.wait(60)
    for runner in (first, again):
        failed = [one for one in runner.events if one["event"] in ("failed", "retry", "restart")]
        assert failed == [], "no step fails because of maintenance"
        bad = [one for one in runner.of("maintenance") if one["outcome"] != "done"]
        assert bad == []

    with Lake.open(tmp_path) as lake:
        reports = lake.run(once=True)
        assert [report.error for report in reports if report.error] == []
        wanted = list(range(feed.landed * ROWS))
        assert sorted(row["n"] for row in lake.topic("events").df().collect()) == wanted
        assert sorted(row["n"] for row in lake.view("odd").df().collect()) == [n for n in wanted if n % 2]
        assert foreign_rows(lake, Kind.TOPIC, "events") == wanted, "by the format's own library too"
        for name in ("sums", "odd"):
            assert lake.view(name).verify().equal, name
        steps = sum(len(runner.of("step", "topics.events")) for runner in (first, again))
        assert len(lake.topic("events").files.list()) < steps
        lake.maintain(["events"])
        assert lake.view("sums").refresh().refresh_type == "none", "a compaction brings a view nothing"


@pytest.mark.full
@pytest.mark.timeout(300)
def test_off_is_off_and_outside_of_the_window_nothing_begins(tmp_path: Path, runners: list[Running]) -> None:
    hour = time.gmtime().tm_hour
    window = f"{(hour + 8) % 24:02}:00-{(hour + 9) % 24:02}:00"
    feed = make(tmp_path, "delta", f'{{window: "{window}"}}')
    runner = Running(tmp_path)
    runners.append(runner)
    with feed.steadily():
        runner.until(lambda: len(runner.of("step", "topics.events")) >= 12)
    runner.until(lambda: has_all(runner, feed, 0))
    runner.signal(signal.SIGTERM)
    runner.process.wait(60)
    assert runner.of("maintenance") == []
