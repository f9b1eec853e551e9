"""What is kept of steps, refreshes and maintenance in the state database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from headwater.core.state import MaintenanceRecord, RefreshRecord, State, StepRecord
from headwater.core.state.history import BEHIND, RECORDS, HistoryRecord, columns_of
from tests.services.postgres import postgres

NOW = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=timezone.utc)
STEP = StepRecord(
    "topics.orders", "topic", 1, 7, NOW, NOW + timedelta(seconds=1), 1000, 5, 0, 1234, "{}", '{"landing": 5}', 3,
    "committed", False,
)  # fmt: skip
REFRESH = RefreshRecord("daily", "view", "incremental", "the policy is incremental", NOW, 90, 5, 2, "{}", 4)
MAINTENANCE = MaintenanceRecord(
    "topics.orders", "compact", "small_files", NOW, 800, 3, 4, 40, 1, 9_000_000_000, 8_000_000_000, 5, "ab12"
)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State.next_to(tmp_path)


@pytest.fixture(scope="module")
def shared() -> Iterator[State]:
    with postgres() as address:
        state = State(address)
        yield state
        state.close()


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[State]:
    state = State.next_to(tmp_path) if request.param == "sqlite" else request.getfixturevalue("shared")
    yield state
    state.clear()


def noted(state: State, record: type[HistoryRecord], *columns: str) -> list[tuple[object, ...]]:
    return state.history(record, columns)


@pytest.mark.parametrize("record", [STEP, REFRESH, MAINTENANCE], ids=lambda record: record.table)
def test_a_row_comes_back_as_it_was(state: State, tmp_path: Path, record: HistoryRecord) -> None:
    state.note(record)
    state.note(record)
    names = list(columns_of(type(record)))
    found = noted(state, type(record), "id", *names)
    assert [row[0] for row in found] == [1, 2]
    state.close()
    again = State.next_to(tmp_path)  # by SQLite alone, as a command reads it
    assert noted(again, type(record), "id", *names) == found
    assert again._opened is None
    told = dict(zip(names, found[0][1:], strict=True))
    assert told.pop("started_at") == 1777863721123456
    committed = told.pop("committed_at", None)
    assert committed == (1777863722123456 if isinstance(record, StepRecord) else None)
    assert told == {name: getattr(record, name) for name in told}


def test_rows_are_written_soon_by_themselves(state: State, tmp_path: Path) -> None:
    began = time.monotonic()
    for number in range(50):
        state.note(replace(STEP, step=number))
    assert time.monotonic() - began < BEHIND  # nobody has waited for the database
    while True:
        assert time.monotonic() - began < 60
        try:
            with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
                if connection.execute("SELECT count(*) FROM steps").fetchone() == (50,):
                    break
        except sqlite3.OperationalError:
            pass  # not made yet
        time.sleep(0.05)


def test_what_waits_is_written_when_the_state_is_closed(state: State, tmp_path: Path) -> None:
    state.note(REFRESH)
    state.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        assert connection.execute("SELECT view FROM refreshes").fetchall() == [("daily",)]


def test_rows_wait_while_somebody_else_writes_for_long(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.core.state.database.BUSY", 0)
    state.note(STEP)
    state.flush_history()
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        state.note(replace(STEP, step=8))
        state.flush_history()  # raises nothing
        state.note(replace(STEP, step=9))
        other.execute("ROLLBACK")
    assert noted(state, StepRecord, "step") == [(7,), (8,), (9,)]


def test_the_oldest_and_the_many_go(either: State) -> None:
    now = datetime.now(timezone.utc)
    for at, flow in enumerate(["topics.a", "topics.b", "topics.a", "topics.a", "topics.a"]):
        either.note(replace(STEP, flow=flow, step=at, started_at=now - timedelta(days=40 if at == 0 else 1)))
    either.flush_history()
    assert either.prune_history(timedelta(days=30), 2) == 2
    assert noted(either, StepRecord, "flow", "step") == [("topics.b", 1), ("topics.a", 3), ("topics.a", 4)]
    assert either.prune_history(timedelta(days=30), 2) == 0


def test_it_is_pruned_while_it_is_written(either: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.core.state.database.PRUNED_EVERY", 10)
    monkeypatch.setattr("headwater.core.state.database.KEPT_ROWS", 5)
    now = datetime.now(timezone.utc)
    for number in range(95):
        either.note(replace(STEP, step=number, started_at=now))
        if number % 7 == 0:
            either.flush_history()
    assert len(noted(either, StepRecord, "id")) <= 15
    assert noted(either, StepRecord, "step")[-1] == (94,)


def test_long_and_broken_texts_are_kept_as_far_as_they_go(either: State) -> None:
    either.note(replace(STEP, error="x" * 10_000, error_code="A", from_positions="y" * 10_000))
    either.note(replace(STEP, error="half \ud800 and \0 nothing"))
    first, second = noted(either, StepRecord, "error", "from_positions")
    assert first == ("x" * 499 + "…", None)
    assert second == ("half ? and  nothing", "{}")


def test_all_columns_come_back_from_a_shared_database_too(either: State) -> None:
    for record in (STEP, REFRESH, MAINTENANCE):
        either.note(record)
        names = list(columns_of(type(record)))
        (row,) = noted(either, type(record), *names)
        stored = dict(zip(names, row, strict=True))
        assert {n: v for n, v in stored.items() if not n.endswith("_at")} == {
            name: getattr(record, name) for name in names if not name.endswith("_at")
        }


def test_another_lake_s_history_is_forgotten(either: State) -> None:
    for record in (STEP, REFRESH, MAINTENANCE):
        either.note(record)
    either.flush_history()
    either.clear()
    assert [noted(either, record, "id") for record in RECORDS] == [[], [], []]
