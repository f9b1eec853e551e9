"""Spark's process dies under a runner: noticed at once, started again, and the flows go on where they were."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from headwater.spark.errors import as_headwater_error
from headwater.spark.jvm import HINT
from tests.hints.followed import follows
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


def test_work_that_is_cut_off_says_where_to_look() -> None:
    for words in ("Job 15 cancelled because SparkContext was shut down", "java.lang.OutOfMemoryError: Java heap space"):
        found = as_headwater_error(PySparkException(words)).problem
        assert found.message == words and found.hint == HINT


DEADLY = """\
from pathlib import Path
from typing import TypedDict

import psutil
from headwater import mapper


class Row(TypedDict):
    id: str


@mapper
def deadly(event: dict) -> Row:
    here = psutil.Process()
    if event["event_id"] == "poison" and Path("ROOT/armed").exists():
        for process in [*here.parents(), *here.children()]:
            if "java" in process.name():
                process.kill()
    return {"id": event["event_id"]}
"""


@follows("see .headwater/logs/spark.out; once it is mended: `headwater flow resume {}`", here=False)
def test_a_flow_whose_step_ends_spark_each_time_is_given_up_and_the_others_go_on(
    tmp_path: Path, runners: list[Running]
) -> None:
    topics = TOPICS.replace("from: landing", "from: landing, mappers: shop")
    project = PROJECT.format(cold=COLD, topics=topics).replace("lease: 5s", "lease: 5s, spark_restarts: 1")
    (tmp_path / "headwater.yml").write_text(f"{project}code: shop.py\n", encoding="utf-8")
    (tmp_path / "shop.py").write_text(DEADLY.replace("ROOT", str(tmp_path)), encoding="utf-8")
    (tmp_path / "armed").touch()
    land(tmp_path, "1.json", ["a1", "poison"])
    land(tmp_path, "1.json", ["l1", "l2"], "later")
    runner = Running(tmp_path)
    runners.append(runner)
    runner.until(lambda: runner.of("failed"))
    (failed,) = runner.of("failed")
    assert failed["flow"] == "topics.orders" and failed["code"] == "SPARK_FAILED", failed
    assert "the same step of topics.orders was in hand each of the last 2 times" in failed["error"]
    assert len(runner.of("restart", "topics.late")) == 2

    land(tmp_path, "2.json", ["l3"], "later")
    runner.until(lambda: sum(step["rows"] for step in runner.of("step", "topics.late")) == 3)
    assert state_of(tmp_path, "topics.orders")["state"] == "failed"

    (tmp_path / "armed").unlink()
    assert headwater("flow", "resume", "topics.orders", "--project", tmp_path).code == 0
    runner.until(lambda: runner.of("step", "topics.orders"))
    assert [(step["rows"], step["rejected"]) for step in runner.of("step", "topics.orders")] == [(2, 0)]
