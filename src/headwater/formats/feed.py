"""A Structured Streaming source for tables whose format has no exact one of its own.

A feed is a folder `<warehouse>/_headwater/feeds/<table>/<consumer>` with one sub-folder of Parquet files for
each time that the table was looked at and had changed: the rows that came since, by `SparkTable.changes`.
Spark's file source reads it, and its checkpoint remembers which files it has had.

A sub-folder is made in `_tmp` and appears whole, by a rename. Once it may appear it is never made again:
Spark does not promise the same rows in the same files the second time, and a query may have read some.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, UsageError
from headwater.core.model import WEIGHT, At, Version
from headwater.core.storage import Files
from headwater.formats.feed_folders import STATE, feed_folder, feed_versions, safe_name
from headwater.formats.footers import row_counts
from headwater.schema.changes import Retype, schema_changes
from headwater.spark.frames import column
from headwater.spark.internals import java_context
from headwater.spark.session import activate, fork

if TYPE_CHECKING:
    from headwater.formats.spark_table import SparkTable

EVERY = 1.0
"""Seconds between two looks at the table."""

_TMP = "_tmp"
_DONE = "_done"

logger = logging.getLogger(__name__)


def open_feed(table: SparkTable, *, changes: bool, start: At | None, consumer: str) -> DataFrame:
    """The table as a stream: what it holds by now is there when this returns, the rest comes by itself."""
    folder = f"{_folder_of(table)}/{safe_name(consumer)}{'-changes' if changes else ''}"
    feed = _Feed(table, folder, changes=changes, start=start)
    schema = feed.open()
    with _guard:
        running = _pumps.get(feed.place)
        if running is None or not running.is_for(table.spark):
            _pumps[feed.place] = _Pump(table.spark, feed)
    # Files are known by their names, which no two share: the checkpoint of a query goes on when the lake has moved.
    options = {"recursiveFileLookup": "true", "fileNameOnly": "true"}
    reader = table.spark.readStream.schema(schema).options(**options)
    return reader.parquet(feed.pattern)


def versions_needed(table: SparkTable) -> set[Version]:
    """The versions that the table's feeds go on from: what `expire` has to keep for them."""
    return set(feed_versions(table.address, table.context).values())


def drop_feeds(table: SparkTable) -> None:
    """End and delete all feeds of a table that is dropped: the next one of its name starts over."""
    files = Files(table.context.warehouse, table.context.storage)
    folder = _folder_of(table)
    close_feeds(files.join(folder) + "/")
    files.delete(folder)


def advance_feeds(table: SparkTable) -> None:
    """Bring all feeds of a table up to its latest version, also those that nobody reads now."""
    files = Files(table.context.warehouse, table.context.storage)
    for folder in files.list(_folder_of(table)):
        if files.exists(f"{folder.path}/{STATE}"):
            _Feed(table, folder.path, changes=folder.name.endswith("-changes"), start=None).pump()


def leave_feed(table: SparkTable, consumer: str, *, forget: bool = False) -> None:
    """The consumer's query is not running: its feeds are not looked after, and with `forget` deleted."""
    files = Files(table.context.warehouse, table.context.storage)
    for folder in (f"{_folder_of(table)}/{safe_name(consumer)}{kind}" for kind in ("", "-changes")):
        close_feeds(files.join(folder) + "/")
        if forget:
            files.delete(folder)


def close_feeds(prefix: str = "") -> None:
    """End the threads that look after feeds, all or those under a folder. The feeds themselves stay."""
    with _guard:
        chosen = [place for place in _pumps if f"{place}/".startswith(prefix)]
        pumps = [_pumps.pop(place) for place in chosen]
    for pump in pumps:
        pump.close()


@dataclass(frozen=True)
class _Progress:
    """How far a feed is; written after the files that it speaks of."""

    start: str | None
    schema: dict[str, Any]
    sequence: int = 0
    version: Version | None = None
    stamp: int = 0
    """The newest files' time in milliseconds; Spark's file source takes files by time."""


class _Feed:
    """One consumer's folder."""

    def __init__(self, table: SparkTable, folder: str, *, changes: bool, start: At | None) -> None:
        # A session of its own, so that nobody's settings for one write get into this one's.
        self._table = table.format.spark(fork(table.spark), table.address, table.context)
        self._folder = folder
        self._changes = changes
        self._start = start
        self._files = Files(table.context.warehouse, table.context.storage)
        self.place = self._files.join(folder)
        self.pattern = self._files.spark_pattern(folder)
        self._lock = _locks.setdefault(self.place, threading.Lock())

    def open(self) -> StructType:
        """Bring the feed up to date, after tidying up what a crash has left; gives the stream's schema."""
        with self._lock:
            progress = self._recovered(self._progress() or self._begun())
            if progress.start != _described(self._start):
                raise UsageError(
                    Code.USAGE,
                    f"the stream '{self._folder}' began at {progress.start or 'the beginning'}, "
                    f"not at {_described(self._start) or 'the beginning'}",
                    hint="a restarted query names the same start; another query needs another consumer name",
                )
            progress = self._pumped(progress)
        schema = StructType.fromJson(progress.schema)
        return schema.add(StructField(WEIGHT, IntegerType())) if self._changes else schema

    def pump(self) -> None:
        """Put in what the table has got since."""
        activate(self._table.spark)
        with self._lock:
            progress = self._progress()
            if progress is not None:
                self._pumped(progress)

    # --- inside

    def _progress(self) -> _Progress | None:
        found = self._files.find(f"{self._folder}/{STATE}")
        return None if found is None else _Progress(**json.loads(found))

    def _begun(self) -> _Progress:
        version = None if self._start is None else self._table.version_at(self._start)
        return self._kept(_Progress(_described(self._start), self._table.schema().jsonValue(), version=version))

    def _kept(self, progress: _Progress) -> _Progress:
        self._files.make_folder(self._folder)
        self._files.write_atomic(f"{self._folder}/{STATE}", json.dumps(asdict(progress)))
        return progress

    def _recovered(self, progress: _Progress) -> _Progress:
        for made in self._files.list(f"{self._folder}/{_TMP}"):
            if self._files.exists(f"{made.path}/{_DONE}"):
                progress = self._published(progress, made.name)
            else:
                self._files.delete(made.path)
        for there in self._files.list(self._folder):
            if there.is_folder and not there.name.startswith("_"):
                sequence, _, version = there.name.partition("-")
                if int(sequence) > progress.sequence:
                    progress = self._kept(replace(progress, sequence=int(sequence), version=int(version)))
        return progress

    def _pumped(self, progress: _Progress) -> _Progress:
        latest = self._table.version()
        if latest is None or latest == progress.version:
            return progress
        schema = self._checked_schema(progress)
        progress = replace(progress, schema=schema.jsonValue())
        name = f"{progress.sequence + 1:012d}-{latest}"
        aside = f"{self._folder}/{_TMP}/{name}"
        self._files.delete(aside)
        rows = self._rows(schema, progress.version, latest)
        rows.write.parquet(self._files.spark_uri(aside))
        if not self._drop_all_but_data(aside):
            self._files.delete(aside)
            return self._kept(replace(progress, version=latest))
        self._files.write_atomic(f"{aside}/{_DONE}", "")
        return self._published(progress, name)

    def _checked_schema(self, progress: _Progress) -> StructType:
        schema = self._table.schema()
        for change in schema_changes(StructType.fromJson(progress.schema), schema):
            if isinstance(change, Retype):
                raise TerminalError(
                    Code.SCHEMA_MISMATCH,
                    f"column '{'.'.join(change.path)}' of {self._table.address} was widened from "
                    f"{change.old.simpleString()} to {change.new.simpleString()} under a running stream",
                    hint="Spark reads no file in two types: restart the query with another consumer name",
                )
        return schema

    def _rows(self, schema: StructType, start: Version | None, end: Version) -> DataFrame:
        found = self._table.changes(start, end)
        columns = [column(name) for name in schema.names]
        if self._changes:
            return found.select(*columns, column(WEIGHT).cast(IntegerType()).alias(WEIGHT))
        came = found.where(column(WEIGHT) > 0)
        repeated = F.explode(F.array_repeat(F.lit(1), column(WEIGHT).cast(IntegerType())))
        return came.select(*columns, repeated.alias(WEIGHT)).drop(WEIGHT)

    def _drop_all_but_data(self, folder: str) -> bool:
        """Leave only files with rows; whether there are any."""
        entries = self._files.list(folder)
        data = [entry.path for entry in entries if entry.name.endswith(".parquet")]
        full = {path for path, rows in row_counts(self._files, data).items() if rows}
        for entry in entries:
            if entry.path not in full:
                self._files.delete(entry.path)
        return bool(full)

    def _published(self, progress: _Progress, name: str) -> _Progress:
        """Let a finished sub-folder appear; on object stores file by file, which a restart goes on with."""
        aside, target = f"{self._folder}/{_TMP}/{name}", f"{self._folder}/{name}"
        stamp = max(int(time.time() * 1000), progress.stamp + 1)
        files = [entry.path for entry in self._files.list(aside) if entry.name != _DONE]
        if self._files.is_local:
            for path in files:
                os.utime(self._files.inside(path), ns=(stamp * 1_000_000, stamp * 1_000_000))
            self._files.move(aside, target)
        else:
            for path in files:
                self._files.move(path, f"{target}/{os.path.basename(path)}")
            self._files.delete(aside)
        sequence, _, version = name.partition("-")
        return self._kept(replace(progress, sequence=int(sequence), version=int(version), stamp=stamp))


class _Pump:
    """A thread that keeps a feed up to date until the session ends."""

    def __init__(self, spark: SparkSession, feed: _Feed) -> None:
        self._spark = spark
        self._feed = feed
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed {feed.place}", daemon=True)
        self._thread.start()

    def is_for(self, spark: SparkSession) -> bool:
        return self._thread.is_alive() and self._spark.sparkContext is spark.sparkContext

    def close(self) -> None:
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(EVERY) and self._session_is_up():
            try:
                self._feed.pump()
            except TransientError as error:
                logger.warning("feed %s: %s; trying again", self._feed.place, error)
            except HeadwaterError as error:
                logger.error("feed %s ends: %s", self._feed.place, error)
                return
            except (Py4JError, OSError) as error:
                if self._session_is_up():
                    logger.error("feed %s ends: %s", self._feed.place, error)
                return

    def _session_is_up(self) -> bool:
        context = java_context(self._spark)
        return context is not None and not context.sc().isStopped()


_guard = threading.Lock()
_pumps: dict[str, _Pump] = {}
_locks: dict[str, threading.Lock] = {}
atexit.register(close_feeds)


def _folder_of(table: SparkTable) -> str:
    return feed_folder(table.address, table.context)


def _described(start: At | None) -> str | None:
    return start.isoformat() if isinstance(start, datetime) else None if start is None else str(start)
