"""A standby takes over at the same address: the flow goes on where that has all of it, and else says what is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, TerminalError, TransientError
from headwater.sources.postgres.cdc import reader
from tests.services.postgres import Server, Standby, data_folder
from tests.sources.cdc_lab import Crm, Follower, told

A, SLOT = "public.a", "headwater_shop_crm"


@dataclass
class Pair:
    """A source with a standby, and the flow of its table."""

    primary: Server
    standby: Standby
    crm: Crm
    flow: Follower

    def sync(self) -> None:
        """Until the standby has the slot, too, which it takes once the log has gone on."""
        until, n = time.monotonic() + 60, 1000
        copy = Crm(self.standby.address(self.crm.connection.info.dbname), self.crm.folder)
        found = f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{SLOT}' AND synced AND NOT temporary"
        while not copy.one(found):
            assert time.monotonic() < until, self.standby.log()
            n += 1
            self.crm.run(f"INSERT INTO a VALUES ({n})", "SELECT pg_log_standby_snapshot()")
            self.flow.all()
            time.sleep(0.1)
        copy.connection.close()

    def take_over(self) -> None:
        """Both are down: the standby comes up at the address of the other, and takes over a little later."""
        with pytest.raises(TransientError, match="can't be reached|terminating"):
            self.flow.take()
        self.standby.start_at(self.primary)
        with pytest.raises(TransientError, match="is a standby") as raised:
            self.flow.take()
        assert raised.value.code is Code.SOURCE_UNAVAILABLE and "target_session_attrs" in str(raised.value)
        self.standby.promote()
        self.crm.connect()


@pytest.fixture
def pair(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(reader, "ADVANCE_EVERY", 0.0)
    with data_folder() as folder, ExitStack() as stack:
        folders = [folder / name for name in ("primary", "standby")]
        folder.chmod(0o755)
        for one in folders:
            one.mkdir()
            one.chmod(0o755)
        primary = Server(folders[0])
        stack.callback(_stop, primary)
        crm = Crm(primary.database(), tmp_path)
        if crm.connection.info.server_version < 170000:
            pytest.skip("before Postgres 17 a standby has no slots for changes")
        crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
        flow = Follower(spark, crm, A, (A,))
        flow.all()
        standby = Standby(folders[1], primary)
        stack.callback(_stop, standby)
        yield Pair(primary, standby, crm, flow)
        crm.connection.close()


def _stop(server: Server) -> None:
    with suppress(TerminalError):  # it is stopped
        server.stop("immediate")


def _take_for_ever(flow: Follower) -> None:
    while True:
        flow.close()
        flow.restart()
        flow.take()


def test_a_standby_that_has_all_is_gone_on_with(pair: Pair) -> None:
    crm, flow = pair.crm, pair.flow
    pair.sync()
    crm.run("INSERT INTO a VALUES (2)")
    pair.primary.stop()
    pair.standby.stop()
    pair.take_over()
    crm.run("INSERT INTO a VALUES (3)")
    assert told(flow.all()) == [("i", None, {"id": "2"}), ("i", None, {"id": "3"})]
    assert flow.position["timeline"] == 2
    flow.close()
    flow.restart()
    crm.run("DELETE FROM a WHERE id = 3")
    assert told(flow.all()) == [("d", {"id": "3"}, None)]
    flow.close()


def test_nothing_came_since_it_took_over(pair: Pair) -> None:
    """The position is of the old server's log, and what is known to be nothing of the new one's."""
    crm, flow = pair.crm, pair.flow
    pair.sync()
    pair.primary.ask_to_stop()
    with pytest.raises(TransientError, match="shutting down"):
        _take_for_ever(flow)
    pair.primary.stop()
    pair.standby.stop()
    pair.take_over()
    crm.run("CREATE TABLE b (id int)")
    for _ in range(2):
        assert flow.all() == [] and flow.position["timeline"] == 1
        flow.close()
        flow.restart()
    crm.run("INSERT INTO a VALUES (2)")
    assert told(flow.all()) == [("i", None, {"id": "2"})]
    flow.close()


def test_a_standby_that_lacks_what_was_read(pair: Pair) -> None:
    """It never had the last changes, and by now its log is longer than the other's was."""
    crm, flow = pair.crm, pair.flow
    pair.sync()
    pair.standby.stop()
    crm.run("INSERT INTO a VALUES (2)")
    assert told(flow.all())[-1] == ("i", None, {"id": "2"})
    read = crm.one("SELECT pg_current_wal_lsn()")
    pair.primary.stop("immediate")
    pair.take_over()
    crm.run("INSERT INTO a VALUES (3)", "CREATE TABLE b (v text)")
    while crm.one(f"SELECT pg_current_wal_lsn() <= '{read}'"):
        crm.run("INSERT INTO b SELECT md5(n::text) FROM generate_series(1, 1000) n")
    _require_lost(pair, "had the log up to")


def test_a_standby_without_the_slot(pair: Pair) -> None:
    crm = pair.crm
    pair.primary.stop()
    pair.standby.stop()
    pair.take_over()
    if SLOT in crm.slots():  # it was quick
        crm.run(f"SELECT pg_drop_replication_slot('{SLOT}')")
    crm.run("INSERT INTO a VALUES (3)")
    _require_lost(pair, "is gone")


def _require_lost(pair: Pair, reason: str) -> None:
    """It stops and says so; the rows that are there now come when they are asked for."""
    crm, flow = pair.crm, pair.flow
    with pytest.raises(TerminalError, match=reason) as raised:
        flow.reader.next(flow.position)
    assert raised.value.code is Code.DATA_LOSS and "flow rebuild" in str(raised.value)
    flow.close()
    flow.restart(on_data_loss="resnapshot")
    ids = [str(id) for (id,) in crm.connection.execute("SELECT id FROM a ORDER BY id::text").fetchall()]
    found = told(flow.all())
    assert found[0] == ("t", None, None) and sorted(after["id"] for _, _, after in found[1:]) == ids
    crm.run("INSERT INTO a VALUES (4)")
    assert told(flow.all()) == [("i", None, {"id": "4"})]
    flow.close()
