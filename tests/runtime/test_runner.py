"""A runner's life: it keeps flows, answers commands, is told things, is paused, replaced and stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.runtime.running import COMMAND, PROJECT, Running, jvms, land
from tests.support import COLD, headwater

TOPICS = """\
  orders: {from: landing}
  late: {from: later}
  wrong: {from: landing, partition_by: [no_such_column]}
"""
COUNT = "SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM topic('orders')"


def state_of(root: Path, flow: str) -> dict[str, Any]:
    answer = headwater("status", "--json", "--project", root)
    assert answer.code == 0, answer.err
    found: dict[str, Any] = next(one for one in answer.json if one["flow"] == flow)
    return found


@pytest.mark.timeout(600)
def test_the_life_of_a_runner(tmp_path: Path, runners: list[Running], spark: SparkSession) -> None:
    root = tmp_path
    (root / "headwater.yml").write_text(PROJECT.format(cold=COLD, topics=TOPICS), encoding="utf-8")
    land(root, "1.json", ["a1", "a2"])
    assert state_of(root, "topics.orders")["state"] == "new"

    # Flows that fail take no other down; what may go away is tried again, what will not is given up.
    first = Running(root)
    runners.append(first)
    first.until(lambda: first.of("step", "topics.orders") and first.of("failed", "topics.wrong"))
    assert "no_such_column" in first.of("failed", "topics.wrong")[0]["error"]
    assert [e["code"] for e in first.of("retry")] == ["SOURCE_UNAVAILABLE"] * len(first.of("retry"))
    land(root, "1.json", ["l1"], "later")
    headwater("flow", "resume", "late", "--project", root)  # its next try may be a while off
    first.until(lambda: first.of("step", "topics.late"))

    # Status needs no Spark and says who runs what; queries are answered by the runner, in its Spark.
    status = state_of(root, "topics.orders")
    assert (status["state"], status["rows"], status["rejected"]) == ("waiting", 2, 0)
    assert str(first.process.pid) in status["holder"] and status["lag"]["records"] in (0, None)
    assert state_of(root, "topics.wrong")["state"] == "failed"
    begun = time.monotonic()
    answer = subprocess.run(
        [*COMMAND, "query", COUNT, "--json", "--project", str(root)], capture_output=True, text=True, check=False
    )
    print(f"query through the socket: {time.monotonic() - begun:.2f} s")
    assert '"n": 2' in answer.stdout and len(jvms(root)) == 1, answer.stderr
    assert headwater("query", "SELECT nope", "--project", root).code == 2
    assert headwater("topic", "history", "orders", "--json", "--project", root).json[0]["step"] == 0

    # A second runner is refused by flow, with the name of the first.
    second = headwater("run", "orders", "--once", "--json", "--project", root)
    assert second.code == 1 and f"process {first.process.pid} on" in second.events[-1]["flows"][0]["error"]

    # A flow that was given up, by another process than the runner's: it begins again, and fails again.
    restarted = headwater("flow", "rebuild", "wrong", "--yes", "--project", root)
    assert restarted.code == 0, restarted.err
    first.until(lambda: len(first.of("failed", "topics.wrong")) == 2)

    # The project changes under the runner: a broken one is refused, another one is taken up where it differs.
    project = (root / "headwater.yml").read_text()
    (root / "headwater.yml").write_text(project.replace("{from: later}", "{from: latr}"), encoding="utf-8")
    first.signal(signal.SIGHUP)
    first.until(lambda: first.of("reload_refused"))
    assert "there is no source 'latr'" in first.of("reload_refused")[0]["errors"][0]
    (root / "headwater.yml").write_text(
        project.replace(", partition_by: [no_such_column]", "") + 'views: {counts: {sql: "' + COUNT + '"}}\n',
        encoding="utf-8",
    )
    answer = subprocess.run(
        [*COMMAND, "reload", "--json", "--project", str(root)], capture_output=True, text=True, check=False
    )
    assert json.loads(answer.stdout) == {"added": ["views.counts"], "changed": ["topics.wrong"], "removed": []}
    first.until(lambda: first.of("step", "topics.wrong") and first.of("step", "views.counts"))
    assert len(first.of("started", "topics.orders")) == 1

    # Views that statements make come and go.
    sql = "SELECT max(n) AS n FROM mv('counts')"
    for words in (["mv", "create", "most", sql], ["mv", "drop", "most", "--yes"]):
        answer = subprocess.run([*COMMAND, *words, "--project", str(root)], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        first.until(lambda event="started" if "create" in words else "stopped": first.of(event, "views.most"))

    # Paused: nothing is ingested. Resumed: all of it is.
    headwater("flow", "pause", "orders", "--project", root)
    first.until(lambda: first.of("paused", "topics.orders"))
    land(root, "2.json", ["a3"])
    time.sleep(1.5)
    assert len(first.of("step", "topics.orders")) == 1
    headwater("flow", "resume", "orders", "--project", root)
    first.until(lambda: len(first.of("step", "topics.orders")) == 2)

    # Stopped in its tracks, and not heard of for too long: the next one ends it and its JVM, and goes on.
    (jvm,) = first.jvms()
    first.signal(signal.SIGSTOP)
    land(root, "3.json", ["a4", "a5"])
    time.sleep(5.5)
    assert state_of(root, "topics.orders")["state"] == "died"
    third = Running(root, "orders", "late")  # by name: the view is left alone
    runners.append(third)
    third.until(lambda: third.of("step", "topics.orders"))
    assert first.process.wait(5) == -signal.SIGKILL and not jvm.is_running()

    # Told to stop, it does, within seconds; nothing stays behind.
    begun = time.monotonic()
    third.signal(signal.SIGTERM)
    assert third.process.wait(30) == 0 and not third.jvms()
    print(f"stopped in {time.monotonic() - begun:.2f} s")
    assert state_of(root, "topics.orders")["state"] == "stopped"

    # The next one runs in this process, and finds what the others had left.
    land(root, "4.json", ["a6"])
    fourth = headwater("run", "orders", "late", "--once", "--json", "--project", root)
    assert fourth.code == 0, fourth.err
    counted = headwater("query", COUNT, "--json", "--project", root)
    assert counted.json == [{"n": 6, "ids": 6}]
    assert state_of(root, "topics.orders")["state"] == "done"
    assert third.of("done")[0]["stopped"] is True
