"""Copies in any database with a JDBC driver, shown with Derby: as its driver reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import CommitTag
from headwater.core.spec.settings import JdbcSpec
from tests.exports.databases import FLOW, Copy
from tests.exports.lakes import COLUMNS, PLAIN_ROWS
from tests.exports.rows import change
from tests.hints.followed import follows


@pytest.fixture
def copy(spark: SparkSession, tmp_path: Path) -> Iterator[Copy]:
    url = f"jdbc:derby:{tmp_path}/db;create=true"
    keys = {"format": "jdbc", "to": "jdbc://shop/orders", "primary_key": ["id"]}
    made = Copy(spark, tmp_path, keys, {}, {"jdbc": {"shop": JdbcSpec.model_validate({"url": url})}})
    yield made
    made.close()


def read(copy: Copy, table: str = "orders") -> DataFrame:
    url = f"jdbc:derby:{copy.folder}/db"
    return copy.spark.read.format("jdbc").options(url=url, dbtable=table).load()


def rows(copy: Copy) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in read(copy).collect())


def test_a_snapshot_has_every_value_and_replaces_or_joins(copy: Copy, spark: SparkSession) -> None:
    names = [
        part.split()[0] for part in COLUMNS.replace("decimal(12,2)", "d").replace("decimal(30,4)", "d").split(", ")
    ]
    goods = spark.sql(f"SELECT * FROM VALUES {PLAIN_ROWS}").toDF(*names)
    (found,) = copy.snapshot(goods)
    assert found.reader.startswith("Apache Derby ")
    assert found.rows == 6
    kept = {row["id"]: row.asDict() for row in read(copy).collect()}
    assert kept == {row["id"]: row.asDict() for row in goods.collect()}
    copy.snapshot(spark.sql("SELECT 1 AS id, 'other' AS name"), if_exists="append")
    assert {row["name"] for row in read(copy).where("id = 1").collect()} == {"other"}
    copy.snapshot(spark.sql("SELECT 9 AS id, 'only' AS name"), if_exists="overwrite")
    assert [row["id"] for row in read(copy).collect()] == [9]
    assert copy.open().visible() == {"source": "tables.orders", "versions": {"tables.orders": 7}, "run": "run-1"}


def test_steps_update_and_delete_and_are_taken_once(copy: Copy, spark: SparkSession) -> None:
    copy.step(change(spark, "(1, 'a', false), (2, 'b', false)", "id, note"), 0)
    second = change(spark, "(1, 'A', false), (2, NULL, true), (3, 'c', false)", "id, note")
    copy.step(second, 1)
    assert rows(copy) == [(1, "A"), (3, "c")]
    assert copy.step(second, 1) is None
    copy.open().apply(change(spark, "(1, 'late', false)", "id, note"), CommitTag(FLOW, 1, 1, {}), first=False)
    assert rows(copy) == [(1, "A"), (3, "c")]
    assert copy.open().visible() == {"orders": 1}
    with pytest.raises(HeadwaterError, match=r"is the copy of exports\.orders") as taken:
        copy.step(second, 2, flow="exports.others")
    assert taken.value.code is Code.EXPORT_CHANGED


@follows("add it there, or export fewer columns: columns")
def test_a_step_that_is_refused_leaves_everything_as_it_was(copy: Copy, spark: SparkSession) -> None:
    copy.step(change(spark, "(1, 'a', false)", "id, note"), 0)
    for values, code in (
        ("(2, 'b', false), (2, 'c', false)", Code.DUPLICATE_KEY),
        ("(CAST(NULL AS INT), 'b', false)", Code.EXPORT_REFUSED),
    ):
        with pytest.raises(HeadwaterError) as refused:
            copy.step(change(spark, values, "id, note"), 1)
        assert refused.value.code is code
    assert rows(copy) == [(1, "a")]
    assert copy.open().visible() == {"orders": 0}
    copy.step(change(spark, "(2, 'b', false)", "id, note"), 1)
    assert len(rows(copy)) == 2
    with pytest.raises(HeadwaterError, match="has no column 'more'") as other:
        copy.step(change(spark, "(3, 'c', 1, false)", "id, note, more"), 2)
    assert other.value.code is Code.SCHEMA_MISMATCH
    copy.step(change(spark, "(3, 'c', false)", "id, note"), 2)
    assert len(rows(copy)) == 3


@follows(
    "write jdbc://ENTRY/table, where ENTRY stands in `storage.jdbc`, or the driver's own: jdbc:derby:/data/db#table",
    "give it in `storage.jdbc`; then {}",
)
def test_what_is_wrong_is_said(copy: Copy, spark: SparkSession) -> None:
    for to, code, why in (
        ("jdbc://shops/orders", Code.UNKNOWN_REFERENCE, "did you mean 'shop'"),
        ("jdbc:derby:/x;user=me;password=geheim#orders", Code.INVALID_VALUE, "a login does not belong"),
        ("jdbc:mysql://me:geheim@host/db#orders", Code.INVALID_VALUE, "a login does not belong"),
        ("jdbc:derby:/x", Code.INVALID_VALUE, "is no name of a table"),
        ("jdbc:nothing:/x#orders", Code.MISSING_EXTRA, "there is no JDBC driver"),
        (f"jdbc:derby:{copy.folder}/nowhere#orders", Code.EXPORT_REFUSED, "not found"),
    ):
        with pytest.raises(HeadwaterError, match=why) as refused:
            copy.open(to=to).exists()
        assert refused.value.code is code
        assert "geheim" not in str(refused.value)
    assert not copy.open().exists()
