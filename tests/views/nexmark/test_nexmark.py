"""The queries of Nexmark as views over events that come, come late, are corrected and withdrawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scale import FULL
from tests.views.nexmark.events import KEYS, Events
from tests.views.rehearsal import Rehearsal
from tests.views.workloads import CYCLES, Workload, queries, require_listed

QUERIES = queries(Path(__file__).parent / "queries")
LEFT_OUT = {"q12": "it counts by the clock of the engine that runs it, and no rows say what that clock showed"}
FALLS_BACK: dict[str, str] = {}
"""Queries that are recomputed at every refresh, with the reason that the plan gives. It must not grow."""
TELLING = ("q07", "q11", "q17")
"""Those that are views of a lake in every run: the full run has all of them."""

FIRST, MORE = 300, 40
"""Events before the views are made, and in each cycle."""


@pytest.fixture(scope="module")
def cycle(spark: SparkSession, seed: int) -> Rehearsal:
    events = Events(seed)
    events.happen(FIRST)
    return Rehearsal(spark, events.tables(), KEYS, events.cycle(MORE))


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_kept_incrementally(cycle: Rehearsal, name: str) -> None:
    cycle.require_kept(QUERIES[name], FALLS_BACK.get(name))


def test_views_of_a_lake_equal_their_queries(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    events = Events(seed)
    events.happen(FIRST)
    views = QUERIES if FULL else {name: QUERIES[name] for name in TELLING}
    workload = Workload.open(tmp_path / "lake", events.tables(), KEYS, views)
    with workload.lake:
        workload.require_equal(views, FALLS_BACK, (events.cycle(MORE) for _ in range(CYCLES)))


def test_the_page_says_the_same() -> None:
    assert {*QUERIES, *LEFT_OUT} == {f"q{number:02}" for number in range(23)}
    require_listed("Nexmark", QUERIES, FALLS_BACK, LEFT_OUT)
