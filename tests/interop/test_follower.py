"""Tables of other formats follow commits: what the runner's thread does, over tables without Java."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.errors import Code
from headwater.runner.interop import InteropFollower
from headwater.runner.reports import FlowEvent, FlowReport
from tests.interop.light import LightLake, by_deltalake, by_pyiceberg
from tests.interop.test_sync import rows


@pytest.fixture
def light(tmp_path: Path) -> LightLake:
    found = LightLake.make(tmp_path)
    file = tmp_path / "headwater.yml"
    file.write_text(file.read_text().replace("  d: {keys: [id],", "  d: {keys: [id], interop: [iceberg],"))
    found.lake.close()
    return LightLake(tmp_path, type(found.lake).open(tmp_path))


def follower(light: LightLake, told: list[FlowEvent], report: FlowReport | None = None) -> InteropFollower:
    return InteropFollower(light.lake._warehouse, frozenset(), told.append, lambda flow: report)


def test_a_commit_is_followed_once(light: LightLake) -> None:
    told: list[FlowEvent] = []
    following = follower(light, told)
    assert following.sync_all() == {} and told == [], "there is no data yet"
    light.append(rows(0))
    for _ in range(3):
        assert following.sync_all() == {}
    assert [(one.flow, one.details["error"], one.details["files_added"]) for one in told] == [("tables.d", None, 1)]
    assert by_pyiceberg(light.target()) == by_deltalake(light.delta)


def test_a_target_that_fails_is_told_and_tried_again_with_the_next_commit(light: LightLake) -> None:
    told: list[FlowEvent] = []
    report = FlowReport("tables.d")
    following = follower(light, told, report)
    light.append(rows(0))
    following.sync_all()
    light.target().append(rows(100, 1))
    light.append(rows(3))
    failed = following.sync_all()
    assert failed["tables.d"].code is Code.TARGET_CHANGED
    assert report.trouble is not None, "`headwater status` shows it"
    assert following.sync_all() == {}, "not again until there is a reason"
    light.sync("d", "iceberg", replace=True)
    light.append(rows(6))
    assert following.sync_all() == {}
    assert report.trouble is None
    assert [one.details.get("code") for one in told] == [None, "TARGET_CHANGED", None]
    assert by_pyiceberg(light.target()) == by_deltalake(light.delta)


def test_its_thread_wakes_up_with_a_commit_and_ends_when_told(light: LightLake) -> None:
    told: list[FlowEvent] = []
    following = follower(light, told)
    following.start()
    light.append(rows(0))
    with light.lake._warehouse.committed:
        light.lake._warehouse.committed.notify_all()
    _until(lambda: len(told) == 1)
    light.append(rows(3))
    with light.lake._warehouse.committed:
        light.lake._warehouse.committed.notify_all()
    _until(lambda: len(told) == 2)
    following.end()
    assert by_pyiceberg(light.target()) == by_deltalake(light.delta)


def _until(met: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)
