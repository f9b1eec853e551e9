"""A lake that is left alone: steady ingest, a table, views and maintenance in a `headwater run`, for minutes or hours.

    make soak                                   # MINUTES=5
    make soak MINUTES=180 SOAK="--format iceberg"
    .venv/bin/python bench/soak.py --minutes 5 [--rows 200] [--no-maintenance] [--keep DIR] [--json]

A file of events lands every second. What is asked of the lake at the end: the files that are read stay few, the memory
of the runner and its JVM is flat, the time from a landed file to its rows is flat (median of the last fifth against
that of the first), and every row is there once, in the topic, the table and the views, by a computation beside it.
Times come from `system.steps`. Exit 1 if any of it is not so. What is before every flow's first commit, and `--warm`
seconds more, is left out of the figures: Java is being compiled, and what landed meanwhile is a backlog.
"""

from __future__ import annotations

import argparse
import bisect
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import psutil

from headwater.api.lake import Lake
from headwater.core.errors import HeadwaterError

PROJECT = """\
name: soak
format: {format}
maintenance: {maintenance}
sources: {{landing: {{type: files, path: ./landing, schema: "event_id string, customer bigint, amount bigint"}}}}
topics: {{events: {{from: landing, flush_interval: 1s}}}}
tables: {{latest: {{from: topic('events'), apply: {{keys: [customer], sequence_by: _position}}}}}}
views:
  totals:
    sql: SELECT customer % 50 AS region, count(*) AS n, sum(amount) AS total FROM topic('events') GROUP BY 1
    refresh: {{mode: immediate, policy: incremental}}
  large:
    sql: SELECT event_id, customer, amount FROM topic('events') WHERE amount >= {large}
    refresh: {{mode: immediate, policy: incremental}}
"""
COMMAND = [sys.executable, "-c", "from headwater.cli.main import main; main()"]
CUSTOMERS = 500
LARGE = 900
RELATIONS = ("topics.events", "tables.latest", "views.totals", "views.large")
FLAT = 1.2
"""How much slower the last fifth may be than the first."""
GROWN = 1.3
"""How much more memory, and how many more files, the last fifth may have than the middle one."""


@dataclass
class Sample:
    """The runner at one moment."""

    at: float
    python: int
    java: int
    files: dict[str, int]
    """That are read, by relation."""


@dataclass
class Check:
    """One thing that is asked of the lake."""

    what: str
    holds: bool
    told: str


@dataclass
class Soak:
    """A project, what feeds it, and what was seen meanwhile."""

    root: Path
    rows: int
    landed: list[float] = field(default_factory=list)
    """When each file landed."""
    samples: list[Sample] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def events(self, number: int) -> Iterator[dict[str, object]]:
        for at in range(number * self.rows, (number + 1) * self.rows):
            yield {"event_id": f"e{at}", "customer": at * 7919 % CUSTOMERS, "amount": _amount(at)}

    def land(self, number: int) -> None:
        part = self.root / "part"
        part.write_text("".join(json.dumps(event) + "\n" for event in self.events(number)), encoding="utf-8")
        self.landed.append(time.time())
        part.rename(self.root / "landing" / f"{number:08d}.json")

    def feed(self, seconds: float) -> None:
        """A file every second."""
        begun = time.monotonic()
        for number in range(round(seconds)):
            self.land(number)
            time.sleep(max(0.0, begun + number + 1 - time.monotonic()))

    def watch(self, runner: psutil.Process, every: float) -> None:
        """Sample memory and files, in a thread of its own."""
        with Lake.look(self.root) as lake:
            while not self._stopping.wait(every):
                python, java = _memory(runner)
                self.samples.append(Sample(time.time(), python, java, {name: _files(lake, name) for name in RELATIONS}))

    def run(self, minutes: float) -> int:
        """The whole of it; how the runner ended."""
        with (self.root / "run.out").open("wb") as out, (self.root / "run.err").open("wb") as err:
            runner = subprocess.Popen([*COMMAND, "run", "--json", "--project", str(self.root)], stdout=out, stderr=err)
            watching = threading.Thread(
                target=self.watch, args=(psutil.Process(runner.pid), max(2.0, minutes * 60 / 300)), daemon=True
            )
            watching.start()
            try:
                self.feed(minutes * 60)
                self._settle(runner)
            finally:
                self._stopping.set()
                watching.join()
                runner.send_signal(signal.SIGINT)
                try:
                    code = runner.wait(120)
                except subprocess.TimeoutExpired:
                    runner.kill()
                    code = runner.wait()
            return code

    def _settle(self, runner: subprocess.Popen[bytes]) -> None:
        """Until all rows have come through, or nothing moves any more."""
        total, seen, moved = len(self.landed) * self.rows, -1, time.monotonic()
        large = sum(1 for at in range(total) if _amount(at) >= LARGE)
        last = sum(range(max(0, total - CUSTOMERS), total))  # each customer's last event is among those
        wanted = [total, total, large, last]
        counts = [
            ("topic('events')", "count(*)"),
            ("mv('totals')", "sum(n)"),
            ("mv('large')", "count(*)"),
            ("table('latest')", "sum(cast(substr(event_id, 2) AS bigint))"),
        ]
        while runner.poll() is None and time.monotonic() - moved < 300:
            now = [self._count(*one) for one in counts]
            if now == wanted:
                return
            if sum(now) != seen:
                seen, moved = sum(now), time.monotonic()
            time.sleep(1)

    def _count(self, relation: str, what: str) -> int:
        try:
            with Lake.look(self.root) as lake:
                return int(lake.sql(f"SELECT {what} AS n FROM {relation}", engine="duckdb").to_dicts()[0]["n"] or 0)
        except HeadwaterError:
            return 0  # not made yet, or read at the very moment of its change


def _amount(at: int) -> int:
    return at * 31 % 1000


def _memory(runner: psutil.Process) -> tuple[int, int]:
    """Bytes of the runner's own processes, and of their JVMs."""
    python = java = 0
    for process in [runner, *runner.children(recursive=True)]:
        try:
            held = process.memory_info().rss
            if "java" in process.name():
                java += held
            else:
                python += held
        except psutil.Error:
            continue
    return python, java


def _files(lake: Lake, name: str) -> int:
    try:
        return len(lake.relation(name).files.list())
    except HeadwaterError:
        return 0  # not made yet


# --- what came of it


def latencies(soak: Soak, visible: Sequence[tuple[float, int]]) -> list[float]:
    """Seconds from each file that landed to its rows; `visible`: when how many rows were there."""
    counts = [rows for _, rows in visible]
    found = []
    for number, landed in enumerate(soak.landed):
        at = bisect.bisect_left(counts, (number + 1) * soak.rows)
        if at < len(visible):
            found.append(visible[at][0] - landed)
    return found


def visible_rows(lake: Lake) -> dict[str, list[tuple[float, int]]]:
    """For the topic and each view: when how many of the topic's rows were in it."""
    steps = lake.sql(
        "SELECT flow, committed_at, rows, version, to_positions FROM system.steps"
        " WHERE outcome = 'committed' ORDER BY id"
    ).to_dicts()
    topic: list[tuple[float, int]] = []
    rows_of: list[tuple[int, int]] = []
    total = 0
    for step in (one for one in steps if one["flow"] == "topics.events"):
        total += step["rows"]
        topic.append((_seconds(step["committed_at"]), total))
        rows_of.append((step["version"], total))
    found = {"topics.events": topic}
    versions = [version for version, _ in rows_of]
    for view in ("views.totals", "views.large"):
        found[view] = []
        for step in (one for one in steps if one["flow"] == view):
            read = json.loads(step["to_positions"])["topics.events"]
            at = bisect.bisect_right(versions, read["version"] if isinstance(read, dict) else int(read)) - 1
            if at >= 0:
                found[view].append((_seconds(step["committed_at"]), rows_of[at][1]))
    return found


def _seconds(at: object) -> float:
    assert isinstance(at, datetime)
    return at.timestamp()


def _fifth(values: Sequence[float], number: int) -> float:
    size = max(1, len(values) // 5)
    part = values[number * size : (number + 1) * size] if number < 4 else values[-size:]
    return statistics.median(part) if part else float("nan")


def checks(soak: Soak, code: int, warm: float) -> Iterator[Check]:
    """Everything that is asked."""
    yield Check("the runner ends well", code == 0, f"exit {code}")
    with Lake.look(soak.root) as lake:
        by_flow = visible_rows(lake)
        begun = max((visible[0][0] for visible in by_flow.values() if visible), default=time.time()) + warm
        skipped = bisect.bisect_left(soak.landed, begun)
        for flow, visible in by_flow.items():
            found = latencies(soak, visible)
            whole, found = len(found) == len(soak.landed), found[skipped:]
            if not found:
                yield Check(f"latency of {flow}", False, "too few files after that: let it run for longer")
                continue
            first, last = _fifth(found, 0), _fifth(found, 4)
            p95 = statistics.quantiles(found, n=20)[-1] if len(found) > 1 else found[0]
            told = f"p50 {first:.2f} → {last:.2f} s ({last / first:.2f} ×), p95 {p95:.2f} s"
            yield Check(f"latency of {flow} is flat", whole and last <= FLAT * first, told)
        failed = lake.sql("SELECT count(*) AS n FROM system.steps WHERE outcome = 'failed'").to_dicts()[0]["n"]
        yield Check("no step failed", failed == 0, f"{failed} failed")
        yield from _bounded(soak, begun)
        yield from _exact(soak, lake)
        done = lake.sql(
            "SELECT relation, action, count(*) AS n, sum(files_before) AS before, sum(files_after) AS after,"
            " sum(duration_ms) AS ms FROM system.maintenance GROUP BY relation, action ORDER BY relation, action"
        ).to_dicts()
        told = "; ".join(f"{r['relation']} {r['action']} {r['n']} × ({r['before']} → {r['after']} files)" for r in done)
        bad = lake.sql("SELECT count(*) AS n FROM system.maintenance WHERE error IS NOT NULL").to_dicts()[0]["n"]
        yield Check("maintenance", bad == 0, f"{told or 'none'}, {bad} with an error")


def _bounded(soak: Soak, begun: float) -> Iterator[Check]:
    samples = [one for one in soak.samples if begun <= one.at <= soak.landed[-1]]
    if len(samples) < 5:
        yield Check("memory and files", False, "too few samples: let it run for longer")
        return
    for name, values in (("Python", [one.python for one in samples]), ("Java", [one.java for one in samples])):
        middle, last = _fifth(values, 2), _fifth(values, 4)
        told = f"{_fifth(values, 0) / 2**20:.0f} → {middle / 2**20:.0f} → {last / 2**20:.0f} MiB"
        yield Check(f"memory of {name} is flat", last <= GROWN * middle, told)
    for name in RELATIONS:
        files = [one.files[name] for one in samples]
        middle, last = _fifth(files, 2), _fifth(files, 4)
        told = f"{_fifth(files, 0):.0f} → {middle:.0f} → {last:.0f}, {max(files)} at most"
        yield Check(f"files of {name} are bounded", last <= max(GROWN * middle, 24), told)


def _exact(soak: Soak, lake: Lake) -> Iterator[Check]:
    events = [event for number in range(len(soak.landed)) for event in soak.events(number)]
    found = lake.sql(
        "SELECT count(*) AS n, count(DISTINCT event_id) AS d, sum(amount) AS s FROM topic('events')"
    ).to_dicts()
    amounts = [int(str(event["amount"])) for event in events]
    expected = {"n": len(events), "d": len(events), "s": sum(amounts)}
    yield Check("every event is there once", found == [expected], f"{found[0]}")
    totals: dict[int, list[int]] = {}
    for event, amount in zip(events, amounts, strict=True):
        one = totals.setdefault(int(str(event["customer"])) % 50, [0, 0])
        one[0], one[1] = one[0] + 1, one[1] + amount
    kept = {row["region"]: [row["n"], row["total"]] for row in lake.sql("SELECT * FROM mv('totals')").to_dicts()}
    yield Check("the view of sums equals its query", kept == totals, f"{len(kept)} groups")
    large = {str(event["event_id"]) for event, amount in zip(events, amounts, strict=True) if amount >= LARGE}
    rows = [row["event_id"] for row in lake.sql("SELECT event_id FROM mv('large')").to_dicts()]
    yield Check(
        "the view of rows equals its query", len(rows) == len(large) and set(rows) == large, f"{len(rows)} rows"
    )
    latest = {event["customer"]: event["event_id"] for event in events}
    state = {row["customer"]: row["event_id"] for row in lake.sql("SELECT * FROM table('latest')").to_dicts()}
    yield Check("the table has the latest of each", state == latest, f"{len(state)} customers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rows", type=int, default=200, help="of each file, which lands every second")
    parser.add_argument("--format", default="delta", choices=["delta", "iceberg", "parquet"])
    parser.add_argument("--no-maintenance", action="store_true")
    parser.add_argument("--warm", type=float, default=30, help="seconds after the first commits that are not measured")
    parser.add_argument("--keep", type=Path, help="an empty folder for the lake, which stays")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    root = given.keep or Path(tempfile.mkdtemp(prefix="headwater-soak-"))
    (root / "landing").mkdir(parents=True)
    maintenance = "false" if given.no_maintenance else "{}"
    (root / "headwater.yml").write_text(
        PROJECT.format(format=given.format, maintenance=maintenance, large=LARGE), encoding="utf-8"
    )
    soak = Soak(root, given.rows)
    code = soak.run(given.minutes)
    found = list(checks(soak, code, given.warm))
    for one in found:
        line = json.dumps(asdict(one)) if given.json else f"{'ok ' if one.holds else 'NOT'}  {one.what}: {one.told}"
        print(line)
    if given.keep is None and all(one.holds for one in found):
        shutil.rmtree(root, ignore_errors=True)
    elif not given.json:
        print(f"the lake is at {root}")
    sys.exit(0 if all(one.holds for one in found) else 1)


if __name__ == "__main__":
    main()
