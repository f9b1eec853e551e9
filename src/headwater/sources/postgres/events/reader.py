"""An event store's events, by ranges that are fixed before they are read."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError
from headwater.sources.decoders.base import Decoder
from headwater.sources.decoders.json import JsonDecoder
from headwater.sources.postgres.connection import server_name
from headwater.sources.postgres.events.config import PostgresEventsSource
from headwater.sources.postgres.events.cuts import Leg, Tracker
from headwater.sources.postgres.events.database import EventsConnection
from headwater.sources.postgres.events.frames import extras_of, few, hidden_of, many, payload_bytes, recalled
from headwater.sources.postgres.events.gaps import ByGaps
from headwater.sources.postgres.events.snapshots import BySnapshot
from headwater.sources.postgres.events.store import EventStore, look_up
from headwater.sources.reader import Lag, OffsetRange, Position, Reader, ReaderContext
from headwater.spark.errors import reason

FEW = 10_000
"""Events up to which a range is fetched by this process."""
FEW_BYTES = 16 * 1024 * 1024
CALLED_EVERY = 1.0
"""Seconds between two steps that are taken because somebody told of new events: with a steady stream of them the table
would get a commit for every few."""
COUNTED = 1_000_000
"""Events up to which those that wait are counted."""

_LOST = re.compile(
    r"terminating connection|connection attempt failed|I/O error|has been closed|shutting down|starting up"
    r"|too many clients|remaining connection slots|Connection to \S+ refused|recovery conflict|system is in recovery"
)


class PostgresEventsReader(Reader):
    """The position is a snapshot of the database (`BySnapshot`) or, without a transaction column, the highest position
    with a list of the gaps before it (`ByGaps`). A record's `_position` is its position as text of 20 digits."""

    def __init__(self, spec: PostgresEventsSource, context: ReaderContext) -> None:
        self._spec = spec
        self._spark = context.spark
        self._notes = context.notes
        self._database = EventsConnection(spec)
        self._decoder = JsonDecoder()
        self._opened: tuple[EventStore, Tracker] | None = None
        self._taken_at = 0.0

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    @property
    def metadata_columns(self) -> StructType:
        return extras_of(self._spec)

    @property
    def hidden(self) -> StructType:
        return hidden_of(self._spec)

    def recalled(self, topic: Collection[str]) -> list[Column]:
        return recalled(self._spec, topic)

    def next(self, start: Position | None) -> OffsetRange | None:
        store, tracker = self._open()
        found = tracker.next(start)
        if found is None:
            self._database.called = False
            return None
        size = None
        if found.rows <= FEW:
            size = payload_bytes(store, self._database, tracker.legs(start, found.end))
        due = self._database.called and time.monotonic() - self._taken_at >= CALLED_EVERY
        return OffsetRange(dict(found.end), found.rows, size, found.full, due)

    def fix_range(self, start: Position | None, ahead: OffsetRange) -> Position:
        self._tracker.fix_range(start, ahead.end)
        self._database.called = False
        self._taken_at = time.monotonic()
        return ahead.end

    def read(self, start: Position | None, end: Position) -> DataFrame:
        store, tracker = self._open()
        legs = tracker.legs(start, end)
        if self._are_few(store, legs):
            return few(self._spark, store, self._database, legs)
        return many(self._spark, store, legs, self._spec.options)

    def inspect(self, start: Position | None, end: Position, error: Exception) -> bool:
        """What Spark's tasks met at the database is told like what we meet there ourselves."""
        said = "" if isinstance(error, HeadwaterError) else reason(error)
        if "org.postgresql" in said:
            raise self._of_java(said.split(": ", 1)[-1]) from error
        return False

    def freeze(self) -> None:
        self._tracker.freeze()

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        self._database.wait(stopping, seconds)

    def lag(self, start: Position | None) -> Lag | None:
        store, tracker = self._open()
        where = tracker.waiting(start)
        happened = store.happened
        columns = store.bare if happened is None else store.bare_with(f"{happened} AS at")
        since = "NULL" if happened is None else "extract(epoch FROM now() - min(at))::float8"
        rows, seconds = self._database.one(
            f"SELECT count(*), {since} FROM (SELECT * FROM ({columns}) events WHERE {where} LIMIT {COUNTED}) found"
        )
        return Lag(records=rows, seconds=max(0.0, seconds or 0.0) if happened else None, detail=tracker.detail())

    def committed(self, end: Position) -> None:
        if self._opened is not None:
            self._opened[1].committed(end)

    def close(self) -> None:
        self._database.close()

    # --- inside

    @property
    def _tracker(self) -> Tracker:
        return self._open()[1]

    def _open(self) -> tuple[EventStore, Tracker]:
        """The table is looked up with the first question: a flow can be replayed without its source."""
        if self._opened is None:
            store = look_up(self._spec, self._database)
            kind = ByGaps if store.transaction is None else BySnapshot
            self._decoder.canonical = store.types[self._spec.columns.payload] == "jsonb"
            self._opened = (store, kind(store, self._database, self._notes))
            self._database.listen(store.name)
        return self._opened

    def _are_few(self, store: EventStore, legs: list[Leg]) -> bool:
        if sum(leg.rows for leg in legs) > FEW:
            return False
        return payload_bytes(store, self._database, legs) <= FEW_BYTES

    def _of_java(self, said: str) -> HeadwaterError:
        at = server_name(self._spec.dsn, where=self._spec.where)
        if _LOST.search(said):
            return TransientError(
                Code.SOURCE_UNAVAILABLE, f"{at} can't be read just now: {said}", where=self._spec.where
            )
        return UsageError(Code.SOURCE_MISMATCH, f"{at}: {said}", where=self._spec.where)
