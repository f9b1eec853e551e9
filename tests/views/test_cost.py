"""What a view remembers of its refreshes, and how it decides by them."""

from __future__ import annotations

from pathlib import Path

from headwater.core.storage import Files
from headwater.views.cost import decided
from headwater.views.records import KEPT, Notes, Refreshed


def notes(root: Path) -> Notes:
    return Notes(Files(str(root)), "views.v", 1)


def test_the_last_full_refresh_is_not_forgotten(tmp_path: Path) -> None:
    told = notes(tmp_path)
    told.add(Refreshed("v", "full", "", rows_read=1000, duration_ms=2000))
    for _ in range(KEPT + 20):
        told.add(Refreshed("v", "incremental", "", rows_read=10, duration_ms=900))
    decision = decided(100, told.refreshes())
    rows = 1000 + 10 * (KEPT + 20) + 100
    assert decision.figures["rows_in_sources"] == rows
    assert decision.figures["full_ms"] == round(2000 * rows / 1000)
    assert len(told.refreshes()) <= KEPT + 1
    told.add(Refreshed("v", "full", "", rows_read=1800, duration_ms=2100))
    assert decided(0, told.refreshes()).figures["rows_in_sources"] == 1800


def test_refreshes_without_effect_push_nothing_out_and_count_for_nothing(tmp_path: Path) -> None:
    told = notes(tmp_path)
    told.add(Refreshed("v", "full", "", rows_read=1000, duration_ms=2000))
    for _ in range(5):
        told.add(Refreshed("v", "incremental", "", rows_read=10, duration_ms=900))
    for number in range(2 * KEPT):  # the same change is looked at each time, and again by the next one
        told.add(Refreshed("v", "none", "nothing has changed", rows_read=500, at=f"{number}"))
    types = [one.refresh_type for one in told.refreshes()]
    assert types == ["full", *["incremental"] * 5, "none"]
    assert told.refreshes()[-1].at == f"{2 * KEPT - 1}"
    assert decided(500, told.refreshes()).figures["rows_in_sources"] == 1000 + 50 + 500
