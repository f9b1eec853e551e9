"""How the files are written, looked after, and what is known of them without reading rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlparse

import duckdb
import pyarrow.parquet as pq
import pytest

from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import CommitTag
from headwater.core.spec import ParquetOptions
from headwater.formats.base import Capability
from headwater.formats.spark_table import SparkTable
from tests.conformance.lab import Lab, rows, weighed
from tests.hints.followed import follows

CODECS = ["none", "snappy", "gzip", "lz4", "zstd", "brotli"]
IN_FOOTER = {"none": {"UNCOMPRESSED"}, "lz4": {"LZ4", "LZ4_RAW"}}
WORDS = "id int, word string"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.capability(Capability.APPEND)
@follows("it has {}", here=False)
def test_compression_is_in_the_footer_or_refused_by_name(lab: Lab, codec: str) -> None:
    options = ParquetOptions(compression=codec)  # type: ignore[arg-type]
    if codec not in lab.fmt.codecs:
        with pytest.raises(HeadwaterError, match=codec) as caught:
            lab.table(WORDS, parquet=options)
        assert caught.value.code is Code.UNSUPPORTED
        hint = caught.value.problem.hint or ""
        assert hint.startswith("it has ")
        lab.table(WORDS, parquet=ParquetOptions(compression=hint.removeprefix("it has ").split(", ")[0]))  # type: ignore[arg-type]
        return
    table = lab.table(WORDS, parquet=options)
    table.append(_words(lab, 50))
    found = {_footer(path).row_group(0).column(0).compression for path in _paths(table)}
    assert found <= IN_FOOTER.get(codec, {codec.upper()}) and found


@pytest.mark.capability(Capability.ROW_GROUP_SIZE, given=[Capability.FILES])
def test_row_group_size(lab: Lab) -> None:
    size = 128 * 1024
    table = lab.table(WORDS, parquet=ParquetOptions(row_group_size=size, dictionary=False, compression="none"))
    table.append(_words(lab, 30_000).coalesce(1))
    assert max(_footer(path).num_row_groups for path in _paths(table)) > 2


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.capability(Capability.DICTIONARY, given=[Capability.FILES])
def test_dictionary(lab: Lab, dictionary: bool) -> None:
    table = lab.table(WORDS, parquet=ParquetOptions(dictionary=dictionary))
    table.append(lab.spark.range(2000).selectExpr("cast(id as int) id", "concat('w', id % 3) word").coalesce(1))
    encodings = {e for path in _paths(table) for e in _column(path, "word").encodings}
    assert any("DICTIONARY" in e for e in encodings) is dictionary


@pytest.mark.capability(Capability.BLOOM_FILTER, given=[Capability.FILES])
def test_bloom_filters_on_the_named_columns_only(lab: Lab) -> None:
    table = lab.table(WORDS, parquet=ParquetOptions(bloom_filter=("word",), dictionary=False))
    table.append(_words(lab, 5000).coalesce(1))
    with duckdb.connect() as db:
        for path in _paths(table):
            found = db.execute(
                "SELECT path_in_schema, bloom_filter_offset IS NOT NULL FROM parquet_metadata(?)", [path]
            ).fetchall()
            assert {"word": True, "id": False}.items() <= dict(found).items()


@pytest.mark.capability(Capability.STATISTICS, given=[Capability.FILES])
def test_statistics_can_be_left_out(lab: Lab) -> None:
    table = lab.table(WORDS, parquet=ParquetOptions(statistics=False))
    table.append(_words(lab, 50))
    for path in _paths(table):
        statistics = _column(path, "id").statistics
        assert statistics is None or not statistics.has_min_max


def test_statistics_are_there_by_default(lab: Lab) -> None:
    table = lab.table(WORDS, parquet=ParquetOptions(statistics=True))
    table.append(_words(lab, 50))
    assert all(_column(path, "id").statistics.has_min_max for path in _paths(table))


@pytest.mark.capability(Capability.TARGET_FILE_SIZE, given=[Capability.COMPACT, Capability.FILES])
def test_files_are_compacted_to_the_target_size(lab: Lab) -> None:
    one = 40 * 1024
    table = lab.table(WORDS, target_file_size=4 * one, parquet=ParquetOptions(compression="none", dictionary=False))
    for n in range(8):
        table.append(_words(lab, one // 40, n).coalesce(1))
    before = len(table.files())
    table.compact()
    after = table.files()
    assert 2 <= len(after) < before, "all in one file, or nothing joined"


@pytest.mark.capability(Capability.COMPACT, given=[Capability.APPEND, Capability.FILES, Capability.CHANGES])
def test_compaction_joins_files_and_changes_no_row(lab: Lab) -> None:
    table = lab.table(WORDS)
    for n in range(6):
        table.append(_words(lab, 5, n).coalesce(1), CommitTag("f", 1, n))
    before, files, version = rows(table.read()), len(table.files()), table.version()
    assert files >= 6 and version is not None
    table.compact()
    now = table.version()
    assert len(table.files()) < files and rows(table.read()) == before and now is not None
    assert weighed(table.changes(version, now)) == {}
    assert table.landed(CommitTag("f", 1, 5)) is not None and table.landed(CommitTag("f", 1, 6)) is None
    assert rows(table.read(version)) == before


@pytest.mark.capability(Capability.CLUSTER, given=[Capability.APPEND, Capability.FILES, Capability.CHANGES])
def test_clustering_sorts_files_and_changes_no_row(lab: Lab) -> None:
    options = ParquetOptions(compression="none", dictionary=False)
    table = lab.table("a int, b int, pad string", z_order_by=["a", "b"], target_file_size=40 * 1024, parquet=options)
    grid = "cast(id % 64 as int) a, cast(id div 64 as int) b, md5(cast(id as string)) pad"
    for n in range(2):
        table.append(lab.spark.range(4096).where(f"id % 2 = {n}").selectExpr(*grid.split(", ")).repartition(2))
    before, version, paths = rows(table.read()), table.version(), {file.path for file in table.files()}
    table.cluster()
    now = table.version()
    assert rows(table.read()) == before and not paths & {file.path for file in table.files()}
    assert version is not None and now is not None and weighed(table.changes(version, now)) == {}
    boxes = [_span(path, "a") * _span(path, "b") / 64**2 for path in _paths(table)]
    assert len(boxes) > 1 and sum(boxes) < len(boxes) * 0.75, "each file still spans the whole of both columns"
    assert max(_span(path, name) for path in _paths(table) for name in "ab") > 16, "sorted, but not by both"


@pytest.mark.capability(Capability.EXPIRE, given=[Capability.APPEND, Capability.TIME_TRAVEL, Capability.CHANGES])
def test_expiry_keeps_what_is_needed_and_refuses_the_rest(lab: Lab) -> None:
    table = lab.table(WORDS)
    made = [table.append(_words(lab, 2, n), CommitTag("f", 1, n)) for n in range(3)]
    if lab.fmt.can(Capability.COMPACT):
        table.compact()
    made.append(table.append(_words(lab, 2, 3), CommitTag("f", 1, 3)))
    states = [rows(table.read(version)) for version in made]
    time.sleep(1.1)
    kept = made[2]
    gone = table.expire(datetime.now(timezone.utc), keep=[kept]).versions
    again = lab.open(table.address)
    assert made[0] in gone and not set(gone) & {made[2], made[3]}
    assert rows(again.read()) == states[3] and rows(again.read(kept)) == states[2]
    assert sum(weighed(again.changes(kept, made[3])).values()) == 2
    assert again.landed(CommitTag("f", 1, 3)) is not None and again.landed(CommitTag("f", 1, 4)) is None
    with pytest.raises(HeadwaterError) as caught:
        again.read(made[0]).collect()
    assert caught.value.code is Code.NO_SUCH_VERSION
    with pytest.raises(HeadwaterError) as caught:
        again.changes(made[0], made[3]).collect()
    assert caught.value.code is Code.NO_SUCH_VERSION


@pytest.mark.capability(Capability.EXPIRE, given=[Capability.APPEND, Capability.REPLACE])
def test_expiry_deletes_files_that_nothing_needs(lab: Lab) -> None:
    table = lab.table(WORDS)
    table.append(_words(lab, 20).coalesce(1))
    old = [Path(path) for path in _paths(table)]
    table.replace(_words(lab, 5, 7).coalesce(1))
    assert all(path.exists() for path in old)
    time.sleep(1.1)
    table.expire(datetime.now(timezone.utc))
    assert not any(path.exists() for path in old)
    assert rows(table.read()) == rows(_words(lab, 5, 7))


@pytest.mark.capability(Capability.FILES, given=[Capability.APPEND])
def test_live_files_are_listed(lab: Lab) -> None:
    table = lab.table(WORDS)
    assert table.files() == []
    first = table.append(_words(lab, 10))
    table.append(_words(lab, 5, 1))
    files = table.files()
    assert sum(file.rows or 0 for file in files) == 15
    assert all(file.bytes == Path(path).stat().st_size for file, path in zip(files, _paths(table), strict=True))
    assert sum(_footer(path).num_rows for path in _paths(table)) == 15
    if lab.fmt.can(Capability.TIME_TRAVEL):
        assert sum(file.rows or 0 for file in table.files(first)) == 10


@pytest.mark.capability(Capability.STATS, given=[Capability.APPEND])
def test_statistics_of_columns(lab: Lab) -> None:
    ddl = "id int, name string, amount decimal(12,2), tags array<string>"
    table = lab.table(ddl)
    table.append(lab.frame([(i, None if i < 5 else f"n{i % 3}", Decimal(i), ["t"]) for i in range(100)], ddl))
    stats = table.stats()
    assert (stats.rows, stats.files) == (100, len(table.files())) and stats.bytes > 0
    by_name = {column.column: column for column in stats.columns}
    assert (by_name["id"].nulls, by_name["id"].min, by_name["id"].max) == (0, 0, 99)
    assert (by_name["name"].nulls, by_name["name"].min, by_name["name"].max) == (5, "n0", "n2")
    assert (by_name["amount"].min, by_name["amount"].max) == (Decimal("0.00"), Decimal("99.00"))
    assert by_name["name"].distinct == 3 and abs((by_name["id"].distinct or 0) - 100) <= 15
    assert all((column.bytes or 0) > 0 for column in stats.columns)


def _words(lab: Lab, n: int, seed: int = 0):  # type: ignore[no-untyped-def]
    return lab.spark.range(n).selectExpr(f"cast(id + {seed} * {n} as int) id", f"md5(concat(id, '-{seed}')) word")


def _paths(table: SparkTable) -> Iterator[str]:
    for file in table.files():
        url = urlparse(file.path)
        yield unquote(url.path) if url.scheme else file.path


def _span(path: str, name: str) -> int:
    statistics = _column(path, name).statistics
    return int(statistics.max - statistics.min + 1)


def _footer(path: str) -> pq.FileMetaData:
    return pq.ParquetFile(path).metadata


def _column(path: str, name: str) -> pq.ColumnChunkMetaData:
    group = _footer(path).row_group(0)
    return next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == name)
