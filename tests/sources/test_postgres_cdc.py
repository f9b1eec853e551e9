"""Postgres CDC by its reader: snapshot, stream, ranges that are read again, the slot, and what may become of it."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, IntegrityError, TerminalError, TransientError
from headwater.sources.postgres.cdc import database, hub, reader, snapshot
from tests.hints.followed import follows
from tests.services.postgres import Server
from tests.sources.cdc_lab import Crm, Follower, told

A, B = "public.a", "public.b"
Follow = Callable[..., Follower]


@pytest.fixture
def follow(spark: SparkSession, crm: Crm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follow]:
    """Followers of the tables a and b; what is wrong with the source is noticed at once."""
    monkeypatch.setattr(reader, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(reader, "ADVANCE_EVERY", 0.0)
    made: list[Follower] = []

    def one(table: str = A, **settings: Any) -> Follower:
        made.append(Follower(spark, crm, table, (A, B), settings))
        return made[-1]

    yield one
    for follower in made:
        try:
            follower.close()
        except HeadwaterError:
            pass  # its server is gone


def test_rows_first_and_then_every_change(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY, v text)", "INSERT INTO a VALUES (1, 'x'), (2, NULL)")
    flow = follow()
    assert told(flow.all()) == [("r", None, {"id": "1", "v": "x"}), ("r", None, {"id": "2", "v": None})]
    crm.run("INSERT INTO a VALUES (3, 'ü'), (4, '')", "UPDATE a SET v = 'y' WHERE id = 1")
    with crm.connection.transaction():
        crm.run("UPDATE a SET id = 30 WHERE id = 3", "DELETE FROM a WHERE id = 2")
        with pytest.raises(psycopg.errors.UniqueViolation), crm.connection.transaction():
            crm.run("DELETE FROM a WHERE id = 4", "INSERT INTO a VALUES (1, 'twice')")
    with pytest.raises(psycopg.errors.UniqueViolation), crm.connection.transaction():
        crm.run("INSERT INTO a VALUES (5, 'never')", "INSERT INTO a VALUES (1, 'twice')")
    crm.run("TRUNCATE a", "INSERT INTO a VALUES (6, 'z')")
    rows = flow.all()
    assert told(rows) == [
        ("i", None, {"id": "3", "v": "ü"}),
        ("i", None, {"id": "4", "v": ""}),
        ("u", None, {"id": "1", "v": "y"}),
        ("u", {"id": "3"}, {"id": "30", "v": "ü"}),
        ("d", {"id": "2"}, None),
        ("t", None, None),
        ("i", None, {"id": "6", "v": "z"}),
    ]
    assert len({row["at"] for row in rows}) == len(rows)
    by_transaction = [row["at"].split("/")[0] for row in rows]
    assert by_transaction[0] == by_transaction[1] != by_transaction[2] and by_transaction[3] == by_transaction[4]
    assert flow.take() is None


def test_values_that_are_not_sent_again(crm: Crm, follow: Follow) -> None:
    big = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 200) n)"
    crm.run(
        "CREATE TABLE a (id int PRIMARY KEY, big text, n int)",
        "CREATE TABLE b (id int PRIMARY KEY, big text, n int)",
        "ALTER TABLE b REPLICA IDENTITY FULL",
        "ALTER TABLE a ALTER big SET STORAGE EXTERNAL; ALTER TABLE b ALTER big SET STORAGE EXTERNAL",
    )
    by_key, whole = follow(A), follow(B)
    assert by_key.all() == whole.all() == []
    for table in "ab":
        crm.run(f"INSERT INTO {table} VALUES (1, {big}, 1)", f"UPDATE {table} SET n = 2", f"DELETE FROM {table}")
    value = crm.one(f"SELECT {big}")
    _, update, delete = by_key.all()
    assert update["_unchanged"] == ["big"] and update["after"] == {"id": "1", "n": "2"} and "before" not in update
    assert delete["before"] == {"id": "1"}
    _, update, delete = whole.all()
    assert "_unchanged" not in update and update["after"] == {"id": "1", "big": value, "n": "2"}
    assert update["before"] == delete["before"] | {"n": "1"} == {"id": "1", "big": value, "n": "1"}


def test_a_range_is_read_again_as_it_was(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a SELECT generate_series(1, 50)")
    flow = follow()
    ahead = flow.reader.next(None)
    assert ahead is not None
    end = json.loads(json.dumps(flow.reader.fix_range(None, ahead)))
    crm.run("DELETE FROM a WHERE id <= 25")
    flow.close()
    flow.restart()  # after its intent was written, and before its commit
    assert [row["after"]["id"] for row in flow.read(end)] == [str(n) for n in range(1, 51)]
    flow.reader.committed(end)
    flow.position = end
    first = flow.take(commit=False)
    ahead = flow.reader.next(flow.position)
    assert ahead is not None and first is not None and len(first) == 25 == ahead.rows
    crm.run("INSERT INTO a VALUES (100)")
    flow.close()
    flow.restart()
    assert flow.read(ahead.end) == first
    assert told(flow.all()) == told([*first, {"op": "i", "after": {"id": "100"}}])


def test_a_snapshot_that_is_cut_off_begins_anew(crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = follow()
    ahead = flow.reader.next(None)
    assert ahead is not None
    flow.reader.fix_range(None, ahead)
    crm.run("INSERT INTO a VALUES (2)")
    flow.close()
    flow.restart()  # killed before its intent was written: nothing is known of it
    assert told(flow.all()) == [("r", None, {"id": "1"}), ("r", None, {"id": "2"})]
    crm.run("DELETE FROM a WHERE id = 1")
    assert told(flow.all()) == [("d", {"id": "1"}, None)]


def test_each_transaction_is_in_the_snapshot_or_in_the_stream(crm: Crm, follow: Follow) -> None:
    """Writers go on while the snapshot is taken: no gap, no double."""
    crm.run("CREATE TABLE a (id bigserial PRIMARY KEY, w int)", "CREATE TABLE b (id int PRIMARY KEY)")
    follow(B).all()  # the slot is there, and another flow holds it
    over = threading.Event()

    def write(number: int) -> None:
        with psycopg.connect(crm.dsn) as connection:
            while not over.is_set():
                connection.execute("INSERT INTO a (w) SELECT %s FROM generate_series(1, 3)", [number])
                if number % 2:
                    time.sleep(0.01)
                connection.commit()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        flow = follow(A)
        rows = flow.all()
    finally:
        over.set()
        for writer in writers:
            writer.join()
    rows += flow.all()
    ids = sorted(int(row["after"]["id"]) for row in rows)
    assert {row["op"] for row in rows} == {"r", "i"}
    assert ids == [n for (n,) in crm.connection.execute("SELECT id FROM a ORDER BY id").fetchall()]
    snapshot_end = max(row["at"] for row in rows if row["op"] == "r")
    assert snapshot_end < min(row["at"] for row in rows if row["op"] == "i")


def test_the_slot_waits_for_every_flow(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    one, other = follow(A), follow(B)
    one.all(), other.all()
    begun = crm.slots()["headwater_shop_crm"]
    crm.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    other.close()  # it is paused, and another process may be its next
    one.all()
    assert crm.slots()["headwater_shop_crm"] < crm.one("SELECT (pg_current_wal_lsn() - '0/0')::int8")
    lag = one.reader.lag(one.position)
    assert lag is not None and lag.detail["held_by"] == "topics.public.b" and lag.detail["wal_held_back"] > 0
    assert lag.bytes is not None and lag.bytes < 10_000  # the server writes a little by itself
    held = crm.slots()["headwater_shop_crm"]
    crm.run("INSERT INTO a VALUES (2)")
    assert told(one.all()) == [("i", None, {"id": "2"})] and crm.slots()["headwater_shop_crm"] == held
    other.restart()
    assert told(other.all()) == [("i", None, {"id": "1"})]
    one.all()
    assert crm.slots()["headwater_shop_crm"] > max(begun, held)
    slots = set(crm.slots())
    assert slots - {"headwater_shop_crm"} == {name for name in slots if "_tmp_" in name}
    one.close(), other.close()
    assert crm.settled_slots(1) == {"headwater_shop_crm"}


def test_a_flow_that_has_nothing_to_do_costs_little(crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LOOK_EVERY", 1000.0)
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    one, other = follow(A), follow(B)
    one.all(), other.all()
    copy, copies = database.CdcDatabase.copy_slot, []
    monkeypatch.setattr(database.CdcDatabase, "copy_slot", lambda self, c: copies.append(1) or copy(self, c))
    for n in range(10):
        crm.run(f"INSERT INTO a VALUES ({n})")
        assert other.take() is None
        assert told(one.take() or []) == [("i", None, {"id": str(n)})]
    crm.run("INSERT INTO b VALUES (1)")
    assert told(other.take() or []) == [("i", None, {"id": "1"})] and len(copies) <= 2


def test_a_restart_after_nothing_came_for_long(crm: Crm, follow: Follow) -> None:
    """The slot has let go of others' changes: a flow whose last step is found to have landed needs none of them."""
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE other (id int)")
    flow = follow()
    flow.all()
    crm.run("INSERT INTO other SELECT generate_series(1, 1000)")
    assert flow.all() == []
    before = crm.slots()["headwater_shop_crm"]
    for _ in range(2):
        flow.close()
        flow.restart()
        flow.reader.committed(flow.position)  # as at every start
    assert flow.all() == [] and crm.slots()["headwater_shop_crm"] >= before
    crm.run("INSERT INTO a VALUES (1)")
    assert told(flow.all()) == [("i", None, {"id": "1"})]


def test_a_table_that_comes_later(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    one = follow(A)
    one.all()
    crm.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)")
    assert [name for (name,) in crm.connection.execute("SELECT tablename FROM pg_publication_tables")] == ["a"]
    other = follow(B)
    assert [row["op"] + row["after"]["id"] for row in other.all()] == ["r1", "r2"]
    crm.run("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (3)")
    assert [row["after"]["id"] for row in one.all()] == ["1", "2"]
    assert [row["after"]["id"] for row in other.all()] == ["3"]


def test_large_transactions_go_through_files(crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "AT_ONCE", 500)
    crm.run("CREATE TABLE a (id int PRIMARY KEY, v text)", "CREATE TABLE b (id int PRIMARY KEY)")
    flow = follow(A, max_rows=1000)
    flow.all()
    crm.run("INSERT INTO a SELECT n, repeat('x', 400) FROM generate_series(1, 12000) n")
    crm.run("INSERT INTO b SELECT generate_series(1, 1000)")
    for n in range(12001, 14001, 400):
        crm.run(f"INSERT INTO a SELECT n, 'y' FROM generate_series({n}, {n + 399}) n")
    ahead = flow.reader.next(flow.position)
    assert ahead is not None and ahead.rows == 12000 and ahead.full
    sizes = []
    flow.reader.freeze()
    while (rows := flow.take()) is not None:
        sizes.append([int(row["after"]["id"]) for row in rows])
    assert [n for size in sizes for n in size] == list(range(1, 14001))
    assert len(sizes[0]) == 12000 and all(1000 <= len(size) <= 1800 or size is sizes[-1] for size in sizes[1:])


def test_a_flow_that_is_far_behind_reads_the_log_again(
    crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "AT_ONCE", 50)
    monkeypatch.setattr(hub, "MOST_BATCHES", 3)
    monkeypatch.setattr(hub, "IN_MEMORY", 0)
    monkeypatch.setattr(hub, "PATIENCE", 0.01)
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    quick, slow = follow(A, max_rows=100), follow(B, max_rows=100)
    quick.all(), slow.all()
    for n in range(0, 1000, 20):
        crm.run(*(f"INSERT INTO {t} SELECT n FROM generate_series({n}, {n + 19}) n" for t in "ab"))
    found: dict[str, list[int]] = {A: [], B: []}
    for turn in range(200):
        flow = quick if turn % 3 else slow
        rows = flow.take()
        found[flow.table] += [int(row["after"]["id"]) for row in rows or []]
    assert found == {A: list(range(1000)), B: list(range(1000))}


def test_a_partitioned_table_and_generated_columns(crm: Crm, follow: Follow) -> None:
    crm.run(
        'CREATE TABLE a (id int, "Name x" text, g int GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id))'
        " PARTITION BY RANGE (id)",
        "CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10)",
        'CREATE TABLE a2 ("Name x" text, id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED)',
        "ALTER TABLE a ATTACH PARTITION a2 FOR VALUES FROM (10) TO (20)",
        "INSERT INTO a VALUES (1, 'one'), (11, 'eleven')",
    )
    flow = follow()
    assert [row["after"] for row in flow.all()] == [{"id": "1", "Name x": "one"}, {"id": "11", "Name x": "eleven"}]
    crm.run("INSERT INTO a VALUES (2, 'two')", "UPDATE a SET id = 12 WHERE id = 2")
    assert told(flow.all()) == [
        ("i", None, {"id": "2", "Name x": "two"}),
        ("d", {"id": "2"}, None),
        ("i", None, {"id": "12", "Name x": "two"}),
    ]


def test_without_a_snapshot(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = follow(snapshot="never")
    assert flow.all() == []
    crm.run("INSERT INTO a VALUES (2)")
    flow.close()
    flow.restart()
    assert told(flow.all()) == [("i", None, {"id": "2"})]


# --- what may become of a source


def spoilt_by_drop(crm: Crm) -> str:
    crm.run("SELECT pg_drop_replication_slot('headwater_shop_crm')")
    return "is gone"


def spoilt_by_others(crm: Crm) -> str:
    crm.run(
        "INSERT INTO a VALUES (77)", "SELECT pg_replication_slot_advance('headwater_shop_crm', pg_current_wal_lsn())"
    )
    return "begins at"


def spoilt_by_publication(crm: Crm) -> str:
    crm.run("ALTER PUBLICATION headwater_shop_crm DROP TABLE a")
    return "taken out of the publication"


def spoilt_by_publication_for_a_while(crm: Crm) -> str:
    crm.run("ALTER PUBLICATION headwater_shop_crm DROP TABLE a", "INSERT INTO a VALUES (55)")
    crm.run("ALTER PUBLICATION headwater_shop_crm ADD TABLE a")
    return "taken out of the publication"


def spoilt_by_table(crm: Crm) -> str:
    crm.run("DROP TABLE a", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    return "dropped and made again"


SPOILT = [spoilt_by_drop, spoilt_by_others, spoilt_by_publication, spoilt_by_publication_for_a_while, spoilt_by_table]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_loss_is_noticed_and_rows_come_again_only_when_asked(
    crm: Crm, follow: Follow, spoil: Callable[[Crm], str]
) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = follow()
    flow.all()
    flow.close()
    reason = spoil(crm)
    crm.run("INSERT INTO a VALUES (2)")
    flow.restart()
    with pytest.raises(TerminalError, match=reason) as raised:
        flow.reader.next(flow.position)
    assert raised.value.code is Code.DATA_LOSS and "flow rebuild" in str(raised.value)
    flow.close()
    flow.restart(on_data_loss="resnapshot")
    rows = flow.all()
    assert told(rows)[0] == ("t", None, None) and {row["op"] for row in rows[1:]} == {"r"}
    ids = crm.connection.execute("SELECT id::text FROM a ORDER BY id").fetchall()
    assert sorted(row["after"]["id"] for row in rows[1:]) == sorted(id for (id,) in ids)
    crm.run("INSERT INTO a VALUES (3)")
    assert told(flow.all()) == [("i", None, {"id": "3"})]


def test_a_step_that_is_open_when_its_changes_go(crm: Crm, follow: Follow) -> None:
    """Its range can't be read any more: the rows come again only when asked, after the step has ended without any."""
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = follow()
    flow.all()
    crm.run("INSERT INTO a VALUES (2)")
    ahead = flow.reader.next(flow.position)
    assert ahead is not None
    flow.close()
    spoilt_by_drop(crm)
    flow.restart()
    with pytest.raises(TerminalError, match="is gone") as raised:
        flow.read(ahead.end)
    assert raised.value.code is Code.DATA_LOSS
    flow.close()
    flow.restart(on_data_loss="resnapshot")
    assert flow.read(ahead.end) == []
    flow.reader.committed(ahead.end)
    flow.position = ahead.end
    flow.close()
    crm.run("SELECT pg_create_logical_replication_slot('headwater_shop_crm', 'pgoutput')")  # as another flow would
    flow.restart()
    assert told(flow.all()) == [("t", None, None), ("r", None, {"id": "1"}), ("r", None, {"id": "2"})]
    flow.close()
    flow.restart()
    crm.run("INSERT INTO a VALUES (3)")
    assert told(flow.all()) == [("i", None, {"id": "3"})]


def test_a_slot_that_is_dropped_while_it_is_read(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)")
    flow = follow()
    flow.all()
    spoilt_by_drop(crm)
    crm.run("INSERT INTO a VALUES (2)")
    with pytest.raises(TerminalError, match="is gone") as raised:
        flow.reader.next(flow.position)
    assert raised.value.code is Code.DATA_LOSS


@follows("`headwater flow rebuild {} --yes` begins again with all rows; `on_data_loss: resnapshot` …")
def test_an_invalidated_slot_and_another_server(
    crm: Crm, follow: Follow, spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.services.postgres import LOGICAL, server

    small = {**LOGICAL, "max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "48MB"}
    with server(small) as other:
        elsewhere = Crm(other.database(), tmp_path / "other")
        elsewhere.run("CREATE TABLE a (id int PRIMARY KEY, v text)")
        flow = Follower(spark, elsewhere, A, (A,))
        flow.all()
        flow.close()
        elsewhere.run("CREATE TABLE much (v text)")
        for _ in range(5):
            elsewhere.run("INSERT INTO much SELECT repeat(md5(n::text), 20) FROM generate_series(1, 25000) n")
            elsewhere.run("SELECT pg_switch_wal()", "CHECKPOINT")
        assert elsewhere.one("SELECT wal_status FROM pg_replication_slots") == "lost"
        flow.restart()
        with pytest.raises(TerminalError, match="invalidated") as raised:
            flow.reader.next(flow.position)
        assert raised.value.code is Code.DATA_LOSS
        flow.close()
        flow.restart(on_data_loss="resnapshot")
        assert told(flow.all()) == [("t", None, None)]
        flow.close()
    crm.run("CREATE TABLE a (id int PRIMARY KEY, v text)")
    flow.crm = crm
    flow.restart(on_data_loss="fail")
    with pytest.raises(TerminalError, match="another server"):
        flow.reader.next(flow.position)
    flow.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_of_the_server(crm: Crm, follow: Follow, postgres_server: Server, mode: str) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = follow()
    flow.all()
    crm.run("INSERT INTO a VALUES (2)")
    unlanded = flow.take(commit=False)
    postgres_server.stop(mode)
    try:
        with pytest.raises(TransientError) as raised:
            flow.take()
        assert raised.value.code is Code.SOURCE_UNAVAILABLE
    finally:
        postgres_server.start()
    crm.connect()
    crm.run("INSERT INTO a VALUES (3)")
    flow.close()
    flow.restart()
    assert unlanded is not None and told(flow.all()) == [*told(unlanded), ("i", None, {"id": "3"})]


def test_a_connection_that_is_ended_by_an_administrator(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)")
    flow = follow()
    flow.all()
    crm.run("INSERT INTO a VALUES (1)")
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    crm.run(f"{others} AND datname = current_database()")
    with pytest.raises(TransientError):
        flow.take()
    flow.close()
    flow.restart()
    assert told(flow.all()) == [("i", None, {"id": "1"})]


def test_a_start_over_takes_back_what_was_there(crm: Crm, follow: Follow) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = follow()
    flow.all()
    crm.run("DELETE FROM a", "INSERT INTO a VALUES (2)")
    flow.close()
    flow.epoch, flow.position = 2, None
    flow.restart()
    assert told(flow.all()) == [("t", None, None), ("r", None, {"id": "2"})]
    crm.run("INSERT INTO a VALUES (3)")
    assert told(flow.all()) == [("i", None, {"id": "3"})]


@follows("`headwater flow rebuild {} --yes` begins again with all rows")
def test_rows_that_were_being_taken_in_and_are_gone(crm: Crm, follow: Follow) -> None:
    """As after a crash between the snapshot and the step's commit, and a hand that has cleaned up since."""
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = follow()
    ahead = flow.reader.next(flow.position)
    assert ahead is not None
    end = json.loads(json.dumps(flow.reader.fix_range(flow.position, ahead)))
    shutil.rmtree(crm.folder / A / "snapshot")
    with pytest.raises(IntegrityError, match="are gone"):
        flow.read(end)
    flow.close()
    flow.epoch, flow.position = 2, None  # what a rebuild does
    flow.restart()
    assert told(flow.all())[-1] == ("r", None, {"id": "1"})


def test_a_table_that_is_altered_while_its_snapshot_is_taken(
    crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY, v int)", "INSERT INTO a VALUES (1, 7)")
    require, calls = snapshot.require, []

    def altering(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:  # the snapshot is there, and the table is not locked yet
            crm.run("ALTER TABLE a ALTER v TYPE text")
        return require(*arguments)

    monkeypatch.setattr(snapshot, "require", altering)
    flow = follow()
    assert told(flow.all()) == [("r", None, {"id": "1", "v": "7"})] and len(calls) == 2
    assert flow.reader._relations.all()[-1].columns[1].type.name == "text"


def test_a_partition_that_is_truncated_while_its_snapshot_is_taken(
    crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    crm.run(
        "CREATE TABLE a (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10)",
        "INSERT INTO a VALUES (1), (2)",
    )
    require, calls = snapshot.require, []

    def truncating(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            crm.run("TRUNCATE a", "INSERT INTO a VALUES (3)")
        return require(*arguments)

    monkeypatch.setattr(snapshot, "require", truncating)
    assert told(follow().all()) == [("r", None, {"id": "3"})] and len(calls) == 2


def test_two_processes_share_a_slot(crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    one, other = follow(A), follow(B)
    one.all()
    monkeypatch.setattr(hub, "_hubs", {})  # the other one is in a process of its own
    other.all()
    assert one.reader._hub is not other.reader._hub
    crm.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    assert told(one.all()) == told(other.all()) == [("i", None, {"id": "1"})]
    assert len(crm.settled_slots(3)) == 3


@follows("stop the program that uses it, or name another with `slot`: one that is not there is made")
def test_a_slot_in_use_is_waited_for(crm: Crm, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.3)
    crm.run("CREATE TABLE a (id int PRIMARY KEY)")
    flow = follow()
    flow.all()
    flow.close()
    flow.restart()
    taken = psycopg.connect(f"{crm.dsn}?replication=database&application_name=debezium", autocommit=True)
    command = b"START_REPLICATION SLOT headwater_shop_crm LOGICAL 0/0 (proto_version '1', publication_names 'x')"
    taken.pgconn.send_query(command)
    taken.pgconn.flush()
    while crm.one("SELECT active FROM pg_replication_slots WHERE slot_name = 'headwater_shop_crm'") is False:
        time.sleep(0.02)
    with pytest.raises(TransientError, match="in use by 'debezium'") as raised:
        flow.take()
    assert raised.value.code is Code.SOURCE_UNAVAILABLE and "`slot`" in str(raised.value)
    taken.close()
    crm.run("INSERT INTO a VALUES (1)")
    monkeypatch.setattr(database, "PATIENCE", 10.0)
    assert told(flow.all()) == [("i", None, {"id": "1"})]
