"""What can be wrong with an event store or its settings: a stable code, what is wrong, and what to do."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import HeadwaterError, TransientError, Where
from headwater.core.secret import Secret
from headwater.sources.postgres.connection import jdbc_options
from tests.hints.followed import follows
from tests.services.postgres import Server, Standby, data_folder, server
from tests.sources.events_lab import TABLE, Flow, Project, Store


@pytest.fixture(scope="module")
def store(postgres_server: Server) -> Store:
    made = Store.make(postgres_server)
    made.add(2)
    made.run("ALTER TABLE events ADD COLUMN tx32 xid, ADD COLUMN amount numeric")
    made.run("CREATE ROLE stranger LOGIN")
    return made


def error_of(spark: SparkSession, folder: Path, **settings: Any) -> HeadwaterError:
    with pytest.raises(HeadwaterError) as caught:
        Flow(spark, folder, settings).step()
    assert "hidden" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"position": "global_positon"}, ["no column 'global_positon'", "did you mean 'global_position'"]),
        ({"metadata": "meta"}, ["no column 'meta'", "columns: {metadata: null}"]),
        ({"tenant": "metadta.tenant_id"}, ["no column 'metadta'", "did you mean 'metadata'"]),
        ({"tenant": "stream_id.tenant"}, ["is a path into public.events.stream_id", "json or jsonb"]),
        ({"position": "event_id"}, ["is of type uuid", "bigint"]),
        ({"position": "amount"}, ["is of type numeric", "bigint"]),
        ({"payload": "version"}, ["is of type integer", "JSON"]),
        ({"transaction": "tx32"}, ["is of type xid", "headwater source prepare store"]),
        ({"transaction": "tx"}, ["no column 'tx'"]),
    ],
)
def test_columns_that_do_not_fit(
    spark: SparkSession, store: Store, tmp_path: Path, columns: dict[str, str], words: list[str]
) -> None:
    error = error_of(spark, tmp_path, dsn=store.dsn, columns=columns)
    assert str(error.code) == "SOURCE_MISMATCH"
    assert all(word in str(error) for word in words), str(error)


FITTING = [
    ("position", "event_id", "global_position", "name the column that a sequence or identity numbers the events with"),
    ("payload", "version", "data", "name the column that holds the event as JSON"),
    ("metadata", "version", None, "name a column of JSON, or set it to null"),
    ("tenant", "stream_id.tenant", "metadata.tenant", "a path needs a column of type json or jsonb{}"),
]


@pytest.mark.parametrize(("key", "bad", "good"), [pytest.param(*one[:3], marks=follows(one[3])) for one in FITTING])
def test_what_the_hint_of_a_column_says_helps(
    spark: SparkSession, store: Store, tmp_path: Path, key: str, bad: str, good: str | None
) -> None:
    error_of(spark, tmp_path / "bad", dsn=store.dsn, columns={key: bad})
    assert Flow(spark, tmp_path / "good", {"dsn": store.dsn, "columns": {key: good}}).step() == [1, 2]


@follows("`headwater source prepare {}` makes one; xid wraps around and can't be used")
def test_a_column_of_transactions_is_made(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    store = Store.make(postgres_server)
    store.add(2)
    store.run("ALTER TABLE events ADD COLUMN tx32 xid")
    error_of(spark, tmp_path / "bad", dsn=store.dsn, columns={"transaction": "tx32"})
    project = Project.make(tmp_path / "shop", store, columns={"transaction": "tx"})
    assert project.command("source", "prepare", "store", "--run").code == 0
    store.add(1, since=2)
    assert project.run().code == 0 and project.positions() == store.positions()


@follows(
    "check that it runs and that host and port in `dsn` are right",
    "check the end of `dsn`",
    "check user and password in `dsn`",
    "check `sslmode`, `sslrootcert`, `sslcert` and `sslkey` in `dsn`",
    "write postgresql://user:password@host:5432/database?sslmode=require; what is not a letter …",
    "GRANT SELECT ON {}.{} TO {}",
    "name it with its schema: public.events",
)
def test_addresses_that_lead_nowhere(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    def told(dsn: str, **settings: Any) -> tuple[str, bool, str]:
        error = error_of(spark, tmp_path, dsn=dsn, **settings)
        return str(error.code), isinstance(error, TransientError), str(error)

    code, may_pass, text = told(f"postgresql://me:hidden@127.0.0.1:{1}/x")
    assert (code, may_pass) == ("SOURCE_UNAVAILABLE", True) and "host and port" in text
    code, may_pass, text = told("postgresql://me:hidden@nowhere.invalid/x")
    assert (code, may_pass) == ("SOURCE_UNAVAILABLE", True) and "nowhere.invalid" in text
    code, may_pass, text = told(store.server.address("no_such_database"))
    assert (code, may_pass) == ("SOURCE_MISMATCH", False) and "no database 'no_such_database'" in text
    code, may_pass, text = told(store.server.address("postgres", user="nobody_here"))
    assert (code, may_pass) == ("SOURCE_DENIED", False) and "user and password" in text
    code, may_pass, text = told(store.dsn + "?sslmode=require")
    assert (code, may_pass) == ("SOURCE_UNAVAILABLE", True) and "sslmode" in text
    code, may_pass, text = told("postgresql://me:hidden@host:x y/z")
    assert (code, may_pass) == ("INVALID_VALUE", False) and "percent-encoded" in text
    code, may_pass, text = told(store.dsn, table="public.evnts")
    assert (code, may_pass) == ("SOURCE_MISMATCH", False) and "did you mean 'public.events'" in text
    code, may_pass, text = told(store.dsn.replace("headwater:", "stranger:"))
    grant = 'GRANT SELECT ON "public"."events" TO stranger'
    assert (code, may_pass) == ("SOURCE_DENIED", False) and grant in text
    code, may_pass, text = told(store.dsn, table="nothing_like_it")
    assert (code, may_pass) == ("SOURCE_MISMATCH", False) and "public.events" in text
    store.run(grant)
    for number, right in enumerate(
        (store.dsn, store.dsn + "?sslmode=prefer", store.dsn.replace("headwater:", "stranger:"))
    ):
        assert Flow(spark, tmp_path / str(number), {"dsn": right, "table": "public.events"}).step() == [1, 2]


@follows("ALTER SEQUENCE {} CACHE 1, or add a transaction column: headwater source prepare {}")
def test_numbers_that_prove_nothing(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    """Without a transaction column, the order of numbers is all there is to go by."""
    store = Store.make(postgres_server)
    store.run("ALTER SEQUENCE events_global_position_seq CACHE 20")
    error = error_of(spark, tmp_path, dsn=store.dsn)
    assert str(error.code) == "UNSUPPORTED" and "CACHE 1" in str(error)
    store.run("ALTER SEQUENCE events_global_position_seq CACHE 1")
    store.run("INSERT INTO events (global_position) VALUES (-5)")
    error = error_of(spark, tmp_path, dsn=store.dsn)
    assert str(error.code) == "SOURCE_MISMATCH" and "-5" in str(error)
    store.run("ALTER TABLE events RENAME TO plain; CREATE VIEW events AS SELECT * FROM plain")
    error = error_of(spark, tmp_path, dsn=store.dsn)
    assert str(error.code) == "UNSUPPORTED" and "is not a table" in str(error)


@follows(
    "its positions may start over: `headwater flow reset NAME` reads all of it, and …",
    "name it in `columns.transaction` again, or reset the flow",
    "UPDATE {} SET {} = NULL WHERE {} >= '{}'::xid8; then `headwater flow rebuild NAME`, or …",
    "name the table, or a column with the transaction in `columns.transaction`",
    "add a transaction column: headwater source prepare {}",
)
def test_what_the_hints_of_what_orders_events_say_helps(
    spark: SparkSession, postgres_server: Server, tmp_path: Path
) -> None:
    store = Store.make(postgres_server)
    store.add(2)
    by_tx = {"dsn": store.dsn, "columns": {"transaction": "tx"}}
    flow = Flow(spark, tmp_path / "flow", {"dsn": store.dsn})
    assert flow.step() == [1, 2]
    store.run(f"ALTER TABLE events RENAME TO old; {TABLE}; ALTER TABLE events ADD COLUMN tx xid8")
    store.run("ALTER TABLE events ALTER COLUMN tx SET DEFAULT pg_current_xact_id()")
    store.add(1)
    flow.restart()
    with pytest.raises(HeadwaterError, match="another table"):
        flow.step()
    flow.position = None
    flow.restart()
    assert flow.step() == [1]

    flow = Flow(spark, tmp_path / "by tx", by_tx)
    assert flow.step() == [1]
    store.add(1, since=1)
    flow.restart(columns={})
    with pytest.raises(HeadwaterError, match="by its transaction column"):
        flow.step()
    flow.restart(**by_tx)
    assert flow.step() == [2]

    store.run("CREATE INDEX ON events (tx, global_position)")
    store.run("UPDATE events SET tx = '9999999999'::xid8 WHERE global_position = 1")
    error = error_of(spark, tmp_path / "dumped", **by_tx)
    store.run((error.problem.hint or "").split(";")[0])
    assert Flow(spark, tmp_path / "mended", by_tx).step() == [1, 2]

    store.run("ALTER TABLE events RENAME TO plain; CREATE VIEW events AS SELECT * FROM plain")
    error_of(spark, tmp_path / "view", dsn=store.dsn)
    assert Flow(spark, tmp_path / "table", {"dsn": store.dsn, "table": "plain"}).step() == [1, 2]
    assert Flow(spark, tmp_path / "column", by_tx).step() == [1, 2]
    store.run("INSERT INTO plain (global_position) VALUES (-5)")
    error_of(spark, tmp_path / "negative", dsn=store.dsn, table="plain")
    assert len(Flow(spark, tmp_path / "all", {**by_tx, "table": "plain"}).step() or []) == 3


SAME_IDS = "UPDATE events SET event_id = md5(global_position::text)::uuid"
"""As if the one were restored from a dump of the other."""


@pytest.mark.full
@follows("new events there can't be distinguished from those already read: `headwater flow reset NAME` reads all …")
def test_a_store_that_has_moved_to_another_cluster(
    spark: SparkSession, postgres_server: Server, tmp_path: Path
) -> None:
    store = Store.make(postgres_server)
    store.add(2)
    store.run(SAME_IDS)
    project = Project.make(tmp_path / "shop", store)
    assert project.run().code == 0
    with server() as other:
        moved = Store.make(other)
        moved.add(3)
        moved.run(SAME_IDS)
        project.write(moved.dsn)
        refused = project.run()
        assert refused.code == 1 and "is in another database cluster" in refused.out
        assert project.positions() == store.positions()
        file = project.root / "headwater.yml"
        file.write_text(file.read_text().replace("keep_raw: true", "keep_raw: true\n    deduplicate_by: event_id"))
        for begin in ("reset", "rebuild"):
            assert project.command("flow", begin, "as_delta", "--yes").code == 0
            ran = project.run()
            assert ran.code == 0, ran.out
            assert project.positions() == moved.positions(), begin


@pytest.mark.full
@follows("read the primary, or add a transaction column: headwater source prepare {}")
def test_a_standby_is_read_by_transactions_alone(spark: SparkSession, tmp_path: Path) -> None:
    with data_folder() as folder, ExitStack() as stack:
        folder.chmod(0o755)
        folders = [folder / name for name in ("primary", "standby")]
        for one in folders:
            one.mkdir()
            one.chmod(0o755)
        primary = Server(folders[0])
        stack.callback(primary.stop, "immediate")
        store = Store.make(primary)
        store.add(2)
        standby = Standby(folders[1], primary, has_slots=False)
        stack.callback(standby.stop, "immediate")
        there = standby.address(store.dsn.rpartition("/")[2])
        assert str(error_of(spark, tmp_path / "bad", dsn=there).code) == "UNSUPPORTED"
        assert Flow(spark, tmp_path / "primary", {"dsn": store.dsn}).step() == [1, 2]
        assert Project.make(tmp_path / "shop", store).command("source", "prepare", "store", "--run").code == 0
        store.add(1, since=2)
        flow = Flow(spark, tmp_path / "standby", {"dsn": there, "columns": {"transaction": "tx"}})
        found: list[int] = []
        until = time.monotonic() + 60
        while found != [1, 2, 3]:  # it replays what the primary does a moment later
            assert time.monotonic() < until, (found, standby.log())
            with suppress(HeadwaterError):  # the column is not there yet
                found += flow.step() or []


def test_a_table_that_vanishes(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    store = Store.make(postgres_server)
    store.add(1)
    flow = Flow(spark, tmp_path, {"dsn": store.dsn})
    assert flow.step() == [1]
    store.run("DROP TABLE events")
    with pytest.raises(HeadwaterError, match=r'relation "public.events" does not exist') as caught:
        flow.step()
    assert str(caught.value.code) == "SOURCE_MISMATCH"


def test_what_the_database_says_no_to_in_the_middle(
    spark: SparkSession, postgres_server: Server, tmp_path: Path
) -> None:
    """Also when Spark's tasks are told so, and not we ourselves."""
    store = Store.make(postgres_server)
    store.add(11_000)
    store.run(
        "CREATE FUNCTION broken(jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE 'out of ideas'; END $$;"
        "ALTER TABLE events RENAME TO plain;"
        "ALTER TABLE plain ADD COLUMN tx xid8, ALTER COLUMN tx SET DEFAULT pg_current_xact_id();"
        "CREATE VIEW events AS SELECT global_position, event_id, event_type, stream_id, version,"
        " broken(data) AS data, metadata, created_at, tx FROM plain"
    )
    project = Project.make(tmp_path / "shop", store, columns={"transaction": "tx"})
    ran = project.run()
    assert ran.code == 1
    [flow] = ran.events[-1]["flows"]
    assert "out of ideas" in str(flow["error"]) and "SOURCE_MISMATCH" in str(flow["error"])
    assert "hidden" not in ran.out + ran.err


def test_settings_that_are_refused(store: Store, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "shop", store, max_connections=1)
    answer = project.command("check", "--json")
    assert answer.code == 2 and "2 or more" in answer.out + answer.err
    project.write("postgresql:///x?host=/tmp")
    assert project.command("check").code == 0


def test_both_clients_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What libpq takes from `dsn` and its variables, Spark's driver gets under its own names."""
    monkeypatch.setenv("PGPASSWORD", "hidden")
    monkeypatch.setenv("PGSSLROOTCERT", "system")
    dsn = Secret(
        "postgresql://me@a:1,b:2/the%20db?sslmode=verify-full&target_session_attrs=read-write&options=-c%20x%3D1"
    )
    told = jdbc_options(dsn, where=Where("headwater.yml"))
    assert told["url"] == "jdbc:postgresql://a:1,b:2/the%20db"
    assert (told["user"], told["password"], told["sslmode"]) == ("me", "hidden", "verify-full")
    assert told["sslfactory"] == "org.postgresql.ssl.DefaultJavaSSLFactory" and "sslrootcert" not in told
    assert (told["targetServerType"], told["options"]) == ("primary", "-c x=1")
    assert "default_transaction_read_only = on" in told["sessionInitStatement"]
    files = Secret("host=db dbname=x sslrootcert=/ca.crt sslcert=/me.crt sslkey=/me.pk8 connect_timeout=3")
    told = jdbc_options(files, where=Where("headwater.yml"))
    assert (told["sslrootcert"], told["sslcert"], told["sslkey"]) == ("/ca.crt", "/me.crt", "/me.pk8")
    assert (told["url"], told["connectTimeout"]) == ("jdbc:postgresql://db:5432/x", "3")
    with pytest.raises(HeadwaterError, match="Unix socket"):
        jdbc_options(Secret("host=/tmp dbname=x"), where=Where("headwater.yml"))
