"""What is particular to Hudi: record keys, partition paths, table services, commits that failed, other writers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, Unsupported
from headwater.core.model import CommitTag, Version
from headwater.formats.base import Address, LakeContext
from headwater.formats.hudi.format import HUDI
from headwater.formats.hudi.names import stored_name
from headwater.formats.hudi.native import HudiNativeTable
from headwater.formats.spark_table import SparkTable
from tests.conformance.lab import Lab, difference, rows, schema, weighed
from tests.hints.followed import follows

ITEMS = "id int, day string, v int"
DEEP = "id int, m map<string,int>, lines array<struct<sku:string>>, who struct<`a.b`:int,tags:array<string>>"


@pytest.fixture
def lab(spark: SparkSession, context: LakeContext) -> Iterator[Lab]:
    lab = Lab(spark, context, HUDI)
    yield lab
    for table in lab.made:
        table.drop()


def assert_changes_exact(table: SparkTable) -> None:
    """Changes from each version to the next, from the first to each, and backwards over all."""
    versions = [commit.version for commit in table.history()][::-1]
    states = {version: rows(table.read(version)) for version in versions}
    pairs = {*itertools.pairwise(versions), *((versions[0], end) for end in versions)}
    for start, end in [*sorted(pairs), (versions[-1], versions[0])]:
        expected = difference(states[start], states[end])
        assert weighed(table.changes(start, end)) == expected, f"changes({start}, {end})"


def test_a_key_that_changes_its_partition_is_not_doubled(lab: Lab) -> None:
    table = lab.table(ITEMS, keys=["id"], partition_by=["day"])
    table.upsert(lab.frame([(1, "a", 1), (2, "a", 1), (3, "b", 1)], ITEMS))
    table.upsert(lab.frame([(1, "b", 2)], ITEMS))
    table.upsert(lab.deletes([(3, None, None, True)], ITEMS))
    assert rows(table.read()) == rows(lab.frame([(1, "b", 2), (2, "a", 1)], ITEMS))
    assert_changes_exact(table)


def test_the_last_write_of_a_key_wins_whatever_its_values(lab: Lab) -> None:
    table = lab.table("id int, ts bigint", keys=["id"])
    for ts in (9, 3, -1):
        table.upsert(lab.frame([(1, ts)], "id int, ts bigint"))
        assert rows(table.read()) == rows(lab.frame([(1, ts)], "id int, ts bigint"))


@follows("a key is never NULL, and never empty if it is the only one or names the partition")
@pytest.mark.parametrize(
    ("ddl", "keys", "row"),
    [
        ("a int, b string", ["a"], (None, "x")),
        ("a string, b string", ["a"], ("", "x")),
        ("a int, b string", ["a", "b"], (1, None)),
    ],
)
def test_a_key_without_a_value_is_refused(lab: Lab, ddl: str, keys: list[str], row: tuple[Any, ...]) -> None:
    table = lab.table(ddl, keys=keys)
    with pytest.raises(HeadwaterError, match="key") as caught:
        table.upsert(lab.frame([row], ddl))
    assert caught.value.code is Code.SCHEMA_MISMATCH and ", ".join(keys) in str(caught.value)
    assert table.version() is None and table.read().count() == 0
    table.upsert(lab.frame([("1" if ddl.startswith("a string") else 1, "x")], ddl))
    assert table.read().count() == 1


def test_key_columns_that_have_no_exact_text_are_refused(lab: Lab) -> None:
    with pytest.raises(HeadwaterError, match="binary") as caught:
        lab.table("id binary, v int", keys=["id"])
    assert caught.value.code is Code.UNSUPPORTED


def test_keys_of_every_type_find_their_rows_again(lab: Lab) -> None:
    ddl = "k1 boolean, k2 decimal(9,3), k3 date, k4 timestamp, k5 string, k6 string, v int"
    keys = ["k1", "k2", "k3", "k4", "k5", "k6"]
    same = (True, Decimal("1.500"), date(2026, 1, 1))
    one = (*same, datetime(2026, 1, 1, 0, 0, 0, 1), "1,k6:2", "3")
    others = [
        (*same, datetime(2026, 1, 1, 0, 0, 0, 2), "1,k6:2", "3"),
        (*same, datetime(2026, 1, 1, 0, 0, 0, 1), "1", "2,k6:3"),
        (*same, datetime(2026, 1, 1, 0, 0, 0, 1), "", "__null__"),
    ]
    table = lab.table(ddl, keys=keys)
    table.upsert(lab.frame([(*key, 1) for key in (one, *others)], ddl))
    table.upsert(lab.frame([(*one, 2)], ddl))
    assert rows(table.read()) == rows(lab.frame([(*one, 2), *((*key, 1) for key in others)], ddl))


def test_a_timestamp_is_a_key_to_the_microsecond(lab: Lab) -> None:
    ddl = "at timestamp, p string, q int, v int"
    first, second = datetime(2026, 1, 1, 0, 0, 0, 1), datetime(2026, 1, 1, 0, 0, 0, 2)
    table = lab.table(ddl, keys=["at"], partition_by=["p", "q"])
    table.upsert(lab.frame([(first, "a", 1, 1), (second, "b", 1, 1)], ddl))
    table.upsert(lab.frame([(first, "b", 2, 2)], ddl))
    assert rows(table.read()) == rows(lab.frame([(first, "b", 2, 2), (second, "b", 1, 1)], ddl))
    assert {tuple(file.partition.values()) for file in table.files()} >= {("b", "1"), ("b", "2")}


@follows("a Hudi table has the keys it was made with: {}")
def test_a_table_is_upserted_by_its_own_keys_only(lab: Lab) -> None:
    table = lab.table(ITEMS, keys=["id"])
    with pytest.raises(Unsupported, match="id"):
        table.upsert(lab.frame([], ITEMS), keys=["day"])
    table.upsert(lab.frame([], ITEMS), keys=["id"])


def test_nested_values_survive_updates_and_show_in_changes(lab: Lab) -> None:
    table = lab.table(DEEP, keys=["id"])
    table.upsert(
        lab.frame([(1, {"k": 1}, [("a",)], (1, ["x"])), (2, {}, [], None), (3, None, None, (None, None))], DEEP)
    )
    table.upsert(lab.frame([(2, {"n": None}, [(None,), None], (2, [])), (4, {"z": 4}, [("d",)], (4, None))], DEEP))
    table.replace(table.read().where("id < 4"))
    assert rows(table.read()) == rows(
        lab.frame(
            [
                (1, {"k": 1}, [("a",)], (1, ["x"])),
                (2, {"n": None}, [(None,), None], (2, [])),
                (3, None, None, (None, None)),
            ],
            DEEP,
        )
    )
    assert_changes_exact(table)


def test_changes_over_everything_that_can_happen_to_a_table(lab: Lab) -> None:
    table = lab.table(ITEMS, keys=["id"], partition_by=["day"], z_order_by=["v"])
    table.upsert(lab.frame([(i, "ab"[i % 2], i) for i in range(8)], ITEMS))
    table.upsert(lab.frame([(20, "c", 1), (21, "c", 2)], ITEMS))
    table.cluster()
    table.upsert(lab.deletes([(1, None, None, True), (2, "b", 9, False), (20, "c", 7, False)], ITEMS))
    table.evolve(schema(f"{ITEMS}, extra string"))
    table.replace(table.read().where("id <> 3"))
    table.compact()
    table.upsert(lab.frame([(2, "b", 9, "e"), (3, "a", 3, None)], f"{ITEMS}, extra string"))
    assert_changes_exact(table)


def test_a_widened_column_is_exact_through_merges_and_changes(lab: Lab) -> None:
    old, new = (
        "id int, n int, x float, st struct<d:decimal(5,2)>",
        "id int, n bigint, x double, st struct<d:decimal(10,2)>",
    )
    table = lab.table(old, keys=["id"])
    table.upsert(lab.frame([(1, 7, 0.5, (Decimal("1.25"),)), (2, 8, 1.5, None)], old))
    table.evolve(schema(new))
    table.upsert(lab.frame([(2, 2**40, 2.5, (Decimal("12345678.25"),))], new))
    assert rows(table.read()) == rows(
        lab.frame([(1, 7, 0.5, (Decimal("1.25"),)), (2, 2**40, 2.5, (Decimal("12345678.25"),))], new)
    )
    assert_changes_exact(table)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("date", [date(2026, 1, 1), date(1969, 12, 31), None]),
        ("timestamp", [datetime(2026, 1, 1, 0, 0, 0, 123456), datetime(2026, 1, 1, 0, 0, 0, 123999), None]),
        ("decimal(5,2)", [Decimal("1.25"), Decimal("-2.00"), None]),
    ],
)
def test_partition_values_of_other_types_are_exact(lab: Lab, kind: str, values: list[Any]) -> None:
    ddl = f"id int, p {kind}"
    frame = lab.frame(list(enumerate(values)), ddl)
    table = lab.table(ddl, partition_by=["p"])
    table.append(frame)
    assert rows(table.read()) == rows(frame)
    table.replace(frame.where("id > 0"))
    table.append(frame.where("id = 0"))
    assert rows(table.read()) == rows(frame)
    assert rows(table.read().where("p IS NULL")) == rows(frame.where("p IS NULL"))
    read = HudiNativeTable(table.address, lab.context).read().read_all().sort_by("id")
    assert [
        value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in read["p"].to_pylist()
    ] == values


def test_an_empty_partition_value_is_null(lab: Lab) -> None:
    table = lab.table(ITEMS, partition_by=["day"])
    table.append(lab.frame([(1, "", 1), (2, "x", 1)], ITEMS))
    assert rows(table.read()) == rows(lab.frame([(1, None, 1), (2, "x", 1)], ITEMS))
    assert table.read().where("day IS NULL").count() == 1


def test_a_partition_is_found_by_its_path_alone(lab: Lab) -> None:
    table = lab.table(ITEMS, partition_by=["day"])
    table.append(lab.frame([(1, "a", 1), (2, "b", 1)], ITEMS))
    found = table.read().where("day = 'a'")
    assert len(found.inputFiles()) == 2 and found.count() == 1
    assert "PartitionFilters: [isnotnull(day" in found._jdf.queryExecution().toString()


# --- commits that failed, and table services


def test_a_commit_under_way_is_no_version_and_nothing_after_it_is(lab: Lab) -> None:
    table = lab.table(ITEMS)
    first = table.append(lab.frame([(1, "a", 1)], ITEMS))
    second = table.append(lab.frame([(2, "b", 1)], ITEMS))
    _begin_commit(table, first + 1)
    assert table.version() == HudiNativeTable(table.address, lab.context).version() == first
    assert rows(table.read()) == rows(lab.frame([(1, "a", 1)], ITEMS))
    with pytest.raises(HeadwaterError) as caught:
        table.changes(first, second)
    assert caught.value.code is Code.NO_SUCH_VERSION


def test_a_commit_that_was_killed_is_rolled_back_by_the_next(lab: Lab) -> None:
    table = lab.table(ITEMS)
    first = table.append(lab.frame([(1, "a", 1)], ITEMS), CommitTag("f", 1, 0))
    _begin_commit(table, first + 1)
    assert table.landed(CommitTag("f", 1, 1)) is None
    second = table.append(lab.frame([(2, "b", 1)], ITEMS), CommitTag("f", 1, 1))
    assert [commit.version for commit in table.history()] == [second, first] and table.version() == second
    assert_changes_exact(table)


def test_a_failed_write_leaves_the_table_as_it_was(lab: Lab) -> None:
    table = lab.table("id int, v string")
    table.append(lab.frame([(1, "a")], "id int, v string"))
    broken = lab.spark.range(3).selectExpr("cast(id as int) id", "if(id = 2, raise_error('no'), 'x') v")
    with pytest.raises(Exception, match="no"):
        table.append(broken.repartition(2), CommitTag("f", 1, 0))
    assert table.landed(CommitTag("f", 1, 0)) is None and table.read().count() == 1
    table.append(lab.frame([(2, "b")], "id int, v string"), CommitTag("f", 1, 0))
    assert rows(table.read()) == rows(lab.frame([(1, "a"), (2, "b")], "id int, v string"))


def test_expiry_of_an_updated_table_keeps_what_is_asked_for(lab: Lab) -> None:
    table = lab.table(ITEMS, keys=["id"])
    made = [table.upsert(lab.frame([(1, "a", n), (n + 2, "b", n)], ITEMS), CommitTag("f", 1, n)) for n in range(5)]
    states = {version: rows(table.read(version)) for version in made}
    before = _data_files(table)
    gone = table.expire(datetime.now(timezone.utc), keep=[made[2]]).versions
    assert gone == tuple(made[:2]) and len(_data_files(table)) == len(before) - 2
    assert {version: rows(table.read(version)) for version in made[2:]} == {v: states[v] for v in made[2:]}
    assert_changes_exact(table)
    assert table.expire(datetime.now(timezone.utc)).versions == tuple(made[2:4])
    assert len(_data_files(table)) == 1 and rows(table.read()) == states[made[4]]
    assert table.landed(CommitTag("f", 1, 0)) is not None and table.landed(CommitTag("f", 1, 5)) is None
    assert table.expire(datetime.now(timezone.utc)).versions == ()


def test_old_commits_leave_the_timeline_and_rows_are_still_counted(lab: Lab) -> None:
    table = lab.table(ITEMS)
    for n in range(5):
        table.append(lab.frame([(n, "a", n)], ITEMS), CommitTag("f", 1, n))
    table.expire(datetime.now(timezone.utc))
    timeline = Path(str(table.address.path), ".hoodie", "timeline")
    assert len(list(timeline.glob("*_*.commit"))) < 5
    assert sum(file.rows or 0 for file in table.files()) == table.read().count() == 5
    assert table.landed(CommitTag("f", 1, 1)) is not None
    table.append(lab.frame([(9, "a", 9)], ITEMS), CommitTag("f", 1, 5))
    native = HudiNativeTable(table.address, lab.context)
    assert native.read().read_all().num_rows == table.read().count() == 6


def test_compaction_of_a_merge_on_read_table(lab: Lab) -> None:
    table = lab.table(ITEMS, keys=["id"], options=dict(HUDI.merge_on_read))
    table.upsert(lab.frame([(i, "a", i) for i in range(5)], ITEMS))
    table.upsert(lab.deletes([(1, "a", 9, False), (2, None, None, True)], ITEMS))
    before, version = rows(table.read()), _version(table)
    assert any(".log." in file.path for file in table.files())
    table.compact()
    assert not any(".log." in file.path for file in table.files()) and rows(table.read()) == before
    assert weighed(table.changes(version, _version(table))) == {}
    table.upsert(lab.frame([(3, "b", 3)], ITEMS))
    assert_changes_exact(table)


def test_files_carry_no_filter_of_record_keys(lab: Lab) -> None:
    table = lab.table(ITEMS)
    table.append(lab.frame([(1, "a", 1)], ITEMS).coalesce(1))
    assert table.files()[0].bytes < 20_000


def test_versions_are_times_in_utc(lab: Lab) -> None:
    table = lab.table(ITEMS)
    before = datetime.now(timezone.utc)
    version = table.append(lab.frame([(1, "a", 1)], ITEMS))
    begun = datetime.strptime(str(version)[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    assert abs((begun - before).total_seconds()) < 60
    assert before <= table.history()[0].committed_at <= datetime.now(timezone.utc)


# --- names


def test_stored_names_never_become_one() -> None:
    names = ["a.b", "a_x2e_b", "a b", "a_b", "ab", "1a", "a1", "_1a", "ä", "_xe4_", "A", ""]
    stored = [stored_name(name) for name in names]
    assert len(set(stored)) == len(names)
    assert all(name == "" or (name.isascii() and name.isidentifier()) for name in stored)


def test_hudis_own_column_names_are_refused(lab: Lab) -> None:
    with pytest.raises(Unsupported, match="_hoodie_commit_time"):
        lab.table("_hoodie_commit_time string")


def test_keys_and_partitions_of_odd_names(lab: Lab) -> None:
    ddl = "`the id` int, `day.of` string, v int"
    table = lab.table(ddl, keys=["the id"], partition_by=["day.of"])
    table.upsert(lab.frame([(1, "a", 1), (2, "b", 1)], ddl))
    table.upsert(lab.frame([(1, "b", 2)], ddl))
    assert rows(table.read()) == rows(lab.frame([(1, "b", 2), (2, "b", 1)], ddl))
    assert {file.partition["day.of"] for file in table.files()} >= {"b"}


# --- somebody else's tables


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_somebody_elses_table_is_read_exactly_and_never_changed(lab: Lab, tmp_path: Path, table_type: str) -> None:
    ddl = "id int, v string, ts bigint, day string"
    folder = str(tmp_path / "theirs")

    def write(operation: str, *batch: tuple[int, str, int, str]) -> None:
        options = {
            "hoodie.table.name": "theirs",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.datasource.write.operation": operation,
            "hoodie.embed.timeline.server": "false",
            "hoodie.metadata.enable": "false",
        }
        lab.frame(batch, ddl).write.format("hudi").options(**options).mode("append").save(folder)

    write("upsert", (1, "a", 1, "x"), (2, "b", 1, "y"), (3, "c", 1, "x"))
    write("upsert", (1, "a2", 2, "x"), (4, "d", 1, "z"))
    write("delete", (2, "b", 1, "y"))
    write("insert_overwrite", (7, "q", 1, "x"))
    table = lab.open(Address(path=folder))
    assert table.schema().simpleString() == schema(ddl).simpleString()
    assert (table.layout().keys, table.layout().partition_by) == (("id",), ("day",))
    assert rows(table.read()) == rows(lab.frame([(4, "d", 1, "z"), (7, "q", 1, "x")], ddl))
    assert_changes_exact(table)
    assert HudiNativeTable(table.address, lab.context).read().read_all().num_rows == 2
    changes: list[Any] = [
        lambda: table.append(table.read()),
        lambda: table.evolve(schema(f"{ddl}, w int")),
        lambda: table.expire(datetime.now(timezone.utc)),
        lambda: table.compact(),
    ]
    for change in changes:
        with pytest.raises(Unsupported, match="another writer"):
            change()


def test_what_somebody_elses_cleaning_took_is_no_version(lab: Lab, tmp_path: Path) -> None:
    ddl = "id int, v int"
    folder = str(tmp_path / "theirs")
    for n in range(5):
        options = {
            "hoodie.table.name": "theirs",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.clean.commits.retained": "2",
            "hoodie.embed.timeline.server": "false",
            "hoodie.metadata.enable": "false",
        }
        lab.frame([(1, n)], ddl).write.format("hudi").options(**options).mode("append").save(folder)
    table = lab.open(Address(path=folder))
    kept = [commit.version for commit in table.history()]
    assert 2 <= len(kept) < 5
    assert [rows(table.read(version)) for version in kept] == [
        rows(lab.frame([(1, n)], ddl)) for n in range(4, 4 - len(kept), -1)
    ]
    assert_changes_exact(table)


def test_a_table_that_is_not_there(lab: Lab, tmp_path: Path) -> None:
    table = lab.open(Address(path=str(tmp_path / "nothing")))
    assert not table.exists()
    for look in (table.schema, table.version, table.read, HudiNativeTable(table.address, lab.context).version):
        with pytest.raises(HeadwaterError) as caught:
            look()
        assert caught.value.code is Code.NO_SUCH_RELATION
    table.drop()


def _begin_commit(table: SparkTable, version: Version) -> None:
    """What a commit has written of itself before it is done."""
    timeline = Path(str(table.address.path), ".hoodie", "timeline")
    (timeline / f"{version}.commit.requested").touch()
    (timeline / f"{version}.inflight").touch()


def _data_files(table: SparkTable) -> list[Path]:
    return list(Path(str(table.address.path)).glob("*.parquet"))


def _version(table: SparkTable) -> Version:
    version = table.version()
    assert version is not None
    return version
