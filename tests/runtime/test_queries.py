"""A query can't take ingest down: Spark answers queries in a process of its own while a runner is up."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.runtime.running import COMMAND, PROJECT, Running, jvms, land
from tests.support import COLD

pytestmark = pytest.mark.spark

HUGE = (
    "SELECT size(collect_list(s)) AS n FROM "
    "(SELECT concat(repeat('a', 1000000), cast(id AS string)) AS s FROM range(20000))"
)
FOLDED = (
    "SELECT aggregate(sequence(1, 200000), 0L, (a, x) -> a + aggregate(sequence(1, 200000), 0L, (b, y) -> b + y % 7))"
)
"""Spark computes it while it plans, where there is no job that could be cancelled."""
LONG = "SELECT sum(id % 7) AS n FROM range(200000000)"
ENDLESS = "SELECT sum(id % 7) AS n FROM range(1000000000000)"


def command(root: Path, *arguments: str) -> list[str]:
    return [*COMMAND, *arguments, "--project", str(root)]


def query(root: Path, sql: str, *options: str) -> subprocess.CompletedProcess[str]:
    words = command(root, "query", sql, "--engine", "spark", "--json", *options)
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=180)


def rows(root: Path, sql: str, *options: str) -> Any:
    answer = query(root, sql, *options)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def used(process: psutil.Process) -> float:
    """Seconds of CPU, however busy the machine is."""
    times = process.cpu_times()
    return float(times.user + times.system)


def rests(process: psutil.Process, seconds: float = 90) -> bool:
    """Whether a process comes to rest: nothing to speak of is done in two seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = used(process)
        time.sleep(2)
        if used(process) - before < 0.2:
            return True
    return False


@pytest.mark.timeout(600)
def test_queries_beside_a_runner(tmp_path: Path, runners: list[Running]) -> None:
    project = PROJECT.format(cold=COLD, topics="  orders: {from: landing}\n") + "queries: {memory: 512MB}\n"
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    land(tmp_path, "1.json", ["a1", "a2", "a3"])
    runner = Running(tmp_path)
    runners.append(runner)
    runner.until(lambda: runner.of("step"))
    (flows,) = runner.jvms()

    # Queries that Spark answers start a Spark of their own; rows, types, versions and mistakes are as ever.
    found = rows(tmp_path, "SELECT event_id, sequence(1, 2) AS s FROM topic('orders') ORDER BY 1")
    assert found == [{"event_id": f"a{n}", "s": [1, 2]} for n in (1, 2, 3)]
    (queries,) = [jvm for jvm in runner.jvms() if jvm.pid != flows.pid]
    wrong = query(tmp_path, "SELECT nope FROM topic('orders')")
    assert wrong.returncode == 2 and '"UNKNOWN_COLUMN"' in wrong.stderr and "^^^^" in wrong.stderr, wrong.stderr
    failed = query(tmp_path, "SELECT raise_error('so it is') FROM topic('orders')")
    assert failed.returncode == 1 and "so it is" in failed.stderr, failed.stderr
    odd = query(tmp_path, "SELECT to_date('x', 'nonsense') AS a")  # an error of Java's that knows no place in a query
    assert odd.returncode == 1 and "week-based patterns" in odd.stderr, odd.stderr
    plan = "\n".join(row["plan"] for row in rows(tmp_path, "EXPLAIN ANALYZE SELECT count(*) AS n FROM topic('orders')"))
    assert "engine: spark" in plan and "rows: estimated" in plan
    assert len(rows(tmp_path, "SELECT id, repeat('x', 1000) AS x FROM range(30000)")) == 30000
    asked = query(tmp_path, "SELECT user FROM topic('orders')", "--read-only")
    assert asked.returncode == 2 and '"NOT_ALLOWED"' in asked.stderr, asked.stdout + asked.stderr

    # What is stopped stops at work: by its time, and by Ctrl-C at the other terminal.
    late = query(tmp_path, ENDLESS, "--timeout", "3s")
    assert late.returncode == 1 and '"QUERY_LIMIT"' in late.stderr, late.stderr
    assert rests(queries)
    heed = partial(signal.signal, signal.SIGINT, signal.default_int_handler)  # tests may run in the background
    with subprocess.Popen(command(tmp_path, "query", ENDLESS, "--engine", "spark"), preexec_fn=heed) as left:
        before, deadline = used(queries), time.monotonic() + 60
        while used(queries) - before < 1.5 and time.monotonic() < deadline:
            time.sleep(0.1)
        left.send_signal(signal.SIGINT if time.monotonic() < deadline else signal.SIGKILL)
        assert left.wait(20) == 130 and used(queries) - before >= 1.5
    assert rests(queries)

    # One that takes all memory ends with its Spark; flows go on meanwhile, another query alongside it is run again, and
    # the next one is answered.
    words = [command(tmp_path, "query", HUGE), command(tmp_path, "query", LONG, "--engine", "spark", "--json")]
    large, other = (subprocess.Popen(each, stdout=-1, stderr=-1, text=True) for each in words)
    with large, other:
        land(tmp_path, "2.json", [f"b{n}" for n in range(50)])
        runner.until(lambda: sum(step["rows"] for step in runner.of("step")) == 53)
        _, said = large.communicate(timeout=180)
        found, complaint = other.communicate(timeout=180)
    assert large.returncode == 1 and "QUERY_TOO_LARGE" in said and "queries.memory" in said, said
    assert other.returncode == 0 and json.loads(found) == [{"n": 599999994}], complaint
    assert flows.is_running() and not runner.of("restart")
    assert rows(tmp_path, "SELECT count(*) AS n FROM topic('orders')") == [{"n": 53}]
    assert not queries.is_running()

    # One that can't be stopped is left at its time, and its Spark is ended once nobody needs it.
    queries = max((jvm for jvm in runner.jvms() if jvm.pid != flows.pid), key=psutil.Process.create_time)
    stuck = query(tmp_path, FOLDED, "--timeout", "3s")
    assert stuck.returncode == 1 and '"QUERY_LIMIT"' in stuck.stderr, stuck.stderr
    queries.wait(60)
    assert rows(tmp_path, "SELECT sequence(1, 2) AS s") == [{"s": [1, 2]}] and flows.is_running()

    # Both end with the runner, also when it is killed.
    runner.signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while jvms(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert runner.of("failed") == []
