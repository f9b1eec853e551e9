"""The streaming feed over tables that change by upsert and by append: exactly once, through crashes and restarts."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import DELETED
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats import feed as feeds
from headwater.formats.base import LakeContext
from headwater.formats.delta.format import DELTA
from headwater.formats.feed import close_feeds, drop_feeds, open_feed, versions_needed
from headwater.formats.parquet.format import PARQUET
from headwater.formats.spark_table import SparkTable
from headwater.tables.sink import sink
from tests.hints.followed import follows

_numbers = itertools.count()
WORDS = "id int, word string"


class Stream:
    """A table and one query over its feed, which is stopped and started again."""

    def __init__(self, table: SparkTable, folder: Path, *, changes: bool) -> None:
        self.table, self.folder, self.changes = table, folder, changes
        self.seen: Counter[str] = Counter()

    def frame(self, rows: list[tuple[Any, ...]], ddl: str = WORDS) -> DataFrame:
        return self.table.spark.createDataFrame(rows, _schema(ddl))

    def open(self, **given: Any) -> DataFrame:
        return open_feed(self.table, **{"changes": self.changes, "start": None, "consumer": "me"} | given)

    def drain(self, **given: Any) -> None:
        """Run the query over what is there, from its checkpoint."""
        query = self.start(self.open(**given), availableNow=True)
        query.awaitTermination()

    def start(self, stream: DataFrame, **trigger: Any) -> Any:
        def take(batch: DataFrame, _: int) -> None:
            for row in batch.collect():
                *values, last = row
                if self.changes:
                    self.seen[repr(tuple(values))] += last
                else:
                    self.seen[repr(tuple(row))] += 1

        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self.folder))
        return writer.trigger(**trigger).start()

    def restart(self) -> None:
        """As if the process had ended: nobody looks after the feed."""
        close_feeds()

    @property
    def rows(self) -> Counter[str]:
        return Counter({row: weight for row, weight in self.seen.items() if weight})


def _schema(ddl: str) -> StructType:
    parsed = _parse_datatype_string(ddl)
    assert isinstance(parsed, StructType)
    return parsed


def _rows(df: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in df.collect())


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads leave the feeds alone, so that a test decides when they are brought up to date."""
    monkeypatch.setattr(feeds, "EVERY", 3600.0)


def _table(spark: SparkSession, context: LakeContext, format: Any, **layout: Any) -> SparkTable:
    table: SparkTable = format.spark(spark, format.address(context, "tables", f"feed [{next(_numbers)}]"), context)
    table.create(_schema(WORDS), Layout(**layout))
    return table


@pytest.fixture
def keyed(spark: SparkSession, context: LakeContext, tmp_path: Path, quiet: None) -> Iterator[Stream]:
    """Signed changes of a table with updates and deletes."""
    table = _table(spark, context, DELTA, keys=("id",))
    yield Stream(table, tmp_path / "query", changes=True)
    drop_feeds(table)
    table.drop()


@pytest.fixture
def appended(spark: SparkSession, context: LakeContext, tmp_path: Path, quiet: None) -> Iterator[Stream]:
    table = _table(spark, context, PARQUET)
    yield Stream(table, tmp_path / "query", changes=False)
    table.drop()


def _upsert(stream: Stream, *rows: tuple[int, str | None, bool]) -> None:
    stream.table.upsert(stream.frame(list(rows), f"{WORDS}, {DELETED} boolean"))


def test_changes_sum_up_to_the_table_through_restarts(keyed: Stream) -> None:
    _upsert(keyed, (1, "a", False), (2, "b", False))
    keyed.drain()
    assert keyed.rows == _rows(keyed.table.read())
    keyed.restart()
    _upsert(keyed, (1, "aa", False), (2, None, True), (3, "c", False))
    _upsert(keyed, (3, "cc", False))
    keyed.open()  # pumped, and not read
    keyed.restart()
    _upsert(keyed, (2, "back", False))
    keyed.drain()
    keyed.drain()
    assert keyed.rows == _rows(keyed.table.read())
    assert keyed.rows == Counter(["(1, 'aa')", "(3, 'cc')", "(2, 'back')"])


@pytest.mark.parametrize("moment", ["making", "made", "appeared"])
def test_a_crash_of_the_feed_neither_loses_nor_doubles(
    keyed: Stream, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    _upsert(keyed, (1, "a", False))
    keyed.drain()
    _upsert(keyed, (1, "aa", False), (2, "b", False))

    def crash(*_: object) -> None:
        raise SystemExit("killed")

    write_atomic: Callable[..., None] = Files.write_atomic

    def crash_at_the_state(files: Files, path: str, content: str) -> None:
        return crash() if path.endswith("_feed.json") else write_atomic(files, path, content)

    keyed.restart()
    with monkeypatch.context() as patch:
        if moment == "making":
            patch.setattr(feeds, "row_counts", crash)
        elif moment == "made":
            patch.setattr(Files, "move", crash)
        else:
            patch.setattr(Files, "write_atomic", crash_at_the_state)
        with pytest.raises(SystemExit):
            keyed.open()
    _upsert(keyed, (3, "c", False))  # the table goes on, and so the crashed group can't simply be made again
    keyed.drain()
    _upsert(keyed, (2, "bb", False))
    keyed.drain()
    assert keyed.rows == _rows(keyed.table.read())


def test_a_plain_stream_gives_every_row_as_often_as_it_came(appended: Stream) -> None:
    appended.table.append(appended.frame([(1, "a"), (1, "a"), (2, None)]))
    appended.drain()
    appended.table.compact()
    appended.table.append(appended.frame([(1, "a")]))
    appended.restart()
    appended.drain()
    assert appended.rows == Counter({"(1, 'a')": 3, "(2, None)": 1})


def test_a_running_query_gets_what_comes(appended: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "EVERY", 0.2)
    appended.table.append(appended.frame([(1, "a")]))
    query = appended.start(appended.open(), processingTime="200 milliseconds")
    try:
        appended.table.append(appended.frame([(2, "b")]))
        deadline = time.monotonic() + 90
        while len(appended.seen) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        query.stop()
    assert appended.rows == Counter(["(1, 'a')", "(2, 'b')"])


def test_a_column_added_later_is_there_after_a_restart(appended: Stream) -> None:
    appended.table.append(appended.frame([(1, "a")]))
    running = appended.open()
    wider = f"{WORDS}, extra struct<x:int>"
    appended.table.evolve(_schema(wider))
    appended.table.append(appended.frame([(2, "b", (5,))], wider))
    assert running.columns == ["id", "word"]
    appended.restart()
    appended.drain()
    assert appended.rows == Counter(["(1, 'a', None)", "(2, 'b', Row(x=5))"])


@follows("Spark reads no file in two types: restart the query with another consumer name")
def test_a_type_widened_under_a_stream_is_refused(appended: Stream) -> None:
    appended.table.append(appended.frame([(1, "a")]))
    appended.drain()
    appended.table.evolve(_schema("id bigint, word string"))
    with pytest.raises(HeadwaterError, match="'id'") as caught:
        appended.open()
    assert caught.value.code is Code.SCHEMA_MISMATCH
    assert appended.open(consumer="another").schema["id"].dataType.simpleString() == "bigint"


@follows("a restarted query names the same start; another query needs another consumer name")
def test_a_consumer_keeps_its_start(appended: Stream) -> None:
    first = appended.table.append(appended.frame([(1, "a")]))
    appended.table.append(appended.frame([(2, "b")]))
    appended.open(start=first, consumer="later")
    assert versions_needed(appended.table) == {2}
    appended.drain(start=first)
    assert appended.rows == Counter(["(2, 'b')"])
    with pytest.raises(UsageError, match="consumer"):
        appended.open(start=None)
    appended.open(start=first)
    appended.open(start=None, consumer="from the beginning")


def test_a_table_made_again_has_no_old_feed(appended: Stream, tmp_path: Path) -> None:
    appended.table.append(appended.frame([(1, "old")]))
    appended.drain()
    appended.table.drop()
    appended.table.create(_schema(WORDS))
    appended.table.append(appended.frame([(1, "new")]))
    anew = Stream(appended.table, tmp_path / "another query", changes=False)
    anew.drain()
    assert anew.rows == Counter(["(1, 'new')"])


# --- the sink


def test_a_sink_needs_what_it_is_asked_for(appended: Stream, keyed: Stream) -> None:
    with pytest.raises(HeadwaterError, match="upsert") as caught:
        sink(appended.table, "s", mode="upsert")
    assert caught.value.code is Code.UNSUPPORTED
    with pytest.raises(UsageError, match="outside a streaming query"):
        sink(keyed.table, "s")(keyed.frame([(1, "a")]), 0)
    assert keyed.table.read().count() == 0


def test_a_feed_into_a_sink_is_exactly_once(appended: Stream, keyed: Stream, tmp_path: Path) -> None:
    """From end to end: a table's stream into another table, killed between the commit and the checkpoint."""
    checkpoint = tmp_path / "copy"

    def copy() -> None:
        writer = appended.open(consumer="copy").writeStream.foreachBatch(sink(keyed.table, "copy"))
        started = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        started.awaitTermination()

    appended.table.append(appended.frame([(1, "a"), (2, "b")]))
    copy()
    commits = checkpoint / "commits"
    for name in ("0", ".0.crc"):
        (commits / name).unlink(missing_ok=True)
    copy()
    appended.table.append(appended.frame([(3, "c")]))
    copy()
    assert _rows(keyed.table.read()) == _rows(appended.table.read())
