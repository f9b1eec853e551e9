"""Appended rows, taken from the inbox in order of arrival: all that wait, up to a bound, are one batch."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headwater.core.errors import Code, IntegrityError
from headwater.sources.append.config import AppendSource
from headwater.sources.append.decoder import DECIMALS, AppendDecoder
from headwater.sources.append.inbox import LARGE, REMEMBERED, Inbox, Waiting
from headwater.sources.decoders.base import SIZE, Decoder
from headwater.sources.reader import POSITION, RAW, Lag, OffsetRange, Position, Reader, ReaderContext

MAX_APPENDS = 1000
"""Appends in one step."""
MAX_BYTES = 32 * 1024 * 1024
"""Bytes in one step, unless a single append has more."""
POLL = 0.03
"""Seconds between two looks into the inbox."""
FORGET_EVERY = 3600.0
"""Seconds between two looks for keys that may be forgotten."""
KEPT = 10
"""Batches that are remembered; only the last one is ever read again."""


@dataclass(frozen=True)
class AppendBatch:
    """Appends that make one step."""

    names: tuple[str, ...]
    merged: bool
    """Whether their lines stand together in a file of the batch's own."""


class AppendReader(Reader):
    """The position is the number of the last batch: `{"batch": 7}`.

    A record's `_position` is `<time>-<rows>-<tag>#<record>`: when the append came, how many rows it had, what tells it
    apart from others, and the record's number in it.
    """

    def __init__(self, spec: AppendSource, context: ReaderContext) -> None:
        self._spark = context.spark
        self._flow = context.flow
        self._notes = context.notes
        self._decoder = AppendDecoder()
        self._inbox = Inbox(context.lasting or context.notes)
        self._last = self._newest()
        self._waiting: list[Waiting] = []
        self._looked_through: set[str] = set()
        self._frozen: frozenset[str] | None = None
        self._forgot_at: float | None = None

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    @property
    def hidden(self) -> StructType:
        return StructType([StructField(DECIMALS, StringType())])

    def next(self, start: Position | None) -> OffsetRange | None:
        begun = _number(start)
        if self._last < begun:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"the batches of {self._flow} end before its last step",
                hint="put its folder in the lake back from a copy, or reset the flow",
            )
        if self._last > begun:
            return OffsetRange({"batch": begun + 1})  # fixed before a crash, and not read yet
        self._waiting = self._look()
        chosen = _first(self._waiting)
        if not chosen:
            return None
        rows, size = sum(one.rows for one in chosen), sum(one.bytes for one in chosen)
        return OffsetRange({"batch": begun + 1}, rows, size, full=len(chosen) < len(self._waiting))

    def fix_range(self, start: Position | None, ahead: OffsetRange) -> Position:
        number = int(ahead.end["batch"])
        if self._last < number:
            names = tuple(one.name for one in _first(self._waiting))
            if len(names) > 1:
                self._notes.write_atomic(_data(number), b"".join(self._inbox.read(name) for name in names))
            self._notes.write_atomic(_log(number), json.dumps({"appends": names, "merged": len(names) > 1}))
            self._last = number
        return ahead.end

    def read(self, start: Position | None, end: Position) -> DataFrame:
        number = int(end["batch"])
        batch = self._batch(number)
        if batch is None:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"batch {number} of {self._flow} is gone: {self._notes.join(_log(number))}",
                hint="put it back from a copy, or reset the flow",
            )
        path = self._notes.spark_pattern(_data(number)) if batch.merged else self._inbox.spark_path(batch.names[0])
        lines = self._spark.read.option("lineSep", "\n").text(path)
        tab = F.instr("value", "\t")
        raw = F.col("value").substr(tab + 1, F.length("value")).cast("binary")
        head = F.substring_index("value", "\t", 1)
        told = F.when(F.instr(head, " ") > 0, head.substr(F.instr(head, " ") + 1, F.length(head)))
        is_large = F.startswith(told, F.lit(LARGE))
        return lines.select(
            raw.alias(RAW),
            F.substring_index(head, " ", 1).alias(POSITION),
            F.when(~is_large, told).alias(DECIMALS),
            F.when(is_large, F.regexp_extract(told, "([0-9]+)", 1).cast("bigint")).alias(SIZE),
        )

    def freeze(self) -> None:
        self._frozen = frozenset(one.name for one in self._look())

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        until = time.monotonic() + seconds
        known = len(self._waiting)
        while not stopping.is_set() and (left := until - time.monotonic()) > 0:
            if len(self._inbox.waiting()) > known:
                return
            stopping.wait(min(left, POLL))

    def lag(self, start: Position | None) -> Lag | None:
        waiting = self._inbox.waiting()
        oldest = min((one.since for one in waiting), default=None)
        return Lag(
            records=sum(one.rows for one in waiting),
            bytes=sum(one.bytes for one in waiting),
            seconds=0.0 if oldest is None else max(0.0, time.time() - oldest),
            detail={"appends": len(waiting)},
        )

    def committed(self, end: Position) -> None:
        number = int(end["batch"])
        batch = self._batch(number)
        if batch is not None:
            self._inbox.taken(batch.names)
            self._looked_through.difference_update(batch.names)
            self._notes.delete(_data(number))
        self._notes.delete(_log(number - KEPT))
        now = time.monotonic()
        if self._forgot_at is None or now - self._forgot_at > FORGET_EVERY:
            self._forgot_at = now
            self._inbox.forget(before=time.time() - REMEMBERED)

    # --- inside

    def _look(self) -> list[Waiting]:
        """What waits and is not in the topic; what is, goes.

        Of one key there may be two: an object store lets two processes claim it that ask at the same instant. The first
        is taken; the other goes when the topic has that.
        """
        found, tags = list[Waiting](), set[str]()
        for one in self._inbox.waiting():
            if (self._frozen is not None and one.name not in self._frozen) or one.tag in tags:
                continue
            tags.add(one.tag)
            if one.name not in self._looked_through:
                if self._inbox.is_taken(one):
                    self._inbox.taken([one.name])
                    continue
                self._looked_through.add(one.name)
            found.append(one)
        return found

    def _newest(self) -> int:
        numbers = (entry.name.removesuffix(".json") for entry in self._notes.list("appends"))
        return max((int(number) for number in numbers if number.isdigit()), default=0)

    def _batch(self, number: int) -> AppendBatch | None:
        path = _log(number)
        found = self._notes.find(path)
        if found is None:
            return None
        try:
            told = json.loads(found)
            return AppendBatch(tuple(told["appends"]), bool(told["merged"]))
        except (ValueError, KeyError, TypeError) as error:
            message = f"the batch {self._notes.join(path)} can't be read: {error}"
            raise IntegrityError(Code.LEDGER_CORRUPT, message) from error


def _first(waiting: list[Waiting]) -> list[Waiting]:
    """As much as fits into a step, and at least one append."""
    size = 0
    for n, one in enumerate(waiting[:MAX_APPENDS]):
        size += one.bytes
        if size > MAX_BYTES and n > 0:
            return waiting[:n]
    return waiting[:MAX_APPENDS]


def _number(start: Position | None) -> int:
    return 0 if start is None else int(start["batch"])


def _log(number: int) -> str:
    return f"appends/{number:012d}.json"


def _data(number: int) -> str:
    return f"appends/{number:012d}.ndjson"
