"""What is particular to Iceberg: other people's tables, rollbacks, gaps in the lineage, partition expressions."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from headwater.core.errors import Code, HeadwaterError, Unsupported
from headwater.core.model import DELETED, WEIGHT, CommitTag, Version
from headwater.core.spec import Layout, ParquetOptions
from headwater.formats.base import Address, LakeContext
from headwater.formats.iceberg.format import ICEBERG
from headwater.formats.iceberg.spark import IcebergTable
from tests.hints.followed import follows

DDL = "id int, name string"
_numbers = itertools.count()


class Bench:
    """Makes Iceberg tables in the embedded catalog and compares rows."""

    def __init__(self, spark: SparkSession, context: LakeContext) -> None:
        self.spark = spark
        self.context = context
        self.made: list[IcebergTable] = []

    def table(self, ddl: str = DDL, **layout: Any) -> IcebergTable:
        table = self.open(ICEBERG.address(self.context, "tables", f"iceberg_{next(_numbers)}"))
        table.create(schema(ddl), Layout(**layout))
        return table

    def open(self, address: Address) -> IcebergTable:
        table = ICEBERG.spark(self.spark, address, self.context)
        assert isinstance(table, IcebergTable)
        self.made.append(table)
        return table

    def frame(self, rows: list[tuple[Any, ...]], ddl: str = DDL) -> DataFrame:
        return self.spark.createDataFrame(rows, schema(ddl))

    def java(self, table: IcebergTable) -> Any:
        """The table as other engines see it."""
        return table._java.load()

    def native(self, table: IcebergTable) -> Counter[str]:
        assert ICEBERG.native is not None
        found = ICEBERG.native(table.address, self.context).read().read_all().to_pylist()
        return Counter(repr(tuple(row.values())) for row in found)


@pytest.fixture
def bench(spark: SparkSession, context: LakeContext) -> Iterator[Bench]:
    bench = Bench(spark, context)
    yield bench
    for table in bench.made:
        table.drop()


def schema(ddl: str) -> StructType:
    parsed = _parse_datatype_string(ddl)
    assert isinstance(parsed, StructType)
    return parsed


def rows(df: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in df.collect())


def weighed(df: DataFrame) -> dict[str, int]:
    total: Counter[str] = Counter()
    for *values, weight in df.collect():
        total[repr(tuple(values))] += weight
    return {row: weight for row, weight in total.items() if weight}


# --- somebody else's tables


def test_a_foreign_merge_on_read_table_by_path(bench: Bench, tmp_path: Path) -> None:
    spark = bench.spark
    spark.conf.set("spark.sql.catalog.theirs", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.theirs.type", "hadoop")
    spark.conf.set("spark.sql.catalog.theirs.warehouse", str(tmp_path))
    spark.sql(
        "CREATE TABLE theirs.db.t (id int, name string, at timestamp) USING iceberg "
        "PARTITIONED BY (bucket(2, id), days(at)) TBLPROPERTIES ('write.delete.mode'='merge-on-read', "
        "'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read', "
        "'write.parquet.compression-codec'='gzip')"
    )
    spark.sql("INSERT INTO theirs.db.t SELECT id, concat('n', id), timestamp'2026-01-01' FROM range(6)")
    table = bench.open(Address(path=str(tmp_path / "db" / "t")))
    first = table.version()
    spark.sql("DELETE FROM theirs.db.t WHERE id = 1")
    spark.sql("UPDATE theirs.db.t SET name = 'new' WHERE id = 2")
    assert table.layout().partition_by == ("bucket(2, id)", "day(at)")
    assert table.layout().parquet.compression == "gzip"
    assert sorted(row["id"] for row in table.read().collect()) == [0, 2, 3, 4, 5]
    last = table.version()
    assert first is not None and last is not None
    names = {row["name"]: row[WEIGHT] for row in table.changes(first, last).collect()}
    assert names == {"n1": -1, "n2": -1, "new": 1}
    assert [c.rows_removed for c in table.history(limit=2)] == [1, 1]
    assert ICEBERG.native is not None
    native = ICEBERG.native(table.address, bench.context).read(columns=["name", "id"]).read_all()
    assert {tuple(row.values()) for row in native.to_pylist()} == {
        tuple(row) for row in table.read().select("name", "id").collect()
    }
    assert table.stats().rows == 5


def test_equality_deletes_hide_rows_and_the_light_side_refuses(bench: Bench, tmp_path: Path) -> None:
    table = bench.table()
    first = table.append(bench.frame([(1, "a"), (2, "b"), (2, "c")]))
    delete_where_id(bench, table, 2, tmp_path / "deletes.parquet")
    last = table.version()
    assert last is not None and rows(table.read()) == Counter([repr((1, "a"))])
    assert weighed(table.changes(first, last)) == {repr((2, "b")): -1, repr((2, "c")): -1}
    assert table.history(limit=1)[0].rows_removed is None
    with pytest.raises(Unsupported, match="equality"):
        bench.native(table)
    table.compact()
    assert rows(table.read()) == Counter([repr((1, "a"))])


def delete_where_id(bench: Bench, table: IcebergTable, value: int, path: Path) -> None:
    """What Flink's upserts write: a file of key values that are gone."""
    column = pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([value], pa.int32())], schema=pa.schema([column])), path)
    java, jvm = bench.java(table), table._java.jvm
    ids = bench.spark.sparkContext._gateway.new_array(jvm.int, 1)  # type: ignore[union-attr]
    ids[0] = 1
    file = (
        jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(java.spec())
        .ofEqualityDeletes(ids)
        .withPath(str(path))
        .withFormat("parquet")
        .withFileSizeInBytes(os.path.getsize(path))
        .withRecordCount(1)
        .build()
    )
    java.newRowDelta().addDeletes(file).commit()


# --- versions


def test_a_rollback_is_seen_and_undoes_its_steps(bench: Bench) -> None:
    table = bench.table()
    first = table.append(bench.frame([(1, "a")]), CommitTag("f", 1, 0))
    wrong = table.append(bench.frame([(2, "b")]), CommitTag("f", 1, 1))
    bench.java(table).manageSnapshots().rollbackTo(first).commit()
    assert table.version() == first
    assert table.landed(CommitTag("f", 1, 1)) is None
    assert [commit.version for commit in table.history()] == [first]
    assert weighed(table.changes(wrong, first)) == {repr((2, "b")): -1}
    right = table.append(bench.frame([(3, "c")]), CommitTag("f", 1, 1))
    assert weighed(table.changes(wrong, right)) == {repr((2, "b")): -1, repr((3, "c")): 1}
    assert table.version_at(datetime.now(timezone.utc)) == right


def test_expiry_keeps_the_newest_step_of_each_flow_and_what_is_tagged(bench: Bench) -> None:
    table = bench.table()
    old = table.append(bench.frame([(1, "a")]), CommitTag("seldom", 1, 7))
    made = [table.append(bench.frame([(n, "b")]), CommitTag("often", 1, n)) for n in range(4)]
    bench.java(table).manageSnapshots().createTag("audit", made[0]).commit()
    gone = table.expire(datetime.now(timezone.utc) + timedelta(days=1)).versions
    assert gone == tuple(made[1:3])
    assert table.landed(CommitTag("seldom", 1, 7)) == old
    assert table.landed(CommitTag("often", 1, 3)) == made[3]
    assert [commit.version for commit in table.history()] == [made[3], made[0], old]
    # The parents between are gone; both ends can be read, so the difference still can be told.
    assert weighed(table.changes(old, made[3])) == {repr((n, "b")): 1 for n in range(4)}
    with pytest.raises(HeadwaterError) as caught:
        table.changes(made[1], made[3])
    assert caught.value.code is Code.NO_SUCH_VERSION


def test_expiry_leaves_young_versions_though_iceberg_would_not(bench: Bench) -> None:
    table = bench.table(options={"history.expire.max-snapshot-age-ms": "1"})
    made = [table.append(bench.frame([(n, "x")])) for n in range(3)]
    time.sleep(0.01)
    between = table.history()[1].committed_at
    assert table.expire(between).versions == tuple(made[:1])
    assert table.read(made[1]).count() == 2


def test_a_version_is_read_under_its_own_schema_and_the_latest_under_the_present_one(bench: Bench) -> None:
    before, after = "id int, who struct<a:int>", "id bigint, who struct<a:int,b:string>, extra string"
    table = bench.table(before)
    first = table.append(bench.frame([(1, (1,))], before))
    second = table.append(bench.frame([(2, (2,))], before))
    table.evolve(schema(after))
    assert table.read().schema.simpleString() == schema(after).simpleString()
    assert weighed(table.changes(first, second)) == {
        repr((2, (2, None), None)).replace("(2, None)", "Row(a=2, b=None)"): 1
    }
    third = table.append(bench.frame([(3, (3, "z"), "e")], after))
    assert table.read(second).schema.simpleString() == schema(before).simpleString()
    assert rows(table.read(second)) == rows(bench.frame([(1, (1,)), (2, (2,))], before))
    told = table.changes(first, second)
    assert told.columns == ["id", "who", WEIGHT] and [row["id"] for row in told.collect()] == [2]
    assert [row["extra"] for row in table.changes(second, third).collect()] == ["e"]


@follows("ask for the changes up to the latest version, or read the two versions")
def test_changes_between_old_schemas(bench: Bench) -> None:
    one, two = "id int, who struct<a:int>", "id int, who struct<a:int,b:int>, x int"
    table = bench.table(one)
    first = table.append(bench.frame([(1, (1,))], one))
    table.evolve(schema(two))
    second = table.append(bench.frame([(2, (2, 2), 2)], two))
    table.evolve(schema("id int, who struct<a:int,b:int,c:int>"))
    table.append(bench.frame([(3, None, 3)], "id int, who struct<a:int,b:int,c:int>, x int"))
    told = table.changes(first, second)
    assert told.drop(WEIGHT).schema.simpleString() == schema(two).simpleString()
    assert [(row["id"], row[WEIGHT]) for row in told.collect()] == [(2, 1)]
    bench.java(table).updateSchema().renameColumn("x", "y").commit()
    assert table.changes(first, second).columns == ["id", "who", "x", WEIGHT]
    latest = table.append(bench.frame([(4, None, 4)], "id int, who struct<a:int,b:int,c:int>, y int"))
    assert sorted((row["y"], row[WEIGHT]) for row in table.changes(second, latest).collect()) == [(3, 1), (4, 1)]
    bench.java(table).updateSchema().renameColumn("y", "z").commit()
    newest = table.append(bench.frame([(5, None, 5)], "id int, who struct<a:int,b:int,c:int>, z int"))
    with pytest.raises(Unsupported, match="'x' of .* became 'y'"):
        table.changes(second, latest)
    assert sorted(row["z"] for row in table.changes(second, newest).collect()) == [3, 4, 5]
    assert (table.read(second).count(), table.read(latest).count()) == (2, 4)


def test_changes_of_maps_and_repeated_rows(bench: Bench) -> None:
    ddl = "id int, tags map<string,int>"
    table = bench.table(ddl, keys=("id",))
    first = table.upsert(bench.frame([(1, {"a": 1}), (2, {"b": 2})], ddl))
    second = table.upsert(bench.frame([(2, {"b": 3})], ddl))
    found = table.changes(first, second)
    assert weighed(found) == {repr((2, {"b": 2})): -1, repr((2, {"b": 3})): 1}
    assert found.count() == len(found.collect())
    lazy = bench.table(ddl, keys=("id",), options=dict(ICEBERG.merge_on_read))
    start = lazy.upsert(bench.frame([(1, {"a": 1}), (2, {"b": 2})], ddl))
    end = lazy.upsert(bench.frame([(2, {"b": 3})], ddl))
    assert weighed(lazy.changes(start, end)) == weighed(found)
    twice = bench.table()
    start = twice.append(bench.frame([(1, "a"), (1, "a"), (2, "b")]))
    end = twice.replace(bench.frame([(2, "b"), (2, "b"), (2, "b")]))
    assert rows(twice.changes(start, end)) == Counter({repr((1, "a", -1)): 2, repr((2, "b", 1)): 2})


# --- writing


def test_keys_may_be_null_and_oddly_named(bench: Bench) -> None:
    ddl = "`the key.x` int, `select` string"
    table = bench.table(ddl, keys=("the key.x",))
    table.upsert(bench.frame([(None, "a"), (1, "b")], ddl))
    table.upsert(bench.frame([(None, "c")], ddl))
    assert rows(table.read()) == rows(bench.frame([(None, "c"), (1, "b")], ddl))
    table.upsert(bench.frame([(None, None, True)], f"{ddl}, {DELETED} boolean"))
    assert rows(table.read()) == rows(bench.frame([(1, "b")], ddl))


def test_marks_of_upserts_side_by_side_stay_apart(bench: Bench) -> None:
    tables = [bench.table(keys=("id",)) for _ in range(3)]

    def write(n: int) -> list[Version]:
        return [tables[n].upsert(bench.frame([(step, f"t{n}")]), CommitTag(f"flow{n}", n, step)) for step in range(3)]

    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(write, range(3)))
    for n, table in enumerate(tables):
        told = [(c.version, c.commit_tag) for c in table.history()]
        assert told == [(made[n][step], CommitTag(f"flow{n}", n, step)) for step in (2, 1, 0)]


def test_an_upsert_that_fails_says_why_and_commits_nothing(bench: Bench) -> None:
    table = bench.table("id int, v int", keys=("id",))
    table.upsert(bench.frame([(1, 1)], "id int, v int"))
    doubled = bench.frame([(1, 2), (1, 3)], "id int, v int")
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        table.upsert(doubled, CommitTag("f", 1, 0))
    assert table.landed(CommitTag("f", 1, 0)) is None
    assert rows(table.read()) == rows(bench.frame([(1, 1)], "id int, v int"))


# --- layout


@pytest.mark.parametrize(
    ("partition_by", "folders"),
    [
        (["hours(at)"], {"at_hour=2026-01-01-05"}),
        (["month(at)", "truncate(name, 2)"], {"at_month=2026-01", "name_trunc=na"}),
        (["bucket(1, id)"], {"id_bucket=0"}),
    ],
)
def test_partition_expressions(bench: Bench, partition_by: list[str], folders: set[str]) -> None:
    ddl = "id int, name string, at timestamp"
    table = bench.table(ddl, partition_by=tuple(partition_by))
    table.append(bench.frame([(1, "name", datetime(2026, 1, 1, 5, 30))], ddl))
    (file,) = table.files()
    assert folders <= set(file.path.split("/"))
    assert table.layout().partition_by == tuple(partition_by)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("date(att)", "no column 'att'; did you mean 'at'?"),
        ("week(at)", "no expression 'week'"),
        ("bucket(id)", "should be bucket(8, column)"),
        ("date(name)", "name"),
    ],
)
def test_partition_expressions_that_are_none(bench: Bench, expression: str, message: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        bench.table("id int, name string, at timestamp", partition_by=(expression,))
    assert caught.value.code is Code.INVALID_VALUE and message in str(caught.value)


def test_partitioning_evolves_and_old_files_keep_theirs(bench: Bench) -> None:
    ddl = "id int, day string, at timestamp"
    table = bench.table(ddl, partition_by=("day", "date(at)"))
    row = (1, "a", datetime(2026, 1, 1))
    table.append(bench.frame([row], ddl))
    table.repartition(["date(at)", "bucket(2, id)"])
    table.append(bench.frame([row], ddl))
    assert sorted(sorted(file.partition) for file in table.files()) == [["at_day", "day"], ["at_day", "id_bucket_2"]]
    table.repartition([])
    table.append(bench.frame([row], ddl))
    assert rows(table.read()) == rows(bench.frame([row] * 3, ddl))
    assert table.layout().partition_by == ()


def test_a_column_added_later_has_no_statistics_either(bench: Bench) -> None:
    table = bench.table("id int", parquet=ParquetOptions(statistics=False))
    table.evolve(schema("id int, who struct<a:int>"))
    table.append(bench.frame([(1, (2,))], "id int, who struct<a:int>"))
    (file,) = table.files()
    group = pq.ParquetFile(file.path).metadata.row_group(0)
    assert [group.column(i).is_stats_set for i in range(group.num_columns)] == [False, False]


def test_a_dropped_table_leaves_no_file(bench: Bench) -> None:
    table = bench.table()
    table.append(bench.frame([(1, "a")]))
    folder = Path(table.files()[0].path).parent.parent
    assert folder.exists()
    table.drop()
    table.drop()  # nothing to do the second time
    assert not folder.exists()
