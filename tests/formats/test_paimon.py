"""What is particular to Paimon: its two snapshots a write, its readers' limits, its log, and how they are met."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, HeadwaterError, Unsupported
from headwater.core.model import DELETED, CommitTag, Version
from headwater.core.spec import Layout, ParquetOptions
from headwater.formats.base import Address, LakeContext
from headwater.formats.paimon.format import PAIMON
from headwater.formats.spark_table import SparkTable
from tests.conformance.lab import PEOPLE, Lab, difference, rows, schema, weighed
from tests.conformance.test_native_reads import native_rows
from tests.hints.followed import follows

ITEMS = "id int, day string, v int"
DEEP = "id int, st struct<x:int,y:struct<z:string>>, l array<struct<x:int,y:string>>"
DEEP_ROWS = [
    (1, (1, ("z",)), [(1, "a"), (None, None), None]),
    (2, (None, None), []),
    (3, (1, (None,)), None),
    (4, None, [None]),
]


@pytest.fixture
def lab(spark: SparkSession, context: LakeContext) -> Iterator[Lab]:
    lab = Lab(spark, context, PAIMON)
    yield lab
    for table in lab.made:
        table.drop()


def assert_all_pairs_exact(table: SparkTable) -> None:
    """Changes between any two versions that the history lists, and once backwards."""
    versions = [commit.version for commit in table.history()][::-1]
    frames = {version: table.read(version).cache() for version in versions}
    pairs = [(start, end) for i, start in enumerate(versions) for end in versions[i:]]
    for start, end in [*pairs, (versions[-1], versions[0])]:
        old, new = frames[start], frames[end]
        for f in new.schema.fields:
            if f.name not in old.columns:
                old = old.withColumn(f.name, F.lit(None).cast(f.dataType))
        expected = difference(rows(old.select(new.columns)), rows(new))
        assert weighed(table.changes(start, end)) == expected, f"changes({start}, {end})"
    for frame in frames.values():
        frame.unpersist()


def upsert_at_random(lab: Lab, table: SparkTable, rng: random.Random) -> Version:
    chosen = rng.sample(range(8), rng.randint(0, 5))
    batch = [(i, rng.choice("ab"), rng.randint(0, 3), rng.random() < 0.4) for i in chosen]
    return table.upsert(lab.deletes(batch, ITEMS))


# --- versions and changes


def test_two_snapshots_of_a_write_are_one_version(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    made = table.upsert(lab.frame([(1, "Ann", None)]), CommitTag("f", 1, 0))
    assert made == 2, "an APPEND and a COMPACT"
    assert [commit.version for commit in table.history()] == [made] == [table.version()]
    assert rows(table.read(1)) == rows(table.read(made)) and weighed(table.changes(1, made)) == {}
    told = table.history()[0]
    assert (told.operation, told.rows_added, told.rows_removed) == ("upsert", 1, 0)
    table.upsert(lab.deletes([(1, "Bea", None, False), (2, "Cyd", None, False), (9, None, None, True)]))
    assert (table.history()[0].rows_added, table.history()[0].rows_removed) == (2, 1)


@pytest.mark.parametrize("keys", [["day", "id"], ["id"]], ids=["keys-hold-partition", "keys-move-between-partitions"])
def test_changes_of_a_keyed_table_are_exact_whatever_happened(lab: Lab, seed: int, keys: list[str]) -> None:
    rng = random.Random(seed)
    table = lab.table(ITEMS, keys=keys, partition_by=["day"])
    for n in range(4):
        upsert_at_random(lab, table, rng)
        if n == 1:
            table.compact()
        if n == 2:
            table.replace(table.read().where("v > 1"))
            table.evolve(schema(f"{ITEMS}, extra string"))
    assert len(table.history()) >= 5
    assert_all_pairs_exact(table)


def test_a_key_is_in_one_partition_only(lab: Lab) -> None:
    table = lab.table(ITEMS, keys=["id"], partition_by=["day"])
    table.upsert(lab.frame([(1, "a", 1), (2, "a", 1), (3, "b", 1)], ITEMS))
    moved = table.upsert(lab.deletes([(1, "b", 2, False), (2, None, None, True), (4, "c", 1, False)], ITEMS))
    assert rows(table.read()) == rows(lab.frame([(1, "b", 2), (3, "b", 1), (4, "c", 1)], ITEMS))
    table.append(lab.frame([(3, "a", 5)], ITEMS))
    assert rows(table.read()) == rows(lab.frame([(1, "b", 2), (3, "a", 5), (4, "c", 1)], ITEMS))
    now = table.version()
    assert now is not None and weighed(table.changes(moved, now)) == {repr((3, "b", 1)): -1, repr((3, "a", 5)): 1}
    assert table.layout().keys == ("id",)


def test_a_write_cut_off_between_its_snapshots(lab: Lab) -> None:
    """Killed after APPEND and before COMPACT, the step has landed, and no change is lost or told twice."""
    table = lab.table(keys=["id"])
    first = table.upsert(lab.frame([(1, "a", None), (2, "b", None)]), CommitTag("f", 1, 0))
    cut = table.upsert(lab.deletes([(1, None, None, True), (2, "B", None, False)]), CommitTag("f", 1, 1))
    folder = Path(lab.context.warehouse, "paimon", "tables.db", str(table.address).split(".")[-1], "snapshot")
    (folder / f"snapshot-{cut}").unlink()
    (folder / "LATEST").write_text(str(cut - 1))
    again = lab.open(table.address)
    assert again.landed(CommitTag("f", 1, 1)) == cut - 1 == again.version()
    assert rows(again.read()) == rows(lab.frame([(2, "B", None)]))
    assert weighed(again.changes(first, cut - 1)) == {
        repr((1, "a", None)): -1, repr((2, "b", None)): -1, repr((2, "B", None)): 1,
    }  # fmt: skip
    again.upsert(lab.frame([(3, "c", None)]), CommitTag("f", 1, 2))
    assert rows(again.read()) == rows(lab.frame([(2, "B", None), (3, "c", None)]))
    assert_all_pairs_exact(again)


def test_changes_of_a_table_without_keys_are_exact_whatever_happened(lab: Lab) -> None:
    table = lab.table(ITEMS, partition_by=["day"])
    table.append(lab.frame([(1, "a", 1), (1, "a", 1), (2, None, 2)], ITEMS))
    table.append(lab.frame([(3, "", 3), (None, "a", 4)], ITEMS))
    table.upsert(lab.deletes([(1, "b", 10, False), (None, None, None, True), (5, "b", 5, False)], ITEMS), keys=["id"])
    assert rows(table.read()) == rows(lab.frame([(1, "b", 10), (2, None, 2), (3, "", 3), (5, "b", 5)], ITEMS))
    table.append(lab.frame([(6, "b", 6)], ITEMS))
    table.compact()
    table.replace(lab.frame([(7, "b", 7)], ITEMS))
    assert rows(table.read()) == rows(lab.frame([(7, "b", 7)], ITEMS)), "other partitions' rows have stayed"
    assert [commit.operation for commit in table.history()] == [
        "replace", "compact", "append", "upsert", "append", "append",
    ]  # fmt: skip
    assert_all_pairs_exact(table)


def test_a_large_gap_between_versions_is_a_difference_of_states(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.formats.paimon.spark.LONGEST_LOG", 1)
    table = lab.table(keys=["id"])
    for n in range(3):
        table.upsert(lab.frame([(1, f"n{n}", None), (n, "x", None)][: 1 + (n != 1)]))
    assert_all_pairs_exact(table)


def test_versions_stay_until_they_are_expired(lab: Lab) -> None:
    """Paimon's own retention, at its shortest, forgets nothing at a commit."""
    table = lab.table(options={"snapshot.time-retained": "1 ms"})
    made = [table.append(lab.frame([(n, None, None)])) for n in range(12)]
    assert [commit.version for commit in table.history()] == made[::-1]


def test_expiry_keeps_the_newest_mark_of_every_writer(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    for n, flow in enumerate(["a", "b", "a", "a"]):
        table.upsert(lab.frame([(n, flow, None)]), CommitTag(flow, 1, n))
    versions = [commit.version for commit in table.history()][::-1]
    assert table.expire(datetime.now(timezone.utc)).versions == tuple(versions[:1])
    assert table.landed(CommitTag("b", 1, 1)) == versions[1] and table.landed(CommitTag("a", 1, 3)) == versions[3]
    assert [commit.version for commit in table.history()] == versions[:0:-1]
    assert table.history()[-1].rows_added == 1, "the write has lost its first snapshot"


# --- structs, dates, schemas


def test_structs_of_nulls_are_told_from_null(lab: Lab) -> None:
    table = lab.table(DEEP)
    frame = lab.frame(DEEP_ROWS, DEEP)
    first = table.append(frame)
    assert rows(table.read()) == rows(frame) == weighed(table.changes(None, first))
    table.upsert(lab.deletes([(4, None, None, True)], DEEP), keys=["id"])
    table.compact()
    table.cluster(["id"])
    assert rows(table.read()) == rows(lab.frame(DEEP_ROWS[:3], DEEP))
    assert native_rows(lab, lab.native(table).read(), DEEP) == rows(table.read())
    assert_all_pairs_exact(table)


@follows("leave `parquet:` out, or the keys, or the structs")
def test_structs_of_a_keyed_table(lab: Lab) -> None:
    table = lab.table(DEEP, keys=["id"])
    table.upsert(lab.frame(DEEP_ROWS, DEEP))
    table.upsert(lab.deletes([(*DEEP_ROWS[0], False), (4, None, None, True)], DEEP))
    table.compact()
    assert rows(table.read()) == rows(lab.frame(DEEP_ROWS[:3], DEEP))
    assert native_rows(lab, lab.native(table).read(), DEEP) == rows(table.read())
    assert table.stats().rows == 3
    with pytest.raises(Unsupported, match="ORC"):
        lab.table(DEEP, keys=["id"], parquet=ParquetOptions(compression="gzip"))
    lab.table(DEEP, parquet=ParquetOptions(compression="gzip"))
    lab.table(PEOPLE, keys=["id"], parquet=ParquetOptions(compression="gzip"))


def test_a_keyed_table_takes_columns_inside_structs(lab: Lab) -> None:
    before, after = "id int, st struct<a:int>", "id int, st struct<a:int,b:struct<c:int>>, x array<struct<y:int>>"
    table = lab.table(before, keys=["id"])
    table.upsert(lab.frame([(1, (1,)), (2, (None,)), (3, None)], before))
    table.evolve(schema(after))
    assert rows(table.read()) == rows(
        lab.frame([(1, (1, None), None), (2, (None, None), None), (3, None, None)], after)
    )
    table.upsert(lab.frame([(3, (3, (4,)), [(5,)])], after))
    expected = [(1, (1, None), None), (2, (None, None), None), (3, (3, (4,)), [(5,)])]
    assert rows(lab.open(table.address).read()) == rows(lab.frame(expected, after))
    first, last = table.history()[-1].version, table.history()[0].version
    assert weighed(table.changes(first, last)) == difference(
        rows(lab.frame([(1, (1, None), None), (2, (None, None), None), (3, None, None)], after)), rows(table.read())
    )
    assert rows(table.read(first)) == rows(lab.frame([(1, (1,)), (2, (None,)), (3, None)], before))


def test_a_keyed_table_of_plain_columns_takes_a_struct(lab: Lab) -> None:
    wider = f"{PEOPLE}, st struct<a:int>"
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([(1, "Ann", None)]))
    table.evolve(schema(wider))
    table.upsert(lab.frame([(2, "Bob", None, (None,)), (3, "Cyd", None, None)], wider))
    table.compact()
    expected = lab.frame([(1, "Ann", None, None), (2, "Bob", None, (None,)), (3, "Cyd", None, None)], wider)
    assert rows(table.read()) == rows(expected)


def test_dates_before_the_calendar_reform(lab: Lab) -> None:
    ddl = "id int, d date, t timestamp"
    frame = lab.frame(
        [(1, date(1, 1, 1), datetime(1500, 2, 28)), (2, date(1582, 10, 4), datetime(1582, 10, 4, 1))], ddl
    )
    for keys in ([], ["id"]):
        table = lab.table(ddl, keys=keys)
        table.append(frame)
        assert rows(table.read()) == rows(frame) == native_rows(lab, lab.native(table).read(), ddl)


def test_a_session_sees_a_new_column_at_once(lab: Lab) -> None:
    table = lab.table()
    query = f"SELECT * FROM {table.address}"
    assert lab.spark.sql(query).columns == ["id", "name", "amount"]
    lab.fmt.spark(lab.spark.newSession(), table.address, lab.context).evolve(schema(f"{PEOPLE}, extra int"))
    assert lab.spark.sql(query).columns == ["id", "name", "amount", "extra"]


def test_key_and_partition_columns_keep_their_type(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    with pytest.raises(HeadwaterError, match="'id'") as caught:
        table.evolve(schema(PEOPLE.replace("id int", "id bigint")))
    assert caught.value.code is Code.SCHEMA_MISMATCH


# --- without a JVM


def test_light_rows_are_those_of_spark_at_every_version(lab: Lab, seed: int) -> None:
    rng = random.Random(seed)
    table = lab.table(ITEMS, keys=["id"], partition_by=["day"])
    for n in range(4):
        upsert_at_random(lab, table, rng)
        if n == 2:
            table.evolve(schema(f"{ITEMS}, extra string"))
    native = lab.native(table)
    for commit in table.history():
        ddl = _ddl(table.read(commit.version).schema)
        assert native_rows(lab, native.read(commit.version), ddl) == rows(table.read(commit.version))
    assert native.version() == table.version()
    assert native_rows(lab, native.read(), _ddl(table.schema())) == rows(table.read())
    odd = lab.table("`a.b` int, c int")
    odd.append(lab.frame([(1, 2)], "`a.b` int, c int"))
    assert lab.native(odd).read(columns=["a.b"]).read_all().to_pylist() == [{"a.b": 1}]


def _ddl(found: StructType) -> str:
    return ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in found.fields)


# --- addresses, refusals


def test_a_table_by_path(lab: Lab, tmp_path: Path) -> None:
    table = lab.open(Address(path=str(tmp_path / "by path")))
    assert not table.exists()
    with pytest.raises(HeadwaterError) as caught:
        table.read()
    assert caught.value.code is Code.NO_SUCH_RELATION
    table.create(schema(PEOPLE))
    table.append(lab.frame([(1, "Ann", Decimal(1))]))
    assert rows(table.read()) == rows(lab.frame([(1, "Ann", Decimal(1))]))
    assert native_rows(lab, lab.native(table).read(), PEOPLE) == rows(table.read())
    table.drop()
    assert not table.exists()


def test_somebody_elses_table(lab: Lab) -> None:
    """Made and changed by plain SQL: read, its versions told, changes exact."""
    address = lab.address()
    lab.spark.sql("CREATE DATABASE IF NOT EXISTS paimon.tables")
    lab.spark.sql(
        f"CREATE TABLE {address} (id INT NOT NULL, p STRING NOT NULL, v INT) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key' = 'id,p', 'bucket' = '2', 'file.format' = 'parquet')"
    )
    table = lab.open(address)
    lab.made.append(table)
    for values in ("(1, 'a', 1), (2, 'b', 2)", "(1, 'a', 10), (3, 'a', 3)"):
        lab.spark.sql(f"INSERT INTO {address} VALUES {values}")
    lab.spark.sql(f"DELETE FROM {address} WHERE v = 2")
    lab.spark.sql(f"ALTER TABLE {address} RENAME COLUMN v TO w")
    assert rows(table.read()) == rows(lab.frame([(1, "a", 10), (3, "a", 3)], "id int, p string, w int"))
    assert table.read().columns == ["id", "p", "w"]
    assert (table.layout().keys, table.layout().partition_by) == (("id", "p"), ("p",))
    assert len(table.history()) == 3 and table.history()[0].commit_tag is None
    last = table.history()[0].version
    assert weighed(table.changes(None, last)) == rows(table.read())


def test_renamed_columns_of_somebody_elses_structs(lab: Lab) -> None:
    address = lab.address()
    lab.spark.sql("CREATE DATABASE IF NOT EXISTS paimon.tables")
    properties = "TBLPROPERTIES ('file.format' = 'parquet', 'bucket' = '-1')"
    lab.spark.sql(f"CREATE TABLE {address} (id INT, st STRUCT<x: INT>) {properties}")
    table = lab.open(address)
    lab.made.append(table)
    lab.spark.sql(f"INSERT INTO {address} VALUES (1, named_struct('x', CAST(NULL AS INT)))")
    lab.spark.sql(f"ALTER TABLE {address} RENAME COLUMN st TO nested")
    lab.spark.sql(f"INSERT INTO {address} VALUES (2, NULL)")
    assert table.read().columns == ["id", "nested"]
    assert rows(table.read()) == rows(lab.frame([(1, (None,)), (2, None)], "id int, nested struct<x:int>"))


@follows("cluster tables without keys", "leave `keys` out", "give it a name in a catalog with `table:`")
def test_what_can_not_be_done_says_why(lab: Lab, tmp_path: Path) -> None:
    keyed = lab.table(keys=["id"])
    with pytest.raises(Unsupported, match="sorted by"):
        keyed.cluster(["name"])
    with pytest.raises(HeadwaterError, match="can't be upserted by name") as caught:
        keyed.upsert(lab.frame([(1, "Ann", None)]), keys=["name"])
    assert caught.value.code is Code.USAGE
    keyed.upsert(lab.frame([(1, "Ann", None)]))
    lab.table().cluster(["name"])
    by_path = lab.open(Address(path=str(tmp_path / "by path")))
    by_path.create(schema(PEOPLE), Layout(keys=("id",)))
    by_path.upsert(lab.frame([(1, "Ann", None)]))
    with pytest.raises(Unsupported, match="by its path"):
        by_path.compact()
    keyed.compact()
    with pytest.raises(HeadwaterError, match=r"catalog\.database\.table") as caught:
        lab.open(Address(table="nowhere"))
    assert caught.value.code is Code.INVALID_VALUE


def test_keyed_compaction_leaves_one_file_and_every_row(lab: Lab) -> None:
    table = lab.table(keys=["id"], options={"changelog-producer": "none"})
    for n in range(4):
        table.upsert(lab.frame([(n, "x", None), (0, f"n{n}", None)][: 1 + (n > 0)]))
    before, version = rows(table.read()), table.version()
    assert len(table.files()) > 1
    table.compact()
    now = table.version()
    assert len(table.files()) == 1 and rows(table.read()) == before
    assert version is not None and now is not None and weighed(table.changes(version, now)) == {}


def test_an_upsert_flags_deletes_only_by_the_flag(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([(1, "Ann", None)]))
    flagged = lab.frame([(1, "Bea", None, None)], f"{PEOPLE}, {DELETED} boolean")
    table.upsert(flagged)
    assert rows(table.read()) == rows(lab.frame([(1, "Bea", None)]))
