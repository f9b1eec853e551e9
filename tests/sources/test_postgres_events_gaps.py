"""No event is lost or doubled, however its transaction went, with a transaction column and without."""

from __future__ import annotations

import json
import logging
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import HeadwaterError
from headwater.sources.postgres.events import gaps
from headwater.sources.postgres.events.ranges import Ranges
from tests.hints.followed import follows
from tests.scale import scaled
from tests.services.postgres import LOGICAL, Server, server
from tests.sources.events_lab import TABLE, Flow, Project, Store, Writers, insert

HOLD = scaled("HEADWATER_HOLD", usual=8, full=30)
"""Seconds for which a transaction is held open."""
WITH_TX = (
    "ALTER TABLE events ADD COLUMN tx xid8, ALTER COLUMN tx SET DEFAULT pg_current_xact_id();"
    "CREATE INDEX ON events (tx, global_position)"
)
NAMED = {"columns": {"transaction": "tx"}}


@pytest.fixture(scope="module")
def two_phase() -> Iterator[Server]:
    """A server that can prepare transactions."""
    with server({**LOGICAL, "max_prepared_transactions": "4"}) as running:
        yield running


@pytest.fixture(params=[True, False], ids=["transactions", "gaps"])
def by_tx(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def flow_of(spark: SparkSession, folder: Path, store: Store, by_tx: bool, **settings: Any) -> Flow:
    if by_tx:
        store.run(WITH_TX)
    return Flow(spark, folder / "flow", {"dsn": store.dsn, **(NAMED if by_tx else {}), **settings})


@pytest.mark.timeout(300)
def test_writers_of_every_kind(
    spark: SparkSession, postgres_server: Server, tmp_path: Path, seed: int, by_tx: bool
) -> None:
    """Concurrent writers with rollbacks and savepoints, and one transaction held open, through restarts."""
    print(f"seed {seed}, held open for {HOLD} s")
    store = Store.make(postgres_server)
    store.add(500)
    flow = flow_of(spark, tmp_path, store, by_tx, max_rows=300)
    rng = random.Random(seed)
    found: Counter[int] = Counter(flow.step())
    with Writers(store, seed, HOLD) as writers:
        until = time.monotonic() + HOLD * 1.3
        while (time.monotonic() < until or len(found) <= 500) and not writers.failures:
            found.update(flow.step(crash=rng.random() < 0.2) or ())
            time.sleep(rng.random() * 0.1)
            if rng.random() < 0.2:
                flow.restart()
        writers.finish()
    found.update(flow.all())
    expected = Counter({*writers.committed, *range(1, 501)})
    assert [int(one) for one in store.positions()] == sorted(expected)
    assert found == expected, f"{found - expected} too many, {expected - found} missing"
    if not by_tx:
        assert flow.reader.lag(flow.position).detail == {"open_gaps": 0}  # type: ignore[union-attr]


def test_what_is_open_holds_nothing_up(
    spark: SparkSession, postgres_server: Server, tmp_path: Path, by_tx: bool
) -> None:
    store = Store.make(postgres_server)
    flow = flow_of(spark, tmp_path, store, by_tx)
    with psycopg.connect(store.dsn) as late, psycopg.connect(store.dsn) as never:
        assert (insert(late), insert(never)) == (1, 2)
        store.add(2)
        assert flow.step() == [3, 4]
        never.rollback()
        store.add(1)
        assert flow.step() == [5]
        assert flow.step() is None
        flow.restart()
        insert(late)
        store.add(1)
        late.commit()
        assert flow.step(crash=True) == [1, 6, 7]
    assert flow.step() is None
    assert flow.reader.lag(flow.position).records == 0  # type: ignore[union-attr]


def test_a_number_taken_long_before_its_row(
    spark: SparkSession, postgres_server: Server, tmp_path: Path, by_tx: bool
) -> None:
    """Who has a number but no row yet has no transaction id either: no snapshot shows it."""
    store = Store.make(postgres_server)
    flow = flow_of(spark, tmp_path, store, by_tx)
    with psycopg.connect(store.dsn) as late:
        late.execute("SELECT nextval('events_global_position_seq')")
        store.add(1)
        assert flow.step() == [2]
        assert flow.step() is None
        flow.restart()
        assert flow.step() is None
        late.execute("INSERT INTO events (global_position) VALUES (1)")
        late.commit()
        assert flow.step() == [1]


def test_prepared_transactions(spark: SparkSession, two_phase: Server, tmp_path: Path, by_tx: bool) -> None:
    store = Store.make(two_phase)
    flow = flow_of(spark, tmp_path, store, by_tx)
    with psycopg.connect(store.dsn, autocommit=True) as other:
        other.execute("BEGIN")
        assert insert(other) == 1
        store.add(1)
        assert flow.step() == [2]
        assert flow.step() is None  # it knows by now who is writing
        other.execute("PREPARE TRANSACTION 'one'")
        assert flow.step() is None
        flow.restart()
        assert flow.step() is None
        other.execute("COMMIT PREPARED 'one'")
    assert flow.step() == [1]


def test_gaps_are_settled_once_nobody_can_fill_them(
    spark: SparkSession, postgres_server: Server, tmp_path: Path
) -> None:
    store = Store.make(postgres_server)
    flow = flow_of(spark, tmp_path, store, by_tx=False)

    def open_gaps() -> Any:
        return flow.reader.lag(flow.position).detail["open_gaps"]  # type: ignore[union-attr]

    with (
        psycopg.connect(store.dsn) as reading,
        psycopg.connect(store.dsn) as writing,
        psycopg.connect(store.dsn) as off,
    ):
        reading.execute("SELECT count(*) FROM events")  # a long report is no writer
        insert(writing)
        insert(off)
        store.add(1)
        assert flow.step() == [3]
        off.rollback()
        assert flow.step() is None
        assert open_gaps() == 1
        writing.rollback()
        assert flow.step() is None
        assert open_gaps() == 0


@follows("end it, or add a transaction column: headwater source prepare {}", here=False)
def test_too_many_gaps_wait(
    spark: SparkSession,
    postgres_server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is kept in mind is bounded."""
    monkeypatch.setattr(gaps, "MAX_OPEN", 3)
    store = Store.make(postgres_server)
    flow = flow_of(spark, tmp_path, store, by_tx=False, max_rows=2)
    with psycopg.connect(store.dsn) as late:
        insert(late)
        for _ in range(5):
            store.run("SELECT nextval('events_global_position_seq')")
            store.add(1)
        assert flow.step() == [3, 5]
        assert flow.step() == [7, 9]
        with caplog.at_level(logging.WARNING):
            assert flow.step() is None
        assert '"hint": "end it, or add a transaction column: headwater source prepare store"' in caplog.text
        late.commit()
    assert flow.all() == [1, 11]


@follows("headwater source prepare {}", here=False)
def test_a_transaction_column_without_an_index(
    spark: SparkSession, postgres_server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its events are read, and that it takes long is said until there is one."""
    store = Store.make(postgres_server)
    store.run(WITH_TX.partition(";")[0])
    store.add(1)
    flow = Flow(spark, tmp_path / "flow", {"dsn": store.dsn, **NAMED})
    with caplog.at_level(logging.WARNING):
        assert flow.step() == [1]
        assert "no index on the transaction column" in caplog.text
        assert '"hint": "headwater source prepare store"' in caplog.text
        caplog.clear()
        project = Project.make(tmp_path / "shop", store, **NAMED)
        assert project.command("source", "prepare", "store", "--run").code == 0
        flow.restart()
        store.add(1, since=1)
        assert flow.step() == [2]
    assert "no index" not in caplog.text


def test_a_column_added_later(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    store = Store.make(postgres_server)
    flow = flow_of(spark, tmp_path, store, by_tx=False)
    with psycopg.connect(store.dsn) as late:
        late.execute("SELECT nextval('events_global_position_seq')")
        store.add(2)
        assert flow.step() == [2, 3]
        store.add(1)
        store.run(WITH_TX)
        flow.restart(**NAMED)
        store.add(1)
        assert flow.step(crash=True) == [4, 5]
        late.execute("INSERT INTO events (global_position) VALUES (1)")
        late.commit()
    assert flow.step() == [1]
    flow.restart(columns={})
    with pytest.raises(HeadwaterError, match="by its transaction column") as caught:
        flow.step()
    assert str(caught.value.code) == "SOURCE_CHANGED"


def test_a_backlog_in_steps_and_parts(
    spark: SparkSession, postgres_server: Server, tmp_path: Path, by_tx: bool
) -> None:
    """Many events by Spark's tasks; meanwhile others come, and one that was late."""
    store = Store.make(postgres_server)
    flow = flow_of(spark, tmp_path, store, by_tx, max_rows=25_000, max_connections=3)
    with psycopg.connect(store.dsn) as late:
        insert(late)
        store.add(60_000)
        first = flow.step(crash=True)
        assert first == list(range(2, 25_002))
        late.commit()
        store.add(10)
        rest = flow.all()
    assert sorted(first + rest) == list(range(1, 60_012))
    assert flow.step() is None


def test_another_table_or_cluster(spark: SparkSession, postgres_server: Server, tmp_path: Path, by_tx: bool) -> None:
    store = Store.make(postgres_server)
    flow = flow_of(spark, tmp_path, store, by_tx)
    store.add(2)
    assert flow.step() == [1, 2]
    assert json.loads(json.dumps(flow.position))["system"]
    here, flow.position = flow.position, {**flow.position, "system": "1"}
    with pytest.raises(HeadwaterError, match="another database cluster") as caught:
        flow.step()
    assert str(caught.value.code) == "SOURCE_CHANGED"
    flow.position = here
    if not by_tx:
        store.run("DROP TABLE events")
        store.run(TABLE)
        flow.restart()
        with pytest.raises(HeadwaterError, match="another table") as caught:
            flow.step()
        assert str(caught.value.code) == "SOURCE_CHANGED"
        return
    # Another server has taken over, and has lost and given out again what the flow has read.
    flow.position = {**here, "timeline": 0, "snapshot": "3:900000:"}
    store.add(1)
    assert flow.step(crash=True) == [3]
    store.add(1)
    assert flow.step() == [4]
    store.run("UPDATE events SET tx = '99999999' WHERE global_position = 1")
    flow.restart()
    with pytest.raises(HeadwaterError, match="came with a dump") as caught:
        flow.step()
    assert 'SET "tx" = NULL' in str(caught.value)


def test_ranges() -> None:
    """As sets of numbers."""
    rng = random.Random(1)

    def some() -> Ranges:
        return Ranges.of((low, low + rng.randint(0, 4)) for low in rng.choices(range(60), k=rng.randint(0, 8)))

    def numbers(ranges: Ranges) -> set[int]:
        return {n for low, high in ranges.runs for n in range(low, high + 1)}

    for _ in range(2000):
        one, other, low = some(), some(), rng.randint(0, 60)
        assert numbers(one - other) == numbers(one) - numbers(other)
        assert numbers(one | other) == numbers(one) | numbers(other)
        assert numbers(one.within(low, low + 9)) == numbers(one) & set(range(low, low + 10))
        assert Ranges.from_json(one.to_json()) == one
