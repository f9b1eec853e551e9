"""Copies in Postgres: what psql finds there, value by value, after snapshots, steps, refusals and kills."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import CommitTag
from headwater.exports.checksum import measure
from headwater.exports.read_back import read_back
from tests.exports.databases import FLOW, Copy, database
from tests.exports.rows import change, goods
from tests.hints.followed import follows
from tests.services.postgres import Server


@pytest.fixture
def dsn(postgres_server: Server) -> str:
    return postgres_server.database()


@pytest.fixture
def db(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def copy(spark: SparkSession, tmp_path: Path, dsn: str) -> Iterator[Copy]:
    keys = {"format": "postgres", "to": "postgresql://crm/public.orders", "primary_key": ["id"]}
    made = Copy(spark, tmp_path, keys, database(dsn))
    yield made
    made.close()


def rows(db: psycopg.Connection[Any], table: str = "orders") -> list[tuple[Any, ...]]:
    return db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def test_a_snapshot_has_every_value_and_appears_at_once(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    (found,) = copy.snapshot(goods(spark))
    assert found.reader.startswith("PostgreSQL ")
    assert found.rows == 6
    types = dict(
        db.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'orders'::regclass AND attnum > 0"
        ).fetchall()
    )
    assert types == {
        "id": "bigint", "name": "text", "price": "numeric(12,2)", "big": "numeric(30,4)", "ratio": "double precision",
        "small": "real", "flag": "boolean", "n": "integer", "day": "date", "at": "timestamp with time zone",
        "tags": "jsonb", "place": "jsonb", "counts": "jsonb",
    }  # fmt: skip
    told = db.execute("SELECT name, price, big, ratio, at AT TIME ZONE 'UTC', tags FROM orders WHERE id = 1").fetchone()
    assert told is not None
    assert [str(value) for value in told] == [
        "Ada", "10.50", "123456789012345678.1234", "0.1", "2024-05-01 12:34:56.789012", "['a', None, '']"
    ]  # fmt: skip
    assert db.execute("SELECT count(*) FROM orders WHERE name IS NULL").fetchone() == (1,)
    assert db.execute("SELECT name FROM orders WHERE id = 6").fetchone() == ("zwei\nZeilen ß €",)
    assert copy.open().visible() == {"source": "tables.orders", "versions": {"tables.orders": 7}, "run": "run-1"}
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute("INSERT INTO orders (id) VALUES (1)")


def test_texts_floats_and_bytes_are_kept_to_the_bit(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    odd = spark.sql(
        r"""SELECT * FROM VALUES
        (1, 'a\tb\\N\rc', X'00ff5c', DOUBLE('NaN'), FLOAT('-Infinity'), TIMESTAMP_NTZ'2024-03-31 02:30:00'),
        (2, '\\N', X'', DOUBLE('Infinity'), FLOAT('NaN'), NULL),
        (3, '\\.', NULL, 4.9e-324D, CAST(3.4028235e38 AS FLOAT), TIMESTAMP_NTZ'0001-01-01 00:00:00'),
        (4, '', X'41', -0.1D, CAST(0.1 AS FLOAT), TIMESTAMP_NTZ'9999-12-31 23:59:59.999999')
        AS t(id, text, raw, ratio, small, local)"""
    )
    copy.snapshot(odd)
    assert db.execute("SELECT text, raw FROM orders WHERE id = 1").fetchone() == ("a\tb\\N\rc", b"\x00\xff\\")
    assert db.execute("SELECT text, raw FROM orders WHERE id = 2").fetchone() == ("\\N", b"")
    assert db.execute("SELECT ratio::text, small::text FROM orders WHERE id = 1").fetchone() == ("NaN", "-Infinity")


def test_what_postgres_cannot_hold_is_refused_with_the_reason(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    for bad, why in (
        ("decode(X'6100', 'utf-8')", "x: Postgres holds no text with a zero byte"),
        ("array(DOUBLE('NaN'))", "x: JSON has neither NaN nor infinity"),
        ("named_struct('a', FLOAT('Infinity'))", "x: JSON has neither NaN nor infinity"),
        ("DATE'-0044-03-15'", "x: a year before 1 or after 9999"),
    ):
        with pytest.raises(HeadwaterError, match=why) as refused:
            copy.snapshot(spark.sql(f"SELECT 1 AS id, {bad} AS x"))
        assert refused.value.code is Code.EXPORT_REFUSED
    assert db.execute("SELECT to_regclass('orders')").fetchone() == (None,)
    with pytest.raises(HeadwaterError, match="map with keys of int") as maps:
        copy.snapshot(spark.sql("SELECT 1 AS id, map(1, 'a') AS m"))
    assert maps.value.code is Code.UNSUPPORTED


KILLED = """
import os, signal, sys
import psycopg
from headwater.core.model import CommitTag
from headwater.exports.checksum import measure
from headwater.exports.read_back import read_back
from headwater.targets.postgres.records import Records
from headwater.targets.postgres.step import StagedStep, StepRows
from headwater.targets.postgres.tables import TargetTable, add_key, create, find
dsn, flow, when = sys.argv[1:]
table, columns = TargetTable("public", "orders"), {"id": "integer", "total": "numeric(3,2)", "note": "text"}
with psycopg.connect(dsn, autocommit=True) as connection:
    with connection.transaction():
        records = Records(connection, table)
        records.make()
        create(connection, table, columns)
        add_key(connection, table, ["id"], "orders")
        staged = StagedStep(connection, records, StepRows(table, columns, ["id"], "1/0"))
        staged.load([memoryview(b"1\\t1.50\\ta\\n2\\t2.50\\tb\\n")], deletes=False)
        staged.apply()
        tag = CommitTag(flow, 1, 0, {"orders": 0})
        records.write(flow, tag, tag.positions, made=True, oid=find(connection, table).oid)
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_is_killed_leaves_its_step_whole_or_not_at_all(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any], dsn: str, when: str
) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, dsn, FLOW, when], timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert copy.open().exists() == (when == "after")
    step = change(spark, "(1, 1.50, 'a', false), (2, 2.50, 'b', false)")
    assert (copy.step(step, 0) is None) == (when == "after")
    assert [(id, str(total), note) for id, total, note in rows(db)] == [(1, "1.50", "a"), (2, "2.50", "b")]


@follows("change the table's constraints, or leave the rows out: filter", "name the columns that tell the rows apart")
def test_a_snapshot_replaces_or_joins_the_rows_and_keeps_what_hangs_on_the_table(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    copy.snapshot(spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, name)"))
    db.execute("CREATE VIEW names AS SELECT name FROM orders")
    copy.snapshot(spark.sql("SELECT 2 AS id, 'c' AS name, 5 AS more"), if_exists="append")
    assert rows(db) == [(1, "a", None), (2, "c", 5)]
    copy.snapshot(spark.sql("SELECT 3 AS id, 'd' AS name"), if_exists="overwrite")
    assert rows(db) == [(3, "d", None)]
    assert rows(db, "names") == [("d",)]
    for statement, code in (
        ("SELECT * FROM VALUES (4, 'x'), (4, 'y') AS t(id, name)", Code.DUPLICATE_KEY),
        ("SELECT CAST(NULL AS INT) AS id, 'x' AS name", Code.NULL_KEY),
        ("SELECT 4 AS id, 1.5 AS name", Code.SCHEMA_MISMATCH),
    ):
        with pytest.raises(HeadwaterError) as refused:
            copy.snapshot(spark.sql(statement), if_exists="overwrite")
        assert refused.value.code is code
    db.execute("ALTER TABLE orders ADD CHECK (id < 100)")
    with pytest.raises(HeadwaterError, match="orders_id_check"):
        copy.snapshot(spark.sql("SELECT 100 AS id, 'x' AS name"), if_exists="append")
    assert rows(db) == [(3, "d", None)]
    db.execute("ALTER TABLE orders DROP CONSTRAINT orders_id_check")
    copy.snapshot(spark.sql("SELECT 100 AS id, 'x' AS name"), if_exists="append")
    assert len(rows(db)) == 2
    twice = spark.sql("SELECT * FROM VALUES (4, 'x'), (4, 'y') AS t(id, name)")
    copy.snapshot(twice, to="postgresql://crm/public.others", primary_key=["id", "name"])
    assert len(rows(db, "others")) == 2
    tables = {name for (name,) in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}
    assert tables == {"orders", "others", "_headwater_exports", "_headwater_export_rejects"}


def test_steps_update_and_delete_and_are_taken_once(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    copy.step(change(spark, "(1, 1.50, 'a', false), (2, 2.50, 'b', false)"), 0)
    second = change(spark, "(1, 9.50, 'A', false), (2, NULL, NULL, true), (3, 3.50, 'c', false)")
    copy.step(second, 1)
    expected = rows(db)
    assert [(id, str(total), note) for id, total, note in expected] == [(1, "9.50", "A"), (3, "3.50", "c")]
    assert copy.step(second, 1) is None  # its process was killed after the commit
    copy.open().apply(change(spark, "(1, 0.00, 'late', false)"), CommitTag(FLOW, 1, 1, {}), first=False)
    assert rows(db) == expected
    assert copy.open().visible() == {"orders": 1}
    position = db.execute("SELECT target, flow, epoch, step, made FROM _headwater_exports").fetchall()
    assert position == [("orders", FLOW, 1, 1, True)]


def test_a_step_that_fails_leaves_neither_rows_nor_position(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    copy.step(change(spark, "(1, 1.50, 'a', false)"), 0)
    end = "BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END"
    db.execute(f"CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS '{end}'")
    db.execute("CREATE TRIGGER stop BEFORE UPDATE ON _headwater_exports FOR EACH ROW EXECUTE FUNCTION stop()")
    step = change(spark, "(2, 2.50, 'b', false)")
    with pytest.raises(HeadwaterError) as cut:
        copy.step(step, 1)
    assert cut.value.code is Code.EXPORT_UNAVAILABLE
    assert len(rows(db)) == 1
    db.execute("DROP TRIGGER stop ON _headwater_exports")
    copy.step(step, 1)
    assert len(rows(db)) == 2


def test_a_refused_row_does_not_stop_the_others_and_is_tried_again(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    db.execute("CREATE TABLE orders (id int PRIMARY KEY, total numeric(5,2) CHECK (total < 10), note varchar(3))")
    append = {"if_exists": "append"}
    values = ", ".join(f"({i}, 1.00, 'a', false)" for i in range(10, 40))
    copy.step(change(spark, f"(1, 50.00, 'a', false), (2, 1.00, 'long', false), {values}"), 0, **append)
    assert len(rows(db)) == 30
    rejects = copy.open().rejected()
    assert [reject.key for reject in rejects] == [{"id": 1}, {"id": 2}]
    assert "orders_total_check" in rejects[0].reason
    assert "value too long for type character varying(3)" in rejects[1].reason
    target = copy.open(**append)
    source = change(spark, f"(1, 50.00, 'a', false), (2, 1.00, 'long', false), {values}").drop("_deleted")
    expected = target.comparable(target.prepared(source))
    assert expected.count() == 30
    assert read_back(target.readers(), expected.schema, measure(expected), "here")[0].rows == 30
    db.execute("ALTER TABLE orders DROP CONSTRAINT orders_total_check")
    copy.step(change(spark, "(3, 1.00, 'b', false)"), 1, **append)
    assert db.execute("SELECT total FROM orders WHERE id = 1").fetchone() is not None
    (left,) = copy.open().rejected()
    assert (left.key, left.since == rejects[1].since, left.tried_at > rejects[1].tried_at) == ({"id": 2}, True, True)
    # A newer row of the same key takes the place of the one that waits.
    copy.step(change(spark, "(2, 2.00, 'ok', false)"), 2, **append)
    assert copy.open().rejected() == []
    assert db.execute("SELECT note FROM orders WHERE id = 2").fetchone() == ("ok",)
    bad = spark.sql("SELECT 5 AS id, 1.00 AS total, decode(X'6100', 'utf-8') AS note, false AS _deleted")
    copy.step(bad, 3, **append)
    (unheld,) = copy.open().rejected()
    assert (unheld.key, unheld.reason) == ({"id": 5}, "note: Postgres holds no text with a zero byte")


def test_rows_without_a_key_are_appended(copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]) -> None:
    copy.keys["primary_key"] = []
    first = spark.sql("SELECT * FROM VALUES (1, 'a'), (1, 'a'), (2, NULL) AS t(id, name)")
    copy.step(first, 0)
    copy.step(first, 1)
    assert len(rows(db)) == 6
    db.execute("ALTER TABLE orders ADD CHECK (id < 5)")
    copy.step(spark.sql("SELECT * FROM VALUES (7, 'x'), (3, 'y') AS t(id, name)"), 2)
    assert len(rows(db)) == 7
    (reject,) = copy.open().rejected()
    assert reject.key == {"id": 7, "name": "x"}


def test_a_schema_that_changes_while_a_stream_runs(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    copy.step(change(spark, "(1, 1.50, 'a', false)"), 0)
    copy.step(change(spark, "(2L, 12345.678, 'b', 5, false)", "id, total, note, more"), 1)
    found = [(id, str(total), note, more) for id, total, note, more in rows(db)]
    assert found == [(1, "1.500", "a", None), (2, "12345.678", "b", 5)]
    with pytest.raises(HeadwaterError, match="the column 'note' of public.orders is text") as other:
        copy.step(change(spark, "(3, 1.50, 3, false)"), 2)
    assert other.value.code is Code.SCHEMA_MISMATCH
    assert len(rows(db)) == 2


@follows(
    "make it a key there: CREATE UNIQUE INDEX ON {} ({})",
    "give the column a default, or let it be NULL",
    "export to another one, or say what to do with it: if_exists: append or overwrite",
    "export to another table",
    "copy it again from its beginning: headwater flow rebuild {} --yes",
)
def test_a_table_that_is_not_the_exports_own_is_left_alone(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    db.execute("CREATE TABLE orders (id bigint, total numeric(3,2), note text, kind text NOT NULL)")
    step = change(spark, "(1, 1.50, 'a', false)")
    for keys, code, why in (
        ({}, Code.ALREADY_EXISTS, "there is a table"),
        ({"if_exists": "append"}, Code.SCHEMA_MISMATCH, "must have a value for 'kind'"),
    ):
        with pytest.raises(HeadwaterError, match=why) as refused:
            copy.step(step, 0, **keys)
        assert refused.value.code is code
    db.execute("ALTER TABLE orders ALTER COLUMN kind DROP NOT NULL")
    with pytest.raises(HeadwaterError, match=r"nothing keeps \(id\) unique") as loose:
        copy.step(step, 0, if_exists="append")
    assert loose.value.code is Code.DUPLICATE_KEY
    db.execute("CREATE UNIQUE INDEX ON orders (id)")
    copy.step(step, 0, if_exists="append")
    with pytest.raises(HeadwaterError, match=r"is the copy of exports\.orders") as taken:
        copy.step(step, 0, flow="exports.others", if_exists="append")
    assert taken.value.code is Code.EXPORT_CHANGED
    copy.step(step, 0, flow="exports.others", to="postgresql://crm/public.others")
    assert len(rows(db, "others")) == 1
    db.execute("CREATE TABLE made_again (LIKE orders INCLUDING ALL)")
    db.execute("DROP TABLE orders")
    db.execute("ALTER TABLE made_again RENAME TO orders")
    with pytest.raises(HeadwaterError, match="made again by somebody else") as changed:
        copy.step(step, 1, if_exists="append")
    assert changed.value.code is Code.EXPORT_CHANGED
    copy.open(if_exists="append").apply(step, CommitTag(FLOW, 2, 0, {}), first=True)  # as `flow rebuild` begins
    assert len(rows(db)) == 1


def test_a_flow_that_begins_anew_empties_its_own_table(
    copy: Copy, spark: SparkSession, db: psycopg.Connection[Any]
) -> None:
    copy.step(change(spark, "(1, 1.50, 'a', false), (2, 1.50, 'b', false)"), 0)
    copy.step(change(spark, "(2, 1.50, 'B', false)"), 0, epoch=2)
    assert [row[2] for row in rows(db)] == ["B"]


@follows(
    "write postgresql://ENTRY/schema.table, where ENTRY is a Postgres source of the project",
    "give the database's address as `dsn` of an entry of `sources:`; then {}",
    "known: {}; a full address names its table behind a question mark: "
    "postgresql://host:5432/database?table=public.events",
)
def test_addresses(copy: Copy, dsn: str) -> None:
    port = psycopg.conninfo.conninfo_to_dict(dsn)["port"]
    for to, why in (
        ("postgresql://nobody/orders", "has no Postgres source 'nobody'"),
        ("postgresql://me:geheim@127.0.0.1/db?table=orders", "a password does not belong"),
        ("postgresql://crm/", "names no table"),
        ("postgresql:orders", "is no table of Postgres"),
    ):
        with pytest.raises(HeadwaterError, match=why) as refused:
            copy.open(to=to)
        assert "geheim" not in str(refused.value)
    whole = f"{dsn.replace(':hidden', '')}?table=public.orders"
    assert not copy.open(to=whole).exists()
    assert not copy.open().exists()
    away = copy.open(to=whole.replace(str(port), "1"))
    with pytest.raises(HeadwaterError, match="can't be reached") as gone:
        away.exists()
    assert gone.value.code is Code.EXPORT_UNAVAILABLE
