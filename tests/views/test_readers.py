"""Who reads or refreshes a view while others do: each sees a whole commit, and one refresh runs at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.model import Kind
from headwater.core.spec import Refresh
from headwater.operations.views import create_view, drop_view, refresh_view
from headwater.views import retired
from tests.views.lab import Lab
from tests.views.test_views import MANUAL, TOTALS, add_order


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, seed: int) -> Iterator[Lab]:
    lab = Lab.open(tmp_path_factory.mktemp("readers"), "delta", seed)
    with lab.lake:
        yield lab


def at_once(count: int, work: Callable[[], Any]) -> list[Any]:
    """The same by several threads that begin together."""
    ready = threading.Barrier(count)

    def one() -> Any:
        ready.wait()
        return work()

    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(one) for _ in range(count)]]


def test_readers_of_one_view_wait_for_its_refresh(lab: Lab) -> None:
    create_view(lab.warehouse, "asked", TOTALS, Refresh(mode="on_query", max_staleness=timedelta(0)))
    built = len(lab.lake.view("asked").history())
    add_order(lab, 1, 4711, "2.50")
    question = "SELECT n FROM mv('asked') WHERE customer = 4711"
    assert at_once(3, lambda: list(lab.lake.sql(question).rows())) == [[{"n": 1}]] * 3
    assert len(lab.lake.view("asked").history()) == built + 1


def test_who_waited_for_a_refresh_takes_it(lab: Lab) -> None:
    create_view(lab.warehouse, "patient", TOTALS, Refresh(mode="on_query", max_staleness=timedelta(seconds=2)))
    add_order(lab, 5, 4714)
    time.sleep(2.1)
    question = "SELECT n FROM mv('patient') WHERE customer = 4714"
    assert at_once(3, lambda: list(lab.lake.sql(question).rows())) == [[{"n": 1}]] * 3
    types = [one.refresh_type for one in lab.lake.view("patient").describe().refreshes]
    assert types == ["incremental", "full"]  # nobody has looked a second time


def test_refreshes_of_one_view_take_turns(lab: Lab) -> None:
    create_view(lab.warehouse, "turns", TOTALS, MANUAL)
    add_order(lab, 2, 4712)
    found = at_once(3, lambda: refresh_view(lab.warehouse, "turns", "incremental").refresh_type)
    assert sorted(found) == ["incremental", "none", "none"]
    assert lab.lake.view("turns").verify().equal


def test_a_reader_goes_on_while_the_view_is_replaced(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    create_view(lab.warehouse, "swapped", "SELECT customer, count(*) AS n FROM orders GROUP BY customer", MANUAL)
    before = lab.lake.view("swapped").df()
    rows = before.count()
    earlier = lab.warehouse.table(Kind.VIEW, "swapped")
    create_view(lab.warehouse, "swapped", TOTALS, MANUAL, replace=True)
    assert len(before.collect()) == rows
    assert lab.lake.view("swapped").df().columns == ["customer", "n", "total"]
    add_order(lab, 3, 4713)
    refresh_view(lab.warehouse, "swapped")
    assert earlier.exists()
    monkeypatch.setattr(retired, "GRACE", timedelta(0))
    add_order(lab, 4, 4713)
    refresh_view(lab.warehouse, "swapped")
    assert not earlier.exists()
    assert lab.lake.view("swapped").verify().equal


def test_a_view_that_is_dropped_leaves_nothing_of_earlier_ones(lab: Lab) -> None:
    create_view(lab.warehouse, "gone", "SELECT customer, count(*) AS n FROM orders GROUP BY customer", MANUAL)
    tables = [lab.warehouse.table(Kind.VIEW, "gone")]
    create_view(lab.warehouse, "gone", TOTALS, MANUAL, replace=True)
    tables.append(lab.warehouse.table(Kind.VIEW, "gone"))
    assert [table.exists() for table in tables] == [True, True]
    drop_view(lab.warehouse, "gone")
    assert [table.exists() for table in tables] == [False, False]
