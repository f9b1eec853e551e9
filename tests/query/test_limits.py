"""A query takes no more than it may, and ends within a second of being told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.errors import Code, HeadwaterError
from headwater.query.answering import Engine, answer
from headwater.query.limits import Limits, Stopping
from headwater.warehouse import Warehouse
from tests.query.events import events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDLESS: dict[Engine, str] = {
    "duckdb": "SELECT count(*) AS n FROM events a, events b, events c, events d "
    "WHERE a.amount + b.amount + c.amount + d.amount > 1e9",
    # Spark's tasks look whether they were cancelled between two rows of a scan: a loop inside of one is not left.
    "spark": "SELECT sum(id % 7) AS n FROM range(1000000000000)",
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    warehouse = events(tmp_path_factory.mktemp("limited"))
    answer(warehouse, "SELECT count(*) AS n FROM events", engine="spark").rows()  # the first one is slow
    yield warehouse
    warehouse.close()


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_query_is_cancelled_within_a_second(lake: Warehouse, engine: Engine) -> None:
    stopping = Stopping()
    told: list[float] = []

    def cancel() -> None:
        told.append(time.monotonic())
        stopping.cancel()

    timer = threading.Timer(2.0, cancel)
    timer.start()
    with pytest.raises(HeadwaterError) as caught:
        answer(lake, ENDLESS[engine], engine=engine, stopping=stopping).rows()
    assert told, "it ended before it was cancelled"
    assert time.monotonic() - told[0] < 10  # under a second where nothing else runs
    assert caught.value.code is Code.CANCELLED


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_query_ends_when_its_time_is_over(lake: Warehouse, engine: Engine) -> None:
    begun = time.monotonic()
    with pytest.raises(HeadwaterError) as caught:
        answer(lake, ENDLESS[engine], engine=engine, limits=Limits(seconds=3)).rows()
    assert time.monotonic() - begun < 15
    assert caught.value.code is Code.QUERY_LIMIT
    assert "longer than 3 s" in str(caught.value)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_rows_and_bytes_of_a_result_are_bounded(lake: Warehouse, engine: Engine) -> None:
    sql = "SELECT id, name FROM events"
    assert len(answer(lake, sql, engine=engine, limits=Limits(rows=3200, bytes=10**6)).rows()) == 3200
    for limits in (Limits(rows=3199), Limits(bytes=1000)):
        with pytest.raises(HeadwaterError) as caught:
            answer(lake, sql, engine=engine, limits=limits).rows()
        assert caught.value.code is Code.QUERY_LIMIT


def test_memory_is_bounded_in_duckdb(lake: Warehouse) -> None:
    heavy = (
        "SELECT a.name || b.name || c.key AS x, count(*) AS n FROM events a, events b, events c "
        "WHERE a.id < 200 AND b.id < 200 AND c.id < 200 GROUP BY 1 ORDER BY 1"
    )
    with pytest.raises(HeadwaterError) as caught:
        answer(lake, heavy, engine="duckdb", limits=Limits(memory=8 * 1024 * 1024, seconds=60)).rows()
    assert caught.value.code is Code.QUERY_LIMIT
    assert "memory" in str(caught.value)


def test_a_large_result_is_never_held_whole(lake: Warehouse) -> None:
    """Ten million rows of 240 MB pass through; what is held meanwhile is bounded."""
    import pyarrow as pa

    before, most, size, rows = pa.total_allocated_bytes(), 0, 0, 0
    result = answer(lake, "SELECT a.id, b.id AS other, a.amount FROM events a, events b", engine="duckdb")
    for batch in result.batches():
        rows, size = rows + batch.num_rows, size + batch.nbytes
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 3200 * 3200
    assert size > 200 * 1024**2 and most < 100 * 1024**2
