"""When a step is due."""

from __future__ import annotations

from datetime import timedelta

from headwater.runner.pace import FIRST_RETRY, LONGEST_POLL, LONGEST_RETRY, SHORTEST_POLL, BackOff, Pace
from headwater.sources.reader import OffsetRange


def range_of(rows: int | None, full: bool = False) -> OffsetRange:
    return OffsetRange({"s": 1}, rows=rows, full=full)


def test_enough_events_are_taken_at_once_and_few_wait_for_more() -> None:
    pace = Pace(1000, timedelta(seconds=2))
    assert pace.wait(range_of(10), now=0.0) == SHORTEST_POLL
    assert pace.wait(range_of(1000), now=0.5) == 0


def test_few_events_wait_no_longer_than_the_interval_from_when_they_were_first_seen() -> None:
    pace = Pace(1000, timedelta(seconds=2))
    assert pace.wait(range_of(1), now=10.0) > 0
    assert 0 < pace.wait(range_of(2), now=11.95) <= 0.051
    assert pace.wait(range_of(2), now=12.0) == 0
    pace.taken()
    assert pace.wait(range_of(1), now=12.5) > 0, "what came after the step waits anew"


def test_a_backlog_is_taken_at_once() -> None:
    assert Pace(1000, timedelta(hours=1)).wait(range_of(5, full=True), now=0.0) == 0


def test_what_can_not_be_counted_waits_for_the_interval_alone() -> None:
    assert Pace(1, timedelta(0)).wait(range_of(None), now=0.0) == 0
    assert Pace(1, timedelta(seconds=1)).wait(range_of(None), now=0.0) > 0


def test_an_idle_source_is_asked_less_and_less_often_and_a_busy_one_often() -> None:
    pace = Pace(1000, timedelta(seconds=5))
    waits = [pace.wait(None, now=float(i)) for i in range(20)]
    assert waits == sorted(waits) and waits[0] < 0.2 and waits[-1] == LONGEST_POLL
    assert pace.wait(range_of(1), now=21.0) == SHORTEST_POLL


def test_tries_after_failures_come_later_and_later_up_to_a_limit_and_begin_anew() -> None:
    back_off = BackOff()
    waits = [back_off.next() for _ in range(12)]
    assert FIRST_RETRY / 2 <= waits[0] <= FIRST_RETRY
    assert LONGEST_RETRY / 2 <= waits[-1] <= LONGEST_RETRY and max(waits) <= LONGEST_RETRY
    back_off.over()
    assert back_off.next() <= FIRST_RETRY
