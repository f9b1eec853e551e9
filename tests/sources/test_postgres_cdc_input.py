"""What may be wrong at the server: each with a stable code and the exact cure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, ProjectError
from headwater.project.load.loader import load_project
from headwater.sources.postgres.cdc.types import items
from tests.hints.followed import follows
from tests.services.postgres import LOGICAL, Server, server
from tests.sources.cdc_lab import Crm, Follower, told
from tests.support import headwater

A = "public.a"
SLOT = "headwater_shop_crm"


@pytest.fixture
def plain(crm: Crm) -> Iterator[str]:
    """A user who may read, and nothing else."""
    crm.run("CREATE ROLE cdc_plain LOGIN", "CREATE TABLE a (id int PRIMARY KEY)", "GRANT SELECT ON a TO cdc_plain")
    yield crm.dsn.replace("headwater:", "cdc_plain:")
    crm.run("DROP OWNED BY cdc_plain", "DROP ROLE cdc_plain")


def refused(spark: SparkSession, crm: Crm, table: str = A, **settings: Any) -> HeadwaterError:
    follower = Follower(spark, crm, table, (table,), settings)
    try:
        with pytest.raises(HeadwaterError) as raised:
            follower.all()
    finally:
        follower.close()
    error = raised.value
    assert "hidden" not in str(error) and error.problem.where is not None and error.problem.hint
    return error


@follows("have a superuser run: ALTER ROLE {} REPLICATION; (on Amazon RDS: GRANT rds_replication TO {};)")
def test_who_may_not_replicate(spark: SparkSession, crm: Crm, plain: str) -> None:
    crm.run(f"CREATE PUBLICATION {SLOT} FOR TABLE a")
    error = refused(spark, crm, dsn=plain)
    assert error.code is Code.SOURCE_DENIED and 'ALTER ROLE "cdc_plain" REPLICATION;' in str(error)
    crm.run("ALTER ROLE cdc_plain REPLICATION", "INSERT INTO a VALUES (1)")
    flow = Follower(spark, crm, A, (A,), {"dsn": plain})
    assert told(flow.all()) == [("r", None, {"id": "1"})]
    flow.close()


@follows("have the owner of the table run: {};", "have its owner run: {}")
def test_who_may_not_publish(spark: SparkSession, crm: Crm, plain: str) -> None:
    crm.run("ALTER ROLE cdc_plain REPLICATION")
    error = refused(spark, crm, dsn=plain)
    wanted = f'CREATE PUBLICATION "{SLOT}" FOR TABLE ONLY "public"."a" WITH (publish_via_partition_root);'
    assert error.code is Code.SOURCE_DENIED and wanted in str(error)
    crm.run("CREATE TABLE other (id int PRIMARY KEY)", "CREATE PUBLICATION theirs FOR TABLE other")
    error = refused(spark, crm, dsn=plain, publication="theirs")
    assert error.code is Code.SOURCE_DENIED and 'ALTER PUBLICATION "theirs" ADD TABLE ONLY "public"."a";' in str(error)
    crm.run("ALTER PUBLICATION theirs ADD TABLE a", "ALTER PUBLICATION theirs SET (publish = 'insert')")
    error = refused(spark, crm, dsn=plain, publication="theirs")
    assert error.code is Code.SOURCE_MISMATCH
    wanted = "ALTER PUBLICATION \"theirs\" SET (publish = 'insert, update, delete, truncate');"
    assert wanted in str(error)
    crm.run(wanted, "INSERT INTO a VALUES (1)")
    flow = Follower(spark, crm, A, (A,), {"dsn": plain, "publication": "theirs"})
    assert told(flow.all()) == [("r", None, {"id": "1"})]
    flow.close()


def test_a_log_without_what_is_needed(spark: SparkSession, tmp_path: Path) -> None:
    with server({**LOGICAL, "wal_level": "replica"}) as replica:
        crm = Crm(replica.database(), tmp_path)
        crm.run("CREATE TABLE a (id int PRIMARY KEY)")
        error = refused(spark, crm)
        crm.connection.close()
    assert error.code is Code.SOURCE_MISMATCH and "ALTER SYSTEM SET wal_level = logical;" in str(error)
    assert "restart" in str(error)


@follows("give it a primary key that is not deferrable, or run: {};")
def test_a_table_without_a_key(spark: SparkSession, crm: Crm) -> None:
    crm.run("CREATE TABLE a (id int)")
    error = refused(spark, crm)
    assert error.code is Code.SOURCE_MISMATCH
    assert 'ALTER TABLE "public"."a" REPLICA IDENTITY FULL;' in str(error)
    crm.run("INSERT INTO a VALUES (1)", "UPDATE a SET id = 2")  # it was not published: nothing is refused there
    crm.run("ALTER TABLE a REPLICA IDENTITY FULL")
    flow = Follower(spark, crm, A, (A,))
    flow.all()
    crm.run("UPDATE a SET id = 3")
    assert told(flow.all()) == [("u", {"id": "2"}, {"id": "3"})]
    flow.close()


@pytest.mark.parametrize(
    ("table", "lacks"),
    [
        (["CREATE TABLE a (id int PRIMARY KEY DEFERRABLE, v int)"], "a"),
        (["CREATE TABLE a (id int PRIMARY KEY, v int)", "ALTER TABLE a REPLICA IDENTITY NOTHING"], "a"),
        (
            [
                "CREATE TABLE a (id int, v int) PARTITION BY RANGE (id)",
                "CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10)",
                "CREATE TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20)",
                "ALTER TABLE a REPLICA IDENTITY FULL",
                "ALTER TABLE a2 REPLICA IDENTITY FULL",
            ],
            "a1",
        ),
        (
            [
                "CREATE TABLE a (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)",
                "CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10)",
                "ALTER TABLE a REPLICA IDENTITY FULL",
            ],
            "a1",
        ),
    ],
)
def test_a_key_that_is_of_no_use(spark: SparkSession, crm: Crm, table: list[str], lacks: str) -> None:
    """Postgres goes by a key that is checked at once, and for a partitioned table by that of each partition."""
    crm.run(*table, "INSERT INTO a VALUES (1, 1)")
    error = refused(spark, crm)
    hint = f'ALTER TABLE "public"."{lacks}" REPLICA IDENTITY FULL;'
    assert error.code is Code.SOURCE_MISMATCH and hint in str(error) and str(error).count("ALTER TABLE") == 1
    crm.run("UPDATE a SET v = 2", hint)  # it was not published: nothing is refused there
    flow = Follower(spark, crm, A, (A,))
    flow.all()
    crm.run("UPDATE a SET v = 3", "DELETE FROM a")
    before = {"id": "1", "v": "2"}
    assert told(flow.all()) == [("u", before, {"id": "1", "v": "3"}), ("d", {"id": "1", "v": "3"}, None)]
    flow.close()


@follows("run: ALTER TABLE {} SET LOGGED;")
def test_tables_beside_the_one_that_is_followed(spark: SparkSession, crm: Crm) -> None:
    """What inherits from it is not followed, and nothing is refused there; what is not logged can't be."""
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE heir (v int) INHERITS (a)")
    crm.run("INSERT INTO a VALUES (1)", "INSERT INTO heir VALUES (2, 2)")
    flow = Follower(spark, crm, A, (A,))
    assert told(flow.all()) == [("r", None, {"id": "1"})]
    crm.run("UPDATE heir SET v = 3", "UPDATE a SET id = id + 10")
    assert told(flow.all()) == [("u", {"id": "1"}, {"id": "11"})]
    flow.close()
    crm.run("CREATE UNLOGGED TABLE b (id int PRIMARY KEY)")
    error = refused(spark, crm, "public.b")
    assert error.code is Code.SOURCE_MISMATCH and 'ALTER TABLE "public"."b" SET LOGGED' in str(error)
    crm.run('ALTER TABLE "public"."b" SET LOGGED;', "INSERT INTO b VALUES (1)")
    flow = Follower(spark, crm, "public.b", ("public.b",))
    assert told(flow.all()) == [("r", None, {"id": "1"})]
    flow.close()


@follows("it was dropped or renamed, or its name is written in another way; `headwater topic drop …")
def test_a_table_that_is_not_there_or_vanishes(spark: SparkSession, crm: Crm, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(spark, crm)
    assert error.code is Code.SOURCE_MISMATCH and "there is no table public.a" in str(error)
    crm.run("CREATE VIEW a AS SELECT 1 AS id")
    assert "only tables" in str(refused(spark, crm))
    crm.run("DROP VIEW a", "CREATE TABLE a (id int PRIMARY KEY)")
    monkeypatch.setattr("headwater.sources.postgres.cdc.reader.LOOK_EVERY", 0.0)
    flow = Follower(spark, crm, A, (A,))
    flow.all()
    crm.run("INSERT INTO a VALUES (1)", "DROP TABLE a")
    assert told(flow.take() or []) == [("i", None, {"id": "1"})]
    with pytest.raises(HeadwaterError, match="there is no table public.a") as raised:
        flow.take()
    assert raised.value.code is Code.SOURCE_MISMATCH and "topic drop" in str(raised.value)
    flow.close()


@follows(
    "`SELECT slot_name, active FROM pg_replication_slots` shows them; drop one that nobody …",
    "name another with `slot`: one that is not there is made",
)
def test_no_slot_is_left_and_one_of_another_kind(spark: SparkSession, crm: Crm) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)")
    made = []
    try:
        while True:
            name = f"taken_{len(made)}"
            crm.run(f"SELECT pg_create_physical_replication_slot('{name}')")
            made.append(name)
    except psycopg.errors.ConfigurationLimitExceeded:
        pass
    try:
        error = refused(spark, crm)
        assert error.code is Code.SOURCE_MISMATCH and "max_replication_slots" in str(error)
        error = refused(spark, crm, slot=made[0])
        assert error.code is Code.SOURCE_MISMATCH and "a physical one" in str(error)
    finally:
        for name in made:
            crm.run(f"SELECT pg_drop_replication_slot('{name}')")
    flow = Follower(spark, crm, A, (A,), {"slot": "another"})
    assert flow.all() == []
    flow.close()


@follows("check that it runs and that host and port in `dsn` are right")
def test_a_server_that_does_not_answer(spark: SparkSession, crm: Crm, postgres_server: Server) -> None:
    nowhere = crm.dsn.replace(f":{postgres_server.port}/", ":1/")
    assert refused(spark, crm, dsn=nowhere).code is Code.SOURCE_UNAVAILABLE
    assert refused(spark, crm, dsn=crm.dsn + "_not").code is Code.SOURCE_MISMATCH
    crm.run("CREATE TABLE a (id int PRIMARY KEY)")
    flow = Follower(spark, crm, A, (A,))
    assert flow.all() == []
    flow.close()


def test_prepare_shows_and_runs_what_is_needed(crm: Crm, tmp_path: Path) -> None:
    crm.run("CREATE TABLE a (id int)", "CREATE TABLE b (id int PRIMARY KEY)")
    source = {"type": "postgres_cdc", "dsn": crm.dsn, "tables": [A, "public.b"]}
    (tmp_path / "headwater.yml").write_text(yaml.safe_dump({"name": "shop", "sources": {"crm": source}}))
    shown = headwater("source", "prepare", "crm", "--json", "--project", tmp_path)
    assert shown.code == 0, shown.err
    sql = [one["sql"] for one in shown.json["statements"]]
    copied = ", false, false, failover => true" if crm.connection.info.server_version >= 170000 else ""
    assert sql == [
        'ALTER TABLE "public"."a" REPLICA IDENTITY FULL',
        f'CREATE PUBLICATION "{SLOT}" FOR TABLE ONLY "public"."a", ONLY "public"."b" WITH (publish_via_partition_root)',
        f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput'{copied})",
    ]
    assert headwater("source", "prepare", "crm", "--run", "--project", tmp_path).code == 0
    again = headwater("source", "prepare", "crm", "--json", "--project", tmp_path).json["statements"]
    assert again and all(one["done"] for one in again) and SLOT in crm.slots()


def test_what_is_wrong_in_the_project(tmp_path: Path) -> None:
    def problem(**settings: Any) -> str:
        source = {"type": "postgres_cdc", "dsn": "postgresql://u:hidden@h/d", "tables": [A], **settings}
        (tmp_path / "headwater.yml").write_text(yaml.safe_dump({"name": "shop", "sources": {"crm": source}}))
        with pytest.raises(ProjectError) as raised:
            load_project(tmp_path)
        assert "hidden" not in str(raised.value)
        return str(raised.value)

    assert "public.customers" in problem(tables=["customers"])
    assert "slot" in problem(slot="Not-A-Name")
    assert "on_data_loss" in problem(on_data_loss="continue")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", []),
        ("{1,NULL,3}", ["1", None, "3"]),
        ('{"NULL","a b","c\\"d","e\\\\f",""}', ["NULL", "a b", 'c"d', "e\\f", ""]),
        ("[0:1]={7,8}", ["7", "8"]),
        ("{{1,2},{3,4}}", None),
        ('{"{","}"}', ["{", "}"]),
    ],
)
def test_the_text_of_arrays(text: str, expected: list[str | None] | None) -> None:
    assert items(text) == expected
