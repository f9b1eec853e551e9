"""Spark's process dies under a runner: noticed at once, started again, and the flows go on where they were."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.runtime.running import PROJECT, Running, land
from tests.runtime.test_runner import COUNT, state_of
from tests.support import COLD, headwater

pytestmark = pytest.mark.spark

TOPICS = """\
  orders: {from: landing}
  late: {from: later}
"""


def kill_spark(runner: Running) -> None:
    (jvm,) = runner.jvms()
    jvm.kill()


def test_spark_is_started_again_a_bounded_number_of_times(tmp_path: Path, runners: list[Running]) -> None:
    project = PROJECT.format(cold=COLD, topics=TOPICS).replace("lease: 5s", "lease: 5s, spark_restarts: 2")
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    land(tmp_path, "1.json", ["a1", "a2"])
    land(tmp_path, "1.json", ["l1"], "later")
    runner = Running(tmp_path)
    runners.append(runner)
    runner.until(lambda: runner.of("step", "topics.orders") and runner.of("step", "topics.late"))

    # Killed while a step is about to begin: noticed within seconds, said, and nothing is lost or doubled.
    land(tmp_path, "2.json", [f"b{n}" for n in range(100)])
    begun = time.monotonic()
    kill_spark(runner)
    runner.until(lambda: len(runner.of("restart")) == 2)
    print(f"noticed and said after {time.monotonic() - begun:.1f} s")
    event = runner.of("restart", "topics.orders")[0]
    assert event["code"] == "SPARK_FAILED" and "1 of at most 2 times" in event["error"], event
    runner.until(lambda: runner.of("step", "topics.orders")[-1]["rows"] == 100 or runner.of("failed"))
    runner.until(lambda: state_of(tmp_path, "topics.orders")["rows"] == 102)  # written down twice a second
    assert state_of(tmp_path, "topics.orders")["spark_restarts"] == 1 and not runner.of("failed")

    # Once more, while all is quiet; commands are answered by the new Spark.
    kill_spark(runner)
    runner.until(lambda: len(runner.of("restart")) == 4)
    land(tmp_path, "3.json", ["c1"])
    land(tmp_path, "2.json", ["l2"], "later")
    runner.until(lambda: len(runner.of("step", "topics.orders")) == 3 and len(runner.of("step", "topics.late")) == 2)
    assert "started again 2 times" in headwater("status", "--project", tmp_path).err

    # The third time is too often: the run ends, and says why.
    begun = time.monotonic()
    kill_spark(runner)
    assert runner.process.wait(120) == 1
    print(f"ended after {time.monotonic() - begun:.1f} s")
    assert not runner.jvms() and "after 2 restarts in 10 minutes" in runner.of("failed")[-1]["error"]
    assert state_of(tmp_path, "topics.orders")["state"] == "failed"
    assert headwater("query", COUNT, "--json", "--project", tmp_path).json == [{"n": 103, "ids": 103}]
