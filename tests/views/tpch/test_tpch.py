"""The 22 queries of TPC-H as views: what is kept incrementally equals the query after every cycle."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scale import FULL, scaled
from tests.views.rehearsal import Rehearsal
from tests.views.tpch.trade import KEYS, Trade, generated
from tests.views.workloads import CYCLES, Workload, queries, require_listed

QUERIES = queries(Path(__file__).parent / "queries")
FALLS_BACK: dict[str, str] = {}
"""Queries that are recomputed at every refresh, with the reason that the plan gives. It must not grow."""
TELLING = ("q04", "q16", "q19")
"""Those that are views of a lake in every run: the full tier has all of them."""

SCALE = scaled("HEADWATER_TPCH_SCALE", usual=0.001, full=0.01)
SIZE = max(3, round(SCALE * 1500))
"""Orders that come and go in a cycle."""


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, seed: int) -> Rehearsal:
    tables = generated(tmp_path_factory.mktemp("tpch"), min(SCALE, 0.001))
    return Rehearsal(spark, tables, KEYS, Trade(tables, seed).cycle(3))


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_kept_incrementally(cycle: Rehearsal, name: str) -> None:
    cycle.require_kept(QUERIES[name], FALLS_BACK.get(name))


def test_views_of_a_lake_equal_their_queries(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    tables = generated(tmp_path / "generated", SCALE)
    views = QUERIES if FULL else {name: QUERIES[name] for name in TELLING}
    workload, trade = Workload.open(tmp_path / "lake", tables, KEYS, views), Trade(tables, seed)
    with workload.lake:
        workload.require_equal(views, FALLS_BACK, (trade.cycle(SIZE) for _ in range(CYCLES)))


def test_the_page_says_the_same() -> None:
    assert len(QUERIES) == 22
    require_listed("TPC-H", QUERIES, FALLS_BACK)
