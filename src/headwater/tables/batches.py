"""The micro-batches of a streaming query as the steps of a flow: noted in the ledger before, marked in the commit.

A streaming query has two memories, its checkpoint and its table. The ledger joins them: it says which query wrote
batch n, up to which offsets. A query that brings anything but the next batch, or the last one once more, does not go
on from the checkpoint that the table was written by; to take its batches would skip rows or double them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import reduce
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from headwater.core.errors import Code, TerminalError, UsageError
from headwater.core.model import DELETED
from headwater.flows.flow import Intent, Landed, Ledger, Positions, StepDone
from headwater.formats.base import SparkTable
from headwater.spark.frames import column

Mode = Literal["append", "upsert"]

_QUERY_ID = "sql.streaming.queryId"


class CheckpointLost(TerminalError):
    """The query does not go on where the table's last batch ended."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(Code.CHECKPOINT_LOST, message, hint=hint)


@dataclass
class Batches:
    """Writes the batches of one query to one table, each once. Called by Spark, from `foreachBatch`."""

    flow: str
    epoch: int
    ledger: Ledger
    table: SparkTable
    mode: Mode
    keys: Sequence[str] = ()
    definition: str = ""
    guard: Callable[[], None] = lambda: None
    """Called right before a commit; raises if this process may no longer write."""
    prepare: Callable[[SparkTable, StructType], None] = lambda table, schema: None
    """Called with the table in the batch's session and the batch's columns, before anything is written."""
    _last: Intent | None = None

    def write(self, batch: DataFrame, number: int) -> StepDone | None:
        """One batch, one commit; None for a batch without rows, which needs none."""
        session = batch.sparkSession
        begun = self.ledger.epoch().number
        if begun > self.epoch:
            raise CheckpointLost(f"{self.flow} is in epoch {begun} by now, and was opened in {self.epoch}")
        end = _positions(session, number, self.flow)
        intent, repeated = self._intent(number, end)
        # A batch belongs to the query's own session, and so must the table that takes it.
        table = self.table.format.spark(session, self.table.address, self.table.around)
        # Also a batch that has landed is worked out once more: operators with state follow the clock of the events
        # only through what they have seen.
        with _worked_out(batch) as rows:
            if rows == 0:
                return None
            self._check(batch)
            self.prepare(table, StructType([f for f in batch.schema.fields if f.name != DELETED]))
            _check_types(batch, table)
            self.guard()
            write = table.append if self.mode == "append" else table.upsert
            landed = Landed(write(batch, intent.mark(self.flow)), rows)
        return StepDone(self.flow, self.epoch, number, end, landed, repeated)

    @property
    def positions(self) -> Positions:
        last = self.last()
        return {} if last is None else last.end

    def last(self) -> Intent | None:
        """The newest batch of this epoch that was begun."""
        if self._last is None:
            found = self.ledger.last()
            if found is not None and found.epoch > self.epoch:
                raise CheckpointLost(f"{self.flow} is in epoch {found.epoch} already, and was opened in {self.epoch}")
            self._last = found if found is not None and found.epoch == self.epoch else None
        return self._last

    def _intent(self, number: int, end: Positions) -> tuple[Intent, bool]:
        """The batch's own, noted now or before a crash; and whether it was noted before."""
        last = self.last()
        if last is not None and not _follows(last, number, end):
            self._last = None  # another query of this process may have gone on meanwhile
            last = self.last()
        if last is not None and number == last.step and end == last.end:
            return last, True
        if last is not None and not _follows(last, number, end):
            raise CheckpointLost(_told(self.flow, last, number, end))
        now = datetime.now(timezone.utc)
        self._last = Intent(self.epoch, number, {} if last is None else last.end, end, self.definition, now)
        self.ledger.write(self._last)
        return self._last, False

    def _check(self, batch: DataFrame) -> None:
        """An upsert has no way to tell which of two rows for one key is the newer one, or which row has none."""
        missing = [key for key in self.keys if key not in batch.columns]
        if missing:
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"the rows for {self.flow} have no column '{missing[0]}', and it is a key",
                hint=f"they have {', '.join(batch.columns)}",
            )
        if self.mode == "append":
            return
        no_key = reduce(lambda a, b: a | b, (column(key).isNull() for key in self.keys))
        counted = batch.groupBy(*map(column, self.keys)).count()
        bad = counted.where((column("count") > 1) | no_key).drop("count").first()
        if bad is None:
            return
        shown = ", ".join(f"{key} = {value!r}" for key, value in bad.asDict().items())
        if None in bad.asDict().values():
            message = f"a batch for {self.flow} has a row without a key: {shown}"
            raise TerminalError(Code.NULL_KEY, message, hint="filter such rows out in the query")
        raise TerminalError(
            Code.DUPLICATE_KEY,
            f"a batch for {self.flow} has several rows for {shown}",
            hint="an upsert takes one row per key and batch: aggregate, or keep the newest",
        )


@contextmanager
def _worked_out(batch: DataFrame) -> Iterator[int]:
    """While this is open the batch is evaluated, once, however often it is read; gives the number of its rows."""
    batch.persist()
    try:
        yield batch.count()
    finally:
        batch.unpersist()


def _positions(session: SparkSession, number: int, flow: str) -> Positions:
    """Whose batch it is, and where its sources stand after it."""
    query = session.sparkContext.getLocalProperty(_QUERY_ID)
    if query is None:
        raise UsageError(
            Code.USAGE,
            f"the sink of {flow} was called outside a streaming query",
            hint="pass it to writeStream.foreachBatch",
        )
    jvm: Any = session._jvm
    queries = session._jsparkSession.sharedState().activeStreamingQueries()
    execution = queries.get(jvm.java.util.UUID.fromString(query))
    logged = execution.offsetLog().get(number).get().offsets()
    offsets = [logged.apply(at) for at in range(logged.size())]
    told = [_told_offset(session, execution, at, one.get().json()) for at, one in enumerate(offsets) if one.isDefined()]
    return {"query": query, "offsets": told}


def _told_offset(session: SparkSession, execution: Any, source: int, text: str) -> Any:
    """Where a source stands. Spark's file source only counts: which files it means is in the checkpoint, by number."""
    try:
        offset = json.loads(text)
    except ValueError:
        return text
    if not isinstance(offset, dict) or set(offset) != {"logOffset"}:
        return offset
    jvm: Any = session._jvm
    names = jvm.org.apache.hadoop.fs.Path
    folder = names(execution.resolvedCheckpointRoot(), f"sources/{source}")
    storage = folder.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    for name in (str(offset["logOffset"]), f"{offset['logOffset']}.compact"):
        if storage.exists(names(folder, name)):
            opened = storage.open(names(folder, name))
            try:
                return {**offset, "files": jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(opened)}
            finally:
                opened.close()
    return offset


def _check_types(batch: DataFrame, table: SparkTable) -> None:
    """Values go into columns that hold all of them; a cast that may lose some is for the query to write down."""
    wanted = {f.name: f.dataType for f in table.schema().fields}
    for f in batch.schema.fields:
        type_ = wanted.get(f.name)
        if type_ is not None and not holds(batch.sparkSession, f.dataType, type_):
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"column '{f.name}' of {table.address} is {type_.simpleString()}, and the batch gives "
                f"{f.dataType.simpleString()}",
                hint="cast it in the query",
            )


def holds(spark: SparkSession, given: DataType, wanted: DataType) -> bool:
    """Whether a type has room for every value of another."""
    if given == wanted:
        return True
    jvm: Any = spark._jvm
    kinds, casts = jvm.org.apache.spark.sql.types.DataType, jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return bool(casts.canUpCast(kinds.fromJson(given.json()), kinds.fromJson(wanted.json())))


def _follows(last: Intent, number: int, end: Positions) -> bool:
    return bool(end["query"] == last.end["query"] and number == last.step + 1)


def _told(flow: str, last: Intent, number: int, end: Positions) -> str:
    if end["query"] != last.end["query"]:
        given = f"batch {number} of another query"
    elif number > last.step + 1:
        given = f"batch {number}: those between went elsewhere"
    elif number == last.step:
        given = f"batch {number} again with other offsets"
    else:
        given = f"batch {number} again"
    return f"{flow} has taken batch {last.step} of query {last.end['query']}, and is given {given}"
