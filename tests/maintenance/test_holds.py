"""What open readers hold, in the state database: no Java."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.core.model import Kind
from headwater.core.state import HoldRecord, State
from headwater.core.state import holds as holds_module
from headwater.core.state.holds import VersionHolds


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    found = State.next_to(tmp_path / ".headwater")
    yield found
    found.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds_module, "HELD_AFTER", 0.05)


def test_a_reader_that_is_over_at_once_registers_nothing(state: State) -> None:
    reader = VersionHolds(state, "a query")
    reader.hold({"topics.orders": 3})
    reader.release()
    assert state.holds() == []


@pytest.mark.usefixtures("quick")
def test_a_reader_that_lasts_holds_what_it_reads(state: State) -> None:
    reader = VersionHolds(state, "a query")
    reader.hold({"topics.orders": 3, "tables.empty": None})
    _until(lambda: len(state.holds()) == 1)
    reader.hold({"topics.orders": 3, "views.daily": 7})
    _until(lambda: len(state.holds()) == 2)
    found = {(hold.kind, hold.name, hold.version) for hold in state.holds()}
    assert found == {(Kind.TOPIC, "orders", 3), (Kind.VIEW, "daily", 7)}
    assert all(hold.holder.startswith("a query since 2") for hold in state.holds())
    reader.release()
    assert state.holds() == []
    reader.hold({"topics.orders": 3})
    time.sleep(0.2)
    assert state.holds() == [], "it is over"


@pytest.mark.usefixtures("quick")
def test_what_a_killed_reader_has_left_is_void_after_its_time(state: State) -> None:
    VersionHolds(state, "a query", seconds=1.0).hold({"topics.orders": 3})
    _until(lambda: len(state.holds()) == 1)
    _until(lambda: state.holds() == [])


def test_a_hold_is_replaced_by_its_id_and_lasts_until_it_is_dropped(state: State) -> None:
    state.put_hold(HoldRecord(Kind.TOPIC, "orders", 3, "export bi", id="export:bi"))
    state.put_hold(HoldRecord(Kind.TOPIC, "orders", 9, "export bi", id="export:bi"))
    assert [(hold.version, hold.expires_at) for hold in state.holds()] == [(9, None)]
    state.drop_hold("export:bi")
    assert state.holds() == []


def _until(met: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)
