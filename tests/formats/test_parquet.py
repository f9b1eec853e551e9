"""What is particular to plain Parquet: its log, its files in folders, crashes, the native side."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.core.model import CommitTag
from headwater.core.spec import Layout, ParquetOptions
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.footers import joined, read_footers
from headwater.formats.parquet.format import PARQUET
from headwater.formats.parquet.log import APPEND, CREATE, Log, LogEntry, TableLogFile, commit_time
from headwater.formats.parquet.native import NativeParquetTable
from headwater.formats.parquet.spark import ParquetTable
from headwater.formats.parquet.staged_files import Attempt
from tests.hints.followed import follows

_numbers = itertools.count()
WORDS = "id int, word string"


@pytest.fixture
def address(context: LakeContext) -> Address:
    # Brackets are what a reader that globs stumbles over, and a percent sign one that unescapes.
    return PARQUET.address(context, "tables", f"odd [{next(_numbers)}] a=1 %41")


class Bench:
    """One table, opened anew each time, as another process would."""

    def __init__(self, spark: SparkSession, address: Address, context: LakeContext) -> None:
        self.spark, self.address, self.context = spark, address, context
        assert address.path is not None
        self.root = Path(address.path)

    @property
    def table(self) -> ParquetTable:
        return ParquetTable(PARQUET, self.spark, self.address, self.context)

    @property
    def native(self) -> NativeParquetTable:
        return NativeParquetTable(self.address, self.context)

    def create(self, ddl: str, **layout: Any) -> ParquetTable:
        self.table.create(_schema(ddl), Layout(**layout))
        return self.table

    def frame(self, rows: list[tuple[Any, ...]], ddl: str) -> DataFrame:
        return self.spark.createDataFrame(rows, _schema(ddl)).coalesce(1)

    def data_files(self) -> set[str]:
        """Every Parquet file that a reader of the folder would find."""
        found = (path.relative_to(self.root) for path in self.root.rglob("*.parquet"))
        return {str(path) for path in found if not path.parts[0].startswith("_")}

    def named_files(self) -> set[str]:
        return {str(Path(file.path).relative_to(self.root)) for file in self.table.files()}


@pytest.fixture
def bench(spark: SparkSession, address: Address, context: LakeContext) -> Iterator[Bench]:
    bench = Bench(spark, address, context)
    yield bench
    bench.table.drop()


def _schema(ddl: str) -> StructType:
    parsed = _parse_datatype_string(ddl)
    assert isinstance(parsed, StructType)
    return parsed


def _rows(df: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in df.collect())


# --- the log, which needs no Spark


class CountingFiles(Files):
    reads = 0

    def find(self, path: str) -> bytes | None:
        self.reads += 1
        return super().find(path)


def _log_of(files: Files, commits: int) -> Log:
    log = Log(files)
    state = log.commit(LogEntry(0, commit_time(None), CREATE, "c", schema={"fields": []}, layout={}), None)
    for version in range(1, commits + 1):
        file = TableLogFile(f"f-{version}.parquet", 10, 1)
        commit_tag = CommitTag("flow", 1, version)
        state = log.commit(LogEntry(version, commit_time(state), APPEND, "a", commit_tag, added=(file,)), state)
    return log


def test_opening_reads_a_few_small_files_however_long_the_history(tmp_path: Path) -> None:
    files = CountingFiles(str(tmp_path))
    log = _log_of(files, 57)
    files.reads = 0
    state = log.latest()
    assert (state.version, len(state.files), state.commit_tags) == (57, 57, {"flow@1": (57, 57)})
    assert files.reads <= 12


@follows("its history lists the versions that can be read")
def test_every_version_and_time_is_found(tmp_path: Path) -> None:
    log = _log_of(Files(str(tmp_path)), 23)
    for version in range(24):
        entry = log.entry(version)
        assert entry is not None and len(log.at(version).files) == version
        assert log.version_at(entry.committed_at) == version
    for missing in (24, datetime(2001, 1, 1, tzinfo=timezone.utc)):
        with pytest.raises(HeadwaterError) as caught:
            log.version_at(missing)
        assert caught.value.code is Code.NO_SUCH_VERSION


@follows("one writer at a time may write a Parquet table")
def test_of_two_writers_one_is_told_to_try_again(tmp_path: Path) -> None:
    log = _log_of(Files(str(tmp_path)), 3)
    before = log.latest()
    log.commit(LogEntry(4, commit_time(before), APPEND, "mine"), before)
    with pytest.raises(TransientError) as caught:
        log.commit(LogEntry(4, commit_time(before), APPEND, "theirs"), before)
    assert caught.value.code is Code.COMMIT_FAILED and log.latest().version == 4
    log.commit(LogEntry(5, commit_time(log.latest()), APPEND, "theirs"), log.latest())
    assert log.latest().version == 5


def test_an_unreadable_entry_is_named(tmp_path: Path) -> None:
    log = _log_of(Files(str(tmp_path)), 3)
    next(tmp_path.rglob("*2.json")).write_text('{"version": 2')
    with pytest.raises(HeadwaterError, match="version 2") as caught:
        log.latest()
    assert caught.value.code is Code.TABLE_CORRUPT


# --- crashes


@pytest.mark.parametrize("moment", ["staged", "half moved", "moved", "committed"])
def test_a_crash_at_any_moment_neither_loses_nor_doubles(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    bench.create(WORDS, partition_by=("word",))
    bench.table.append(bench.frame([(0, "a")], WORDS), CommitTag("topics.x", 1, 0))
    step, rows = CommitTag("topics.x", 1, 1), bench.frame([(1, "a"), (2, "b")], WORDS)
    moved = itertools.count()
    move = Files.move

    def crash(*_: object, **__: object) -> None:
        raise SystemExit("killed")

    def crash_at_the_second(files: Files, source: str, target: str) -> None:
        return crash() if next(moved) else move(files, source, target)

    with monkeypatch.context() as patch:
        if moment == "staged":
            patch.setattr(Attempt, "publish", crash)
        elif moment == "half moved":
            patch.setattr(Files, "move", crash_at_the_second)
        elif moment == "moved":
            patch.setattr(Log, "commit", crash)
        else:
            patch.setattr(Attempt, "over", crash)
        with pytest.raises(SystemExit):
            bench.table.append(rows, step)
    landed = bench.table.landed(step)
    assert (landed is not None) == (moment == "committed")
    assert bench.table.read().count() == (3 if landed else 1)
    bench.table.append(rows, step)
    bench.table.append(bench.frame([(3, "c")], WORDS), CommitTag("topics.x", 1, 2))
    assert _rows(bench.table.read()) == Counter(["(0, 'a')", "(1, 'a')", "(2, 'b')", "(3, 'c')"])
    assert bench.data_files() == bench.named_files(), "a crash's files are still in the folder"
    assert not any((bench.root / "_staging").iterdir())


# --- files in folders


PARTITIONS = (
    "v int, s string, i bigint, t tinyint, b boolean, n decimal(12,3), d date, at timestamp, wall timestamp_ntz"
)
PARTITION_ROWS: list[tuple[Any, ...]] = [
    (
        1,
        "007",
        -(2**63),
        -128,
        True,
        Decimal("-0.500"),
        date(1969, 12, 31),
        datetime(2026, 3, 29, 1, 30, 0, 120),
    ),
    (
        2,
        "a/b=c %41 [x]*?{y}#:\\'\"",
        2**63 - 1,
        127,
        False,
        Decimal("123456789.001"),
        date(9999, 12, 31),
        None,
    ),
    (3, "2026-01-01", None, None, None, None, None, datetime(1970, 1, 1)),
    (4, None, 0, 0, True, Decimal("0.000"), date(2024, 2, 29), datetime(1850, 1, 1, 0, 0, 0, 1)),
    (5, "ä 😀 \u0001 1e3", 1, 1, True, Decimal("1.000"), date(1, 1, 1), datetime(2026, 1, 1)),
]


def test_partition_values_of_every_type_come_back_exactly(bench: Bench) -> None:
    rows = [(*row, row[-1]) for row in PARTITION_ROWS]
    names = _schema(PARTITIONS).names[1:]
    table = bench.create(PARTITIONS, partition_by=tuple(names))
    frame = bench.frame(rows, PARTITIONS)
    table.append(frame)
    assert _rows(table.read()) == _rows(frame)
    assert table.read().where("s = '007'").count() == 1 and table.read().where("i IS NULL").count() == 1
    assert _arrow_rows(bench) == _arrow_rows_of(frame)


def _arrow_rows(bench: Bench) -> Counter[str]:
    return Counter(repr(row) for row in bench.native.read().read_all().to_pylist())


def _arrow_rows_of(df: DataFrame) -> Counter[str]:
    """What Spark itself gives as Arrow: the reference for the native side."""
    import pyarrow as pa

    table = pa.Table.from_batches(df._collect_as_arrow())
    return Counter(repr(row) for row in table.to_pylist())


def test_an_empty_text_in_a_partition_column_is_null(bench: Bench) -> None:
    table = bench.create(WORDS, partition_by=("word",))
    table.append(bench.frame([(1, ""), (2, "__HIVE_DEFAULT_PARTITION__"), (3, None)], WORDS))
    assert _rows(table.read()) == Counter(["(1, None)", "(2, None)", "(3, None)"])
    assert PARQUET.notes and len(table.files()) == 1


def test_the_folder_is_a_hive_style_dataset_for_others(bench: Bench) -> None:
    table = bench.create(WORDS, partition_by=("word",))
    table.append(bench.frame([(1, "a"), (2, "b")], WORDS), CommitTag("topics.orders", 2, 17))
    plain = bench.spark.read.parquet(Files(str(bench.root)).spark_pattern())
    assert _rows(plain.select("id", "word")) == _rows(table.read())
    assert {path.rsplit("-", 2)[0] for path in bench.data_files()} == {
        "word=a/topics.orders-2-17",
        "word=b/topics.orders-2-17",
    }


@pytest.mark.parametrize(
    ("ddl", "partition_by", "message"),
    [
        ("id int, v double", ("v",), "'v'"),
        ("id int", ("id",), "every column"),
        ("id int, ID string", (), "case"),
    ],
)
def test_what_files_and_folders_can_not_hold_is_refused(
    bench: Bench, ddl: str, partition_by: tuple[str, ...], message: str
) -> None:
    with pytest.raises(HeadwaterError, match=message):
        bench.create(ddl, partition_by=partition_by)
    assert not bench.table.exists()


# --- evolving


OLD = "k int, b tinyint, f float, n decimal(5,2), d date, st struct<x:int,l:array<int>>, m map<string,smallint>"
NEW = (
    "k bigint, b int, f double, n decimal(20,2), d timestamp_ntz, "
    "st struct<x:bigint,l:array<bigint>,y:string>, m map<string,int>, extra struct<z:int>"
)


def test_widened_types_and_added_columns_at_every_depth_in_spark_and_light(bench: Bench) -> None:
    old = (2**31 - 1, -128, 0.1, Decimal("-999.99"), date(2024, 2, 29), (7, [1, None]), {"a": -1, "b": None})
    new = (
        2**40,
        2**20,
        0.1,
        Decimal("1e17"),
        datetime(2026, 1, 1, 0, 0, 1),
        (2**40, [], "y"),
        {"c": 2**20},
        (1,),
    )
    nulls = (None,) * 7
    bench.create(OLD).append(bench.frame([old, nulls], OLD))
    before = bench.table.version()
    bench.table.evolve(_schema(NEW))
    bench.table.append(bench.frame([new, (*nulls, None)], NEW))
    assert bench.table.schema().simpleString() == _schema(NEW).simpleString()
    read = bench.table.read()
    widened = (2**31 - 1, -128, 0.10000000149011612, Decimal("-999.99"), datetime(2024, 2, 29))
    first = (*widened, (7, [1, None], None), {"a": -1, "b": None}, None)
    expected = bench.frame([first, (*nulls, None), new, (*nulls, None)], NEW)
    assert _rows(read) == _rows(expected)
    assert _arrow_rows(bench) == _arrow_rows_of(read)
    assert read.where("k > 5000000000").count() == 1 and read.where("b = -128").count() == 1
    bench.table.compact()
    assert _rows(bench.table.read()) == _rows(expected) and len(bench.table.files()) == 1
    assert bench.table.read(before).schema.simpleString() == _schema(OLD).simpleString()


# --- looking after


def test_expiry_removes_compacted_files_and_garbage_and_keeps_a_writers_newest_commit(bench: Bench) -> None:
    table = bench.create(WORDS)
    table.append(bench.frame([(0, "old")], WORDS), CommitTag("quiet", 1, 0))
    marked = table.version()
    for n in range(1, 13):
        table.append(bench.frame([(n, "x")], WORDS), CommitTag("busy", 1, n))
    table.compact()
    latest = table.version()
    garbage = bench.root / "topics.x-1-1-0123456789ab-00000.parquet"
    garbage.write_bytes(b"left by a crash")
    foreign = bench.root / "somebody-elses.parquet"
    foreign.write_bytes(b"not ours")
    later = datetime.now(timezone.utc) + timedelta(seconds=1)
    gone = table.expire(later)
    assert marked == 1 and latest == 14 and gone.versions == (0, *range(2, 13)) and gone.files == 0
    assert garbage.exists(), "that it is nobody's is for `orphans` to say"
    assert [file.path for file in table.orphans(later)] == [str(garbage)]
    assert table.remove_files([str(garbage)]) == 1
    table = bench.table
    assert [commit.version for commit in table.history()] == [latest, latest - 1, marked]
    assert table.read().count() == 13 and _rows(table.read(marked)) == Counter(["(0, 'old')"])
    assert table.landed(CommitTag("quiet", 1, 0)) == marked and table.landed(CommitTag("busy", 1, 3)) is not None
    assert not garbage.exists() and foreign.exists()
    foreign.unlink()
    needed = {Path(f.path).name for v in (latest, latest - 1, marked) for f in table.files(v)}
    assert {Path(path).name for path in bench.data_files()} == needed
    with pytest.raises(HeadwaterError) as caught:
        table.changes(marked, latest)
    assert caught.value.code is Code.NO_SUCH_VERSION
    table.append(bench.frame([(99, "y")], WORDS), CommitTag("busy", 1, 13))
    assert bench.table.read().count() == 14


def test_files_aim_at_the_target_size_in_one_append(bench: Bench) -> None:
    target = 64 * 1024
    plain = ParquetOptions(compression="none", dictionary=False)
    table = bench.create(WORDS, target_file_size=target, parquet=plain)
    frame = bench.spark.range(12_000).selectExpr("cast(id as int) id", "md5(cast(id AS string)) word").coalesce(1)
    table.append(frame)
    sizes = [file.bytes for file in table.files()]
    assert len(sizes) > 4 and max(sizes) < target * 1.5
    assert _rows(table.read()) == _rows(frame)
    table.compact(target_file_size=target // 2)
    assert max(file.bytes for file in table.files()) < target * 0.75
    assert _rows(table.read()) == _rows(frame)


# --- footers


def test_footers_tell_bounds_nulls_and_bytes_over_many_files(bench: Bench) -> None:
    table = bench.create("i int, n decimal(30,2), s string, st struct<x:int>, `a.b` date")
    ddl = "i int, n decimal(30,2), s string, st struct<x:int>, `a.b` date"
    table.append(bench.frame([(1, Decimal("-1.50"), "b", (1,), date(2024, 1, 1)), (None,) * 5], ddl))
    table.append(bench.frame([(7, None, None, None, None)], ddl))
    table.evolve(_schema(f"{ddl}, late int"))
    table.append(bench.frame([(3, None, "a", None, None, 5)], f"{ddl}, late int"))
    paths = sorted(bench.data_files())
    files = Files(str(bench.root))
    total = joined(read_footers(files, paths).values())
    found = {name: (column.nulls, column.min, column.max) for name, column in total.columns.items()}
    assert total.rows == 4 and found["i"] == (1, 1, 7) and found["s"] == (2, "a", "b")
    assert found["n"] == (3, Decimal("-1.50"), Decimal("-1.50")) and found["late"] == (3, 5, 5)
    assert found["a.b"] == (3, date(2024, 1, 1), date(2024, 1, 1)) and found["st"] == (None, None, None)
    assert all(column.bytes > 0 for column in total.columns.values())
    assert sum(pq.read_metadata(bench.root / path).num_rows for path in paths) == total.rows
