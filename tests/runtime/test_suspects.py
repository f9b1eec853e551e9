"""Which of several flows is taken to have ended Spark, and how they take turns after that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

from headwater.core.errors import Code
from headwater.core.state import Control
from headwater.flows.step import Landed, StepDone
from headwater.runner.flow_worker import FlowWorker
from headwater.runner.reports import FlowReport, FlowState
from headwater.runner.suspects import Suspects
from headwater.spark.jvm import Ending, Restarts

ENDING = Ending("Spark ran out of memory and has ended", out_of_memory=True)


class Named:
    """Of a flow's setup what is asked here."""

    def __init__(self, flow: str) -> None:
        self.flow = flow


def worker(flow: str, report: FlowReport | None = None) -> FlowWorker:
    setup, spark, lease = cast(Any, Named(flow)), cast(Any, None), cast(Any, None)
    report = report or FlowReport(flow)
    return FlowWorker(setup, spark, lease, "once", report, lambda event: None, threading.Event(), Control())


def cut_off(worker: FlowWorker) -> None:
    """Its step fails as Spark ends."""

    def fail() -> None:
        worker.spark_ended.set()
        raise ConnectionError

    try:
        worker._take(cast(Callable[[], StepDone | None], fail))
    except ConnectionError:
        return
    raise AssertionError


def done(flow: str) -> StepDone:
    return StepDone(flow, 1, 0, {}, Landed(None, rows=1))


def again(*reports: FlowReport, suspects: Suspects) -> list[FlowWorker]:
    workers = [worker(report.flow, report) for report in reports]
    for one in workers:
        suspects.prepare(one)
    return workers


def test_the_flow_whose_step_is_in_hand_each_time_is_given_up() -> None:
    suspects = Suspects()
    bad, good, idle = workers = [worker("topics.bad"), worker("topics.good"), worker("topics.idle")]
    reports = [one.report for one in workers]
    for one in (bad, good):
        cut_off(one)
    suspects.note_end(workers, time.monotonic())
    assert suspects.give_up(ENDING) == {}, "once may have been anything"

    bad, good, idle = workers = again(*reports, suspects=suspects)
    assert bad.turn is good.turn is not None and idle.turn is None
    good.report.landed(done("topics.good"))
    for one in (bad, good):
        cut_off(one)
    suspects.note_end(workers, time.monotonic())
    found = suspects.give_up(ENDING)
    assert list(found) == ["topics.bad"] and found["topics.bad"].code is Code.SPARK_FAILED
    bad.report.state, bad.report.error = FlowState.FAILED, found["topics.bad"]
    assert suspects.is_given_up(bad.report) and not suspects.is_given_up(good.report)

    # It stays given up in the next Spark and in the one after, until somebody resumes it.
    for _ in range(2):
        bad, good, idle = workers = again(*reports, suspects=suspects)
        assert bad.given_up_for is found["topics.bad"] and good.given_up_for is idle.given_up_for is None
        suspects.note_end(workers, time.monotonic())
    bad.report.error = None
    suspects.note_end(workers, time.monotonic())
    assert again(*reports, suspects=suspects)[0].given_up_for is None


def test_steps_that_failed_long_before_and_others_than_the_last_are_not_suspected() -> None:
    suspects = Suspects()
    one = worker("topics.one")
    cut_off(one)
    suspects.note_end([one], time.monotonic() + 60)
    assert again(one.report, suspects=suspects)[0].turn is None
    for _ in range(3):
        cut_off(one)
        suspects.note_end([one], time.monotonic())
        one.report.landed(done("topics.one"))
        assert suspects.give_up(ENDING) == {}
    restarts = Restarts(1)
    assert [restarts.allow(), restarts.allow(), restarts.allow_again(), restarts.allow()] == [True, False, True, False]
    assert restarts.count == 2


def test_suspects_take_their_first_step_one_at_a_time() -> None:
    suspects = Suspects()
    workers = [worker(f"topics.{name}") for name in "abc"]
    for one in workers:
        cut_off(one)
    suspects.note_end(workers, time.monotonic())
    workers = again(*(one.report for one in workers), suspects=suspects)
    at_work, most, gate = [0], [0], threading.Barrier(3)

    def step(flow: str) -> StepDone:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        time.sleep(0.05)
        at_work[0] -= 1
        return done(flow)

    def run(one: FlowWorker) -> None:
        gate.wait()
        assert one._take(lambda: None) is None, "nothing was open"
        one._take(lambda: step(one.setup.flow))

    threads = [threading.Thread(target=run, args=(one,)) for one in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] and [one.turn for one in workers] == [None, None, None]

    # One that is told to stop does not wait, and takes nothing.
    waiting = again(*(one.report for one in workers), suspects=suspects)[0]
    assert waiting.turn is not None and waiting.turn.acquire()
    waiting.stopping.set()
    assert waiting._take(lambda: step("topics.a")) is None
