"""A source that is written to without a pause, and flows that share its log: none waits for what never ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import HeadwaterError
from headwater.sources.postgres.cdc import frames
from headwater.sources.postgres.cdc.reader import PostgresCdcReader
from headwater.sources.reader import OffsetRange, Position
from tests.sources.cdc_lab import Crm, Follower

A, B = "public.a", "public.b"


@contextmanager
def busy(dsn: str, seconds: int) -> Iterator[list[threading.Thread]]:
    """Writers at the server itself, which commit row by row for so long, or until they are cancelled."""
    until = f"clock_timestamp() + interval '{seconds} s'"
    one = "INSERT INTO a (w) VALUES (1); COMMIT; PERFORM pg_sleep(0.001);"
    sql = (
        f"DO $$ DECLARE until timestamptz := {until}; BEGIN WHILE clock_timestamp() < until LOOP {one} END LOOP; END $$"
    )
    connections = [psycopg.connect(dsn, autocommit=True) for _ in range(2)]

    def write(connection: psycopg.Connection[Any]) -> None:
        with connection, suppress(psycopg.errors.QueryCanceled):
            connection.execute(sql)  # type: ignore[call-overload]

    writers = [threading.Thread(target=write, args=(connection,), daemon=True) for connection in connections]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for connection in connections:
            connection.cancel()
        for writer in writers:
            writer.join(30)


def test_a_range_ends_while_writers_go_on(spark: SparkSession, crm: Crm) -> None:
    """It ends where the log did when it was asked for, however quickly more comes."""
    crm.run("CREATE TABLE a (id bigserial PRIMARY KEY, w int)")
    flow = Follower(spark, crm, A, (A,))
    flow.all()
    with busy(crm.dsn, 15) as writers:
        while not crm.one("SELECT count(*) FROM a"):
            time.sleep(0.01)
        rows = [len(flow.take() or []) for _ in range(2)]
        assert all(writer.is_alive() for writer in writers), "it had to wait for the writers to end"
    rows.append(len(flow.all()))
    assert all(rows[:2]) and sum(rows) == crm.one("SELECT count(*) FROM a")
    flow.close()


def test_a_flow_that_can_not_write_holds_up_no_other(
    spark: SparkSession, crm: Crm, monkeypatch: pytest.MonkeyPatch
) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    stuck, other = Follower(spark, crm, A, (A, B)), Follower(spark, crm, B, (A, B))
    stuck.all(), other.all()
    crm.run("INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (1)")
    monkeypatch.setattr(frames, "FEW_ROWS", 0)  # through files, one for each batch
    monkeypatch.setattr(frames, "FILE_BYTES", 1)
    (crm.folder / A / "changes").write_text("a file where a folder has to be")
    found: list[OffsetRange | None] = []

    def look(reader: PostgresCdcReader, position: Position) -> None:
        found.append(reader.next(position))

    with pytest.raises((OSError, HeadwaterError)) as raised:
        stuck.take()
    thread = threading.Thread(target=look, args=(other.reader, other.position), daemon=True)
    thread.start()
    thread.join(20)
    assert found and found[0] is not None and found[0].rows == 1, "held up by one that failed"
    assert "changes" in str(raised.value)  # it is still at hand, as in the runner's report, with all that it refers to
    (crm.folder / A / "changes").unlink()
    assert [row["after"]["id"] for row in stuck.all()] == ["1", "2"]
    stuck.close()
    other.close()
