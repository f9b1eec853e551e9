"""A real runner over Kafka: when steps are due, what `status` tells of them meanwhile and afterwards, each flow's own
pool, and a stop in the middle of a step."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.runtime.running import Running
from tests.services.kafka import Broker
from tests.sources.kafka_lab import rows_of
from tests.support import COLD, headwater

PROJECT = """\
name: running
code: shop.py
spark: {{master: 'local[2]', conf: {cold}}}
runtime: {{stop_within: 2s}}
sources:
  clicks: {{type: kafka, brokers: '{brokers}', topic: running.clicks}}
  backlog: {{type: kafka, brokers: '{brokers}', topic: running.backlog, max_rows: 2}}
topics:
  counted: {{from: clicks, batch_size: 3, flush_interval: 1h}}
  timed: {{from: clicks, batch_size: 1000, flush_interval: 5s}}
  slow: {{from: backlog, mappers: shop}}
  pooled: {{from: clicks, mappers: shop, batch_size: 1}}
  wrong: {{from: clicks, partition_by: [no_such_column]}}
"""
CODE = """\
import time
from pathlib import Path

from pyspark import TaskContext

from headwater import mapper


@mapper(schema="id bigint, pool string")
def row(event: dict):
    if event["nap"] is not None and not Path({awake!r}).exists():
        Path({napping!r}).touch()
        time.sleep(event["nap"])
    return {{"id": event["id"], "pool": TaskContext.get().getLocalProperty("spark.scheduler.pool")}}
"""
BACKLOG = 12


def statuses(root: Path) -> dict[str, dict[str, Any]]:
    answer = headwater("status", "--json", "--project", root)
    assert answer.code == 0, answer.err
    return {one["flow"].partition(".")[2]: one for one in answer.json}


def rows(root: Path, topic: str) -> list[dict[str, Any]]:
    answer = headwater("query", f"SELECT id, pool FROM topic('{topic}') ORDER BY id", "--json", "--project", root)
    assert answer.code == 0, answer.err
    found: list[dict[str, Any]] = answer.json
    return found


@pytest.mark.timeout(600)
def test_a_runner_over_kafka(kafka: Broker, spark: SparkSession, tmp_path: Path, runners: list[Running]) -> None:
    root = tmp_path
    awake, napping = root / "awake", root / "napping"
    (root / "headwater.yml").write_text(PROJECT.format(cold=COLD, brokers=kafka.address), encoding="utf-8")
    (root / "shop.py").write_text(CODE.format(awake=str(awake), napping=str(napping)), encoding="utf-8")
    kafka.create("running.clicks", "running.backlog")
    kafka.send("running.clicks", [rows_of(id=n) for n in (1, 2)])
    kafka.send("running.backlog", [rows_of(id=n, nap=0.4) for n in range(BACKLOG)])
    runner = Running(root)
    runners.append(runner)

    # While a backlog is read there is a lag from the first look on, and it goes down step by step.
    seen: list[tuple[int, int]] = []

    def has_caught_up() -> bool:
        found = statuses(root)["slow"]
        if found["lag"] is not None:
            seen.append((found["steps"], found["lag"]["records"]))
        return bool(seen) and seen[-1] == (BACKLOG // 2, 0)

    runner.until(has_caught_up)
    print(f"steps and lag: {list(dict.fromkeys(seen))}")
    assert seen == sorted(seen, key=lambda one: (one[0], -one[1])) and seen[0][1] > 0
    assert any(0 < steps < BACKLOG // 2 and 0 < behind < BACKLOG for steps, behind in seen)
    slow = statuses(root)["slow"]
    assert slow["positions"]["backlog"]["offsets"] == {"running.backlog": {"0": BACKLOG}}
    assert slow["lag"]["detail"] == {"running.backlog/0": 0} and slow["rows_per_second"] > 0
    assert slow["rows"] == BACKLOG and slow["last_commit_at"] is not None and slow["error"] is None

    # Few events wait for `flush_interval`, and not at all once there are `batch_size` of them.
    runner.until(lambda: runner.of("step", "topics.timed") and runner.of("failed", "topics.wrong"))
    assert [step["rows"] for step in runner.of("step", "topics.timed")] == [2]
    assert runner.of("step", "topics.counted") == []
    waiting = statuses(root)["counted"]
    assert (waiting["state"], waiting["lag"]["records"]) == ("waiting", 2)
    begun = time.monotonic()
    kafka.send("running.clicks", [rows_of(id=3)])
    runner.until(lambda: runner.of("step", "topics.counted"))
    assert len(runner.of("step", "topics.timed")) == 1
    by_count = time.monotonic() - begun
    runner.until(lambda: len(runner.of("step", "topics.timed")) == 2)
    print(f"by batch_size after {by_count:.1f} s, by flush_interval after {time.monotonic() - begun:.1f} s")
    assert [step["rows"] for step in runner.of("step", "topics.counted")] == [3]
    assert by_count < 5 <= time.monotonic() - begun

    # Told to stop in the middle of a step, it does, within seconds.
    napping.unlink()
    kafka.send("running.backlog", [rows_of(id=BACKLOG, nap=300), rows_of(id=BACKLOG + 1)])
    runner.until(napping.exists)
    begun = time.monotonic()
    runner.signal(signal.SIGTERM)
    assert runner.process.wait(60) == 0 and runner.of("done")[0]["stopped"] is True
    took = time.monotonic() - begun
    print(f"stopped in {took:.1f} s")
    assert took < 15 and not runner.jvms()

    # What the flows were is still told when nobody runs them.
    after = statuses(root)
    assert {name: one["state"] for name, one in after.items() if name != "wrong"} == dict.fromkeys(
        ("counted", "timed", "slow", "pooled"), "stopped"
    )
    assert after["slow"]["positions"]["backlog"]["offsets"] == {"running.backlog": {"0": BACKLOG}}
    assert (after["slow"]["rows"], after["slow"]["holder"], after["slow"]["rows_per_second"]) == (BACKLOG, None, 0.0)
    assert (after["wrong"]["state"], "no_such_column" in after["wrong"]["error"]) == ("failed", True)

    # Nothing of the step that was cut off is lost or doubled; each flow's jobs ran in a pool of its own.
    awake.touch()
    done = headwater("run", "slow", "pooled", "--once", "--json", "--project", root)
    assert done.code == 0, done.err
    assert rows(root, "slow") == [{"id": n, "pool": "topics.slow"} for n in range(BACKLOG + 2)]
    assert rows(root, "pooled") == [{"id": n, "pool": "topics.pooled"} for n in (1, 2, 3)]
    assert statuses(root)["slow"]["lag"]["records"] == 0
