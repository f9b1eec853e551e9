"""What is looked up and followed in a Delta table without Spark is what Spark finds there."""

from __future__ import annotations

import random
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.core.model import CommitTag
from headwater.core.spec import Layout
from headwater.formats.base import Address, LakeContext
from headwater.formats.key_filter import KeyFilter
from headwater.formats.registry import FORMATS
from headwater.incremental.keys import keys_of, narrowed
from headwater.spark.arrow_bridge import local_frame
from tests.conformance.lab import Lab, difference, rows, weighed
from tests.conformance.test_lookups import same_answers
from tests.conformance.test_native_append import batch, step

DDL = "id bigint, part string, day date, price decimal(12,2), at timestamp, open boolean, tags array<string>"
NAMES = [one.split()[0] for one in DDL.split(", ")]
MOST = 1 << 20


@pytest.fixture
def lab(spark: SparkSession, context: LakeContext) -> Lab:
    return Lab(spark, context, FORMATS.get("delta"))


def row(id: int, salt: int = 0) -> tuple[Any, ...]:
    chosen = random.Random(id * 1000 + salt)
    given: list[Any] = [
        chosen.choice(["a", "b c", "naïve 'quoted\"", ""]),
        date(2026, 1, 1 + chosen.randrange(28)),
        Decimal(chosen.randrange(10_000)) / 100,
        datetime(2026, 1, 1, chosen.randrange(24), 0, 0, chosen.randrange(10**6), tzinfo=timezone.utc),
        chosen.random() < 0.5,
        ["x"] * chosen.randrange(3),
    ]
    return (id, *(None if chosen.random() < 0.1 else one for one in given))


@pytest.mark.parametrize("partitioned", [False, True])
def test_look_ups_and_changes_are_sparks(lab: Lab, partitioned: bool) -> None:
    table = lab.table(DDL, keys=["id"], partition_by=["open"] if partitioned else [])
    native = lab.native(table)
    for first in (0, 100):
        table.append(lab.frame([row(id) for id in range(first, first + 100)], DDL))
    table.upsert(lab.frame([row(id, 1) for id in range(95, 105)], DDL))
    native.append(batch([row(id) for id in range(200, 210)], DDL), step(0))
    lab.spark.sql(f"DELETE FROM delta.`{table.address.path}` WHERE id % 50 = 7")
    native.upsert(batch([row(id, 2) for id in range(5)], DDL), ["id"], step(1))
    table.compact()
    last = table.version()
    assert last is not None

    for start in range(0, last, 2):
        found = native.changes(start, last, MOST)
        assert found is not None, f"after version {start}"
        assert weighed(local_frame(lab.spark, found)) == weighed(table.changes(start, last)), f"after version {start}"
    assert native.changes(0, last, 100) is None

    for version in (2, last):
        whole = table.read(version)
        for name in NAMES[:-1]:
            keys = keys_of([(whole.where("id IN (3, 98, 99, 150)"), [name])], [name])
            key_filter = keys.key_filter({name: name})
            assert key_filter is not None
            if name == "part":
                key_filter = KeyFilter({name: ("a", "b c", None)}, (name,))
                keys = keys_of([(lab.frame([("a",), ("b c",), (None,)], "part string"), [name])], [name])
            found = native.some(version, key_filter.showing("id"), MOST)
            assert found is not None, name
            wanted = narrowed(whole, keys).select(*found.column_names)
            assert rows(local_frame(lab.spark, found)) == rows(wanted), name
    assert native.some(last, KeyFilter({"id": (3, 150)}, ("id",)), 100) is None
    assert native.some(last, KeyFilter({"part": ("naïve 'quoted\"",)}, ("id",)), MOST) is None, "not a plain text"
    assert native.some(last, KeyFilter({"gone": (3,)}, ("id",)), MOST) is None


def test_what_is_not_sparks_is_left_to_it(lab: Lab) -> None:
    table = lab.table("id bigint, at timestamp_ntz", keys=["id"])
    native = lab.native(table)
    first = table.append(lab.frame([(1, datetime(2026, 1, 1))], "id bigint, at timestamp_ntz"))
    second = table.append(lab.frame([(2, datetime(2026, 1, 1))], "id bigint, at timestamp_ntz"))
    assert native.changes(first, second, MOST) is None, "a moment without a zone would get one"
    assert native.some(second, KeyFilter({"id": (1,)}, ("id",)), MOST) is None

    grown = lab.table("id bigint", keys=["id"])
    first = grown.append(lab.frame([(1,)], "id bigint"))
    grown.evolve(lab.frame([], "id bigint, more string").schema)
    second = grown.append(lab.frame([(2, "b")], "id bigint, more string"))
    native = lab.native(grown)
    assert native.changes(first, second, MOST) is None, "the columns changed in between"
    old = native.some(first, KeyFilter({"id": (1, 2)}, ("id",)), MOST)
    assert old is not None and old.to_pylist() == [{"id": 1}]


def test_changes_that_only_spark_knows(lab: Lab) -> None:
    """A commit that takes whole files away writes no feed: what is gone is found by Spark."""
    table = lab.table(DDL, keys=["id"], partition_by=["part"])
    first = table.append(lab.frame([row(id) for id in range(20)], DDL))
    lab.spark.sql(f"DELETE FROM delta.`{table.address.path}` WHERE part IS NOT NULL")
    last = table.version()
    assert last is not None
    assert lab.native(table).changes(first, last, MOST) is None
    assert weighed(table.changes(first, last)) == difference(rows(table.read(first)), rows(table.read(last)))


def test_a_first_write_that_was_cut_off(spark: SparkSession, context: LakeContext, tmp_path: Path) -> None:
    """Its files are in the way of nothing, and somebody else's are not taken for them."""
    table = FORMATS.get("delta").spark(spark, Address(path=str(tmp_path / "cut")), context)
    first = spark.range(4).withColumn("name", F.when(F.col("id") == 3, F.raise_error(F.lit("odd")).cast("string")))
    layout, commit_tag = Layout(partition_by=("name",), target_file_size=1 << 20), CommitTag("flow", 1, 0)
    with pytest.raises(Exception, match="odd"):
        table.create_with(first.repartition(4), layout, commit_tag)
    assert not table.exists()
    (tmp_path / "cut").mkdir(exist_ok=True)
    (tmp_path / "cut" / "part-0-left-over.parquet").write_bytes(b"")
    version = table.create_with(spark.range(2).withColumn("name", F.lit("a")), layout, commit_tag)
    assert (table.read().count(), table.layout(), table.landed(commit_tag)) == (2, layout, version)
    assert [row["_weight"] for row in table.changes(0, version).collect()] == [1, 1]
    assert not list((Path(context.warehouse) / "_headwater" / "begun").iterdir())
    table.append(spark.range(1).withColumn("name", F.lit("b")))
    assert table.read().count() == 3

    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "part-0.parquet").write_bytes(b"")
    with pytest.raises(Exception, match=r"(?i)exists|empty"):
        FORMATS.get("delta").spark(spark, Address(path=str(tmp_path / "theirs")), context).create_with(spark.range(2))


def test_columns_that_have_other_names_in_files_are_read_without_spark(lab: Lab) -> None:
    """Renamed, dropped and added again, nested ones too, under deletion vectors, in partitions."""
    ddl = "`Sale ID` bigint, v string, part date, gone int, s struct<`in ner`: string, n: int>, old decimal(12,2)"
    table = lab.table(ddl, partition_by=["part"], options={"delta.enableDeletionVectors": "true"})
    native, name = lab.native(table), f"delta.`{table.address.path}`"

    def is_same() -> None:
        assert lab.native(table).version() == table.version()
        found = local_frame(lab.spark, lab.native(table).read().read_all())
        assert found.columns == table.schema().names
        assert rows(found) == rows(table.read())
        same_answers(lab, table)

    days = [None, date(2026, 1, 2), date(2026, 1, 3)]
    first = [(n, f"v{n}", days[n % 3], n, None if n % 4 == 0 else (f"i{n}", n), Decimal(n)) for n in range(20)]
    table.append(lab.frame(first, ddl))
    lab.spark.sql(f"DELETE FROM {name} WHERE `Sale ID` % 5 = 1")
    is_same()
    before = table.version()
    assert before is not None
    for change in (
        "RENAME COLUMN v TO w",
        "RENAME COLUMN s.n TO `num ber`",
        "DROP COLUMN gone",
        "RENAME COLUMN part TO `the day`",
        "ADD COLUMNS (v int, gone string)",
    ):
        lab.spark.sql(f"ALTER TABLE {name} {change}")
    is_same()
    lab.spark.sql(
        f"INSERT INTO {name} SELECT 100, 'new', DATE'2026-02-01', struct('deep', 5), 1.5, 7, 'here' FROM range(3)"
    )
    lab.spark.sql(f"DELETE FROM {name} WHERE w = 'v2'")
    is_same()
    assert rows(local_frame(lab.spark, native.read(before).read_all())) == rows(table.read(before))
    some = local_frame(lab.spark, native.read(columns=["gone", "Sale ID", "the day"]).read_all())
    assert rows(some) == rows(table.read().select("gone", "`Sale ID`", "`the day`"))
    assert native.some(table.version() or 0, KeyFilter({"Sale ID": (3,)}, ("Sale ID",)), MOST) is None
