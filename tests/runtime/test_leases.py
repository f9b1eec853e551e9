"""One runner per flow: in SQLite, and in a Postgres that machines share."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.state import State
from headwater.runner.holders import Holder
from headwater.runner.leases import Lease
from tests.hints.followed import follows
from tests.services.postgres import postgres

LONG, SHORT = timedelta(seconds=60), timedelta(milliseconds=200)


@pytest.fixture(params=["sqlite", "postgres"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[State]:
    if request.param == "sqlite":
        yield State.next_to(tmp_path)
        return
    with postgres() as address:
        state = State(address)
        yield state
        state.close()


def test_a_flow_is_asked_for_until_somebody_has_it_or_stops_asking(state: State) -> None:
    state.ask_release("topics.a", "mine", 60)
    state.ask_release("topics.b", "mine", 0.2)
    state.ask_release("topics.a", "another", 60)  # whoever asks last
    assert "topics.a" in state.releases()
    time.sleep(0.3)
    assert state.releases() == {"topics.a"}
    state.end_release("topics.a", "mine")
    assert state.releases() == {"topics.a"}
    state.end_release("topics.a", "another")
    assert not state.releases()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Some process that could be a runner."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def holder_of(process: subprocess.Popen[bytes]) -> Holder:
    return replace(Holder.here(), pid=process.pid, started=psutil.Process(process.pid).create_time())


@follows("stop that runner first, or leave the flow to it")
def test_a_lease_is_one_runners_until_it_is_released(state: State, process: subprocess.Popen[bytes]) -> None:
    other = holder_of(process)
    lease = Lease.take(state, "topics.a", other, LONG)
    lease.check()
    with pytest.raises(TerminalError, match=f"process {process.pid} on") as refused:
        Lease.take(state, "topics.a", Holder.here(), LONG)
    assert refused.value.code is Code.FLOW_HELD
    Lease.take(state, "topics.b", Holder.here(), LONG).release()
    lease.release()
    mine = Lease.take(state, "topics.a", Holder.here(), LONG)
    with pytest.raises(TerminalError) as lost:
        lease.check()
    assert lost.value.code is Code.LEASE_LOST and not lease.renew(other)
    mine.check()

    # The holder's process ends without a word: the next one needn't wait.
    mine.release()
    Lease.take(state, "topics.a", other, LONG)
    process.kill()
    process.wait()
    Lease.take(state, "topics.a", Holder.here(), LONG).check()

    # Of many that ask at the same moment one gets it.
    got: list[Lease] = []
    refusals: list[HeadwaterError] = []

    def ask() -> None:
        try:
            got.append(Lease.take(state, "topics.c", Holder.here(), LONG))
        except HeadwaterError as error:
            refusals.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1 and [error.code for error in refusals] == [Code.FLOW_HELD] * 7


def test_a_paused_holder_is_ended_with_its_jvm_before_its_flow_is_taken(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    state = State.next_to(tmp_path)
    jvm = subprocess.Popen(["sleep", "600"])
    try:
        paused = holder_of(process).with_jvm(jvm.pid)
        Lease.take(state, "topics.a", paused, SHORT)
        process.send_signal(signal.SIGSTOP)
        time.sleep(SHORT.total_seconds() + 0.1)
        Lease.take(state, "topics.a", Holder.here(), LONG).check()
        assert process.wait(5) == -signal.SIGKILL and jvm.wait(5) == -signal.SIGKILL
    finally:
        jvm.kill()
        jvm.wait()


def test_a_process_that_only_has_the_holders_number_is_left_alone(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    state = State.next_to(tmp_path)
    gone = replace(holder_of(process), started=holder_of(process).started - 3600)
    Lease.take(state, "topics.a", gone, LONG)
    Lease.take(state, "topics.a", Holder.here(), LONG).check()
    assert process.poll() is None


def test_another_machines_lease_is_waited_for_and_nothing_there_is_ended(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    state = State.next_to(tmp_path)
    elsewhere = replace(holder_of(process), host="another-machine")
    Lease.take(state, "topics.b", elsewhere, LONG)
    with pytest.raises(TerminalError, match="on another-machine"):
        Lease.take(state, "topics.b", Holder.here(), LONG)
    Lease.take(state, "topics.a", elsewhere, SHORT)
    time.sleep(SHORT.total_seconds() + 0.1)
    Lease.take(state, "topics.a", Holder.here(), LONG).check()
    assert process.poll() is None


def test_a_late_holder_keeps_a_flow_that_nobody_asked_for(tmp_path: Path) -> None:
    lease = Lease.take(State.next_to(tmp_path), "topics.a", Holder.here(), SHORT)
    time.sleep(SHORT.total_seconds() + 0.1)
    lease.check()
