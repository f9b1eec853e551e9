"""Delta tables of others as a source: written by plain Spark and by delta-rs."""

from __future__ import annotations

import os
import shutil
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta.format import DELTA
from headwater.formats.spark_table import SparkTable
from headwater.sources.reader import Lag, ReaderContext
from headwater.sources.table.config import TableSource
from headwater.sources.table.reader import TableReader
from tests.conformance.lab import weighed
from tests.docs.test_examples import blocks
from tests.hints.followed import follows
from tests.sources.table_lab import Follower
from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")


def rows(*ids: int, v: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [v] * len(ids)})


def source(path: str = "theirs", **more: Any) -> dict[str, dict[str, Any]]:
    return {"t": {"format": "delta", "path": path, **more}}


@pytest.fixture
def theirs(tmp_path: Path) -> str:
    return str(tmp_path / "theirs")


def test_new_rows_once_each_through_compaction(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source(columns={"id": "id"}), topic="keep_raw: true")
    at = datetime(2026, 10, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
    twins = pa.table({"id": pa.array([1, 1], pa.int64()), "at": [at, at], "tags": [["x"], ["x"]]})
    write_deltalake(theirs, twins)
    assert follower.ran() == {"t": 2}
    write_deltalake(theirs, twins.slice(1), mode="append")
    DeltaTable(theirs).optimize.compact()
    write_deltalake(
        theirs,
        pa.table({"id": pa.array([2], pa.int64()), "at": [at], "tags": pa.array([None], pa.list_(pa.string()))}),
        mode="append",
    )
    assert follower.ran() == {"t": 2} and follower.ran() == {"t": 0}
    found = follower.rows("t", "event_id", "at", "tags", "_position", "_raw")
    naive = at.astimezone().replace(tzinfo=None)
    assert sorted((row[0], row[1], row[2]) for row in found) == [("1", naive, ("x",))] * 3 + [("2", naive, None)]
    assert len({row[3] for row in found}) == 4
    first = sorted(row[3] for row in found)[0].split("/")
    assert first[:3] == ["000000000000", "0", "1"] and first[4] == "000001"
    assert all(b'"at":"2026-10-01T12:00:00.123456' in row[4] for row in found)
    places = follower.positions("t")
    assert [(p["after"], p["version"], p["range"]) for p in places] == [(None, 0, 0), (0, 3, 1)]


def test_what_was_kept_raw_can_be_mapped_again(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source(read="changes"), topic="keep_raw: true", format="delta")
    at = datetime(2026, 10, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
    write_deltalake(theirs, pa.table({"id": pa.array([1], pa.int64()), "at": [at], "b": [b"\x00\xff"]}))
    follower.ran()
    before = follower.rows("t", "id", "at", "b", "_op", "_weight", "_position")
    assert headwater("topic", "remap", "t", "--project", tmp_path).code == 0
    assert follower.rows("t", "id", "at", "b", "_op", "_weight", "_position") == before


@follows("read its changes with `read: changes`, or take the new rows alone with `on_change: ignore`")
def test_changed_rows_stop_appends_or_are_ignored_aloud(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source())
    write_deltalake(theirs, rows(1, 2, 3))
    follower.ran()
    write_deltalake(theirs, rows(4), mode="append")
    DeltaTable(theirs).delete("id = 1")
    DeltaTable(theirs).update(updates={"v": "'b'"}, predicate="id = 2")
    why = follower.failed()
    assert "SOURCE_ROWS_CHANGED" in why and "version 2" in why and "1 rows" in why and "on_change: ignore" in why
    assert follower.rows("t", "id") == {(n,): 1 for n in (1, 2, 3, 4)}  # what came before it is in
    follower.define(source(on_change="ignore"))
    assert follower.ran() == {"t": 1}
    assert follower.rows("t", "id", "v") == {(1, "a"): 1, (2, "a"): 1, (2, "b"): 1, (3, "a"): 1, (4, "a"): 1}
    assert [place.get("removed", 0) for place in follower.positions("t")] == [0, 0, 1, 1]


def test_changes_by_version(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source(read="changes", max_versions=1))
    write_deltalake(theirs, rows(1, 2))
    follower.ran()
    DeltaTable(theirs).update(updates={"v": "'b'"}, predicate="id = 2")
    DeltaTable(theirs).update(updates={"v": "'c'"}, predicate="id = 2")
    assert follower.ran() == {"t": 4}
    told = follower.rows("t", "_position", "_op", "id", "v", "_weight")
    assert [row[1:] for row in sorted(told)] == [
        *sorted([("r", 1, "a", 1), ("r", 2, "a", 1)], key=lambda row: _digest_order(told, row)),
        ("d", 2, "a", -1), ("i", 2, "b", 1), ("d", 2, "b", -1), ("i", 2, "c", 1),
    ]  # fmt: skip
    DeltaTable(theirs).update(updates={"v": "'d'"}, predicate="id = 2")
    DeltaTable(theirs).delete("id = 2")
    follower.define(source(read="changes"))
    assert follower.ran() == {"t": 1}  # what came and went in between is not told
    assert follower.summed("t", "id", "v") == {(1, "a"): 1}


def _digest_order(told: Any, row: tuple[Any, ...]) -> str:
    return next(str(found[0]) for found in told if found[1:] == row)


def test_starting_points(tmp_path: Path, theirs: str) -> None:
    write_deltalake(theirs, rows(1))
    time.sleep(0.05)
    between = datetime.now(timezone.utc)
    time.sleep(0.05)
    write_deltalake(theirs, rows(2), mode="append")
    spec = source()["t"]
    starts = {"at_version": 0, "at_time": between.isoformat(), "at_latest": "latest", "at_present": "present"}
    follower = Follower.make(tmp_path, {name: {**spec, "start": start} for name, start in starts.items()})
    assert follower.ran() == {"at_version": 1, "at_time": 1, "at_latest": 0, "at_present": 2}
    write_deltalake(theirs, rows(3), mode="append")
    assert follower.ran() == dict.fromkeys(starts, 1)
    assert follower.rows("at_latest", "id") == {(3,): 1} and follower.rows("at_time", "id") == {(2,): 1, (3,): 1}
    follower.define(source(start=17))
    assert "`start` says 17" in follower.failed() and "NO_SUCH_VERSION" in follower.failed()
    assert "it has 0 to 2" in follower.failed()


@follows("set `on_data_loss: continue` to go on without them, or rebuild the flow")
def test_versions_that_were_expired(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source())
    write_deltalake(theirs, rows(0))
    follower.ran()
    for n in range(1, 5):
        write_deltalake(theirs, rows(n), mode="append")
    DeltaTable(theirs).create_checkpoint()
    for version in range(4):
        os.remove(f"{theirs}/_delta_log/{version:020d}.json")
    write_deltalake(theirs, rows(5), mode="append")
    why = follower.failed()
    assert "DATA_LOSS" in why and "version 0 has been expired" in why and "left is 4" in why
    follower.define(source(on_data_loss="continue"))
    assert follower.ran() == {"t": 1}
    assert follower.rows("t", "id") == {(0,): 1, (5,): 1}
    last = follower.positions("t")[-1]
    assert (last["after"], last["version"]) == (4, 5) and "version 0 has been expired" in last["lost"]


def test_files_that_were_vacuumed(tmp_path: Path, theirs: str, spark: SparkSession) -> None:
    follower = Follower.make(tmp_path, source(read="changes"))
    write_deltalake(theirs, rows(1, 2))
    follower.ran()
    DeltaTable(theirs).delete("id = 1")
    DeltaTable(theirs).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    write_deltalake(theirs, rows(3), mode="append")
    why = follower.failed()
    assert "DATA_LOSS" in why and "after version 0" in why and "have been deleted" in why
    follower.define(source(read="changes", on_data_loss="continue"))
    assert follower.ran() == {"t": 0}
    write_deltalake(theirs, rows(4), mode="append")
    assert follower.ran() == {"t": 1} and follower.rows("t", "id") == {(1,): 1, (2,): 1, (4,): 1}


def test_a_table_that_was_made_again(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source())
    write_deltalake(theirs, rows(1))
    write_deltalake(theirs, rows(2), mode="append")
    follower.ran()
    shutil.rmtree(theirs)
    why = follower.failed()
    assert "NO_SUCH_RELATION" in why
    for n in (10, 11, 12):  # it has more versions than were read of the old one
        write_deltalake(theirs, rows(n), mode="append")
    assert "dropped and made again" in follower.failed()
    follower.define(source(on_data_loss="continue"))
    assert follower.ran() == {"t": 3}
    assert follower.rows("t", "id") == {(n,): 1 for n in (1, 2, 10, 11, 12)}


def test_lag_and_the_end_of_a_run_that_ends(
    spark: SparkSession, context: LakeContext, tmp_path: Path, theirs: str
) -> None:
    write_deltalake(theirs, rows(1))
    notes = Files(str(tmp_path / "notes"))
    reads = ReaderContext(spark, "topics.t", notes, str, {}, tables=lambda *_: opened(spark, context, theirs))
    reader = TableReader(TableSource(format="delta", path=theirs), reads)
    first = reader.next(None)
    assert first is not None and reader.lag(first.end) == Lag(records=0, detail={"versions": 0})
    reader.freeze()
    write_deltalake(theirs, rows(2, 3), mode="append")
    write_deltalake(theirs, rows(4), mode="append")
    assert reader.next(first.end) is None
    assert reader.lag(first.end) == Lag(records=3, detail={"versions": 2})
    unfrozen = TableReader(TableSource(format="delta", path=theirs), reads).next(first.end)
    assert unfrozen is not None and unfrozen.end["version"] == 2


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_topic_of_ours_is_a_table_too(tmp_path: Path, theirs: str, format: str) -> None:
    upstream = Follower.make(tmp_path / "upstream", source(theirs), format=format, warehouse="./lake")
    follower = Follower.make(tmp_path / "down", {"t": {"format": format, "path": "../upstream/lake/topics/t"}})
    write_deltalake(theirs, rows(1, 2))
    upstream.ran()
    assert follower.ran() == {"t": 2}
    write_deltalake(theirs, rows(3), mode="append")
    upstream.ran()
    assert follower.ran() == {"t": 1} and follower.ran() == {"t": 0}
    first = upstream.rows("t", "id", "_position", "_source")
    assert follower.rows("t", "id", "payload__position", "payload__source") == first and sum(first.values()) == 3


def test_columns_that_are_added(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source(read="changes"))
    write_deltalake(theirs, rows(1))
    follower.ran()
    more = rows(2).append_column("note", pa.array(["new"]))
    write_deltalake(theirs, more, mode="append", schema_mode="merge")
    follower.ran()
    assert follower.rows("t", "id", "v", "note") == {(1, "a", None): 1, (2, "a", "new"): 1}


def test_bad_tables(tmp_path: Path, theirs: str) -> None:
    follower = Follower.make(tmp_path, source("nowhere"))
    assert "there is no Delta Lake table at" in follower.failed()
    write_deltalake(theirs, rows(1))
    follower.define({"t": {"format": "hudi", "path": "theirs"}})
    assert "what lies there is a Delta Lake table" in follower.failed()
    (tmp_path / "plain").mkdir()
    pa.parquet.write_table(rows(1), tmp_path / "plain" / "1.parquet")
    follower.define({"t": {"format": "parquet", "path": "plain"}})
    assert "source of type `files`" in follower.failed()


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"format": "delta", "table": "lake.sales.orders"}, "found by path"),
        ({"format": "iceberg", "table": "other.sales.orders"}, "no catalog 'other'"),
        ({"format": "delta", "path": "x", "start": "yesterday"}, "should be present, latest"),
        ({"format": "delta", "path": "x", "options": {"a": "b"}}, "no `options`"),
        ({"format": "orc", "path": "x"}, "unknown format 'orc'"),
    ],
)
def test_bad_projects(tmp_path: Path, spec: dict[str, Any], told: str) -> None:
    Follower.make(tmp_path, {"t": spec})
    answer = headwater("check", "--project", tmp_path)
    assert answer.code == 2 and told in answer.out + answer.err


def test_the_page(tmp_path: Path, spark: SparkSession) -> None:
    (project,) = blocks("docs/sources/table.md", "yaml")
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    assert headwater("check", "--project", tmp_path).code == 0
    orders = pa.table({"order_id": ["o1"], "placed_at": [datetime(2026, 10, 1, tzinfo=timezone.utc)]})
    write_deltalake(str(tmp_path / "upstream" / "orders"), orders)
    assert headwater("run", "orders", "--once", "--json", "--project", tmp_path).code == 0
    (row,) = Follower(tmp_path).rows("orders", "event_id", "event_date")
    assert row[0] == "o1" and str(row[1]) == "2026-10-01"


# --- what the format has to get right for tables that it did not make


def opened(spark: SparkSession, context: LakeContext, path: str) -> SparkTable:
    return DELTA.spark(spark, Address(path=path), context)


def test_a_change_data_feed_that_was_switched_on_later(spark: SparkSession, context: LakeContext, theirs: str) -> None:
    write_deltalake(theirs, rows(1, 2))
    DeltaTable(theirs).delete("id = 1")
    spark.sql(f"ALTER TABLE delta.`{theirs}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"UPDATE delta.`{theirs}` SET v = 'z' WHERE id = 2")
    table = opened(spark, context, theirs)
    assert weighed(table.changes(0, 3)) == {"(1, 'a')": -1, "(2, 'a')": -1, "(2, 'z')": 1}
    assert weighed(table.changes(2, 3)) == {"(2, 'a')": -1, "(2, 'z')": 1}
    assert weighed(table.changes(3, 0)) == {"(1, 'a')": 1, "(2, 'a')": 1, "(2, 'z')": -1}


def test_vectors_renamed_columns_and_replaced_types(spark: SparkSession, context: LakeContext, theirs: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{theirs}` (id bigint, v string) USING delta TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{theirs}` VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"DELETE FROM delta.`{theirs}` WHERE id = 2")
    table = opened(spark, context, theirs)
    assert weighed(table.changes(1, 2)) == {"(2, 'b')": -1}
    assert (table.appending(0, [1]), table.appending(0, [1, 2])) == (1, 1)
    spark.sql(f"ALTER TABLE delta.`{theirs}` RENAME COLUMN v TO w")
    spark.sql(f"DELETE FROM delta.`{theirs}` WHERE id = 3")
    assert weighed(table.changes(1, 4)) == {"(2, 'b')": -1, "(3, 'c')": -1}
    replaced = theirs + "-replaced"
    spark.sql("SELECT 1 AS id, 2 AS v").write.format("delta").save(replaced)
    new = spark.sql("SELECT 1 AS id, 'x' AS v, 3 AS w").write.format("delta").mode("overwrite")
    new.option("overwriteSchema", "true").save(replaced)
    found = weighed(opened(spark, context, replaced).changes(0, 1))
    assert found == {"(1, 'x', 3)": 1, "(1, '2', None)": -1}
