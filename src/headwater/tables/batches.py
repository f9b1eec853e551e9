"""The micro-batches of a streaming query as the steps of a flow: Spark brings each, with its number and its range.

A streaming query has two memories, its checkpoint and its table. The ledger joins them: it says which query wrote
batch n, up to which offsets. A query that brings anything but the next batch, or the last one once more, does not go
on from the checkpoint that the table was written by; to take its batches would skip rows or double them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from headwater.core.errors import Code, TerminalError, UsageError
from headwater.core.model import DELETED, CommitTag
from headwater.flows.ledger import Intent, Ledger, Positions
from headwater.flows.step import Landed, Recorder, Step, StepDone, StepEngine, Target, ignore
from headwater.formats.spark_table import SparkTable
from headwater.spark.frames import column
from headwater.spark.internals import java, java_session, java_type

Mode = Literal["append", "upsert"]

_QUERY_ID = "sql.streaming.queryId"


class CheckpointLost(TerminalError):
    """The query does not go on where the table's last batch ended."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(Code.CHECKPOINT_LOST, message, hint=hint)


class Batches:
    """Takes the batches of one query, each once, to one table. Made when the query is about to be started."""

    def __init__(
        self,
        flow: str,
        epoch: int,
        ledger: Ledger,
        target: BatchTarget,
        definition: str = "",
        record: Recorder = ignore,
    ) -> None:
        self._flow = flow
        self._epoch = epoch
        self._ledger = ledger
        self._engine = StepEngine(flow, definition, ledger, target, record=record)

    def write(self, batch: DataFrame, number: int) -> StepDone | None:
        """One batch, one commit; None for a batch without rows, which needs none. Called by Spark in a thread of its
        own, from `foreachBatch`."""
        now = self._ledger.epoch().number
        if now > self._epoch:
            raise CheckpointLost(f"{self._flow} is in epoch {now} by now, and was opened in {self._epoch}")
        end = _positions(batch.sparkSession, number, self._flow)
        # Also a batch that has landed is worked out once more: operators with state follow the clock of the events
        # only through what they have seen.
        step = self._engine.given(number, end, lambda last: bool(last.end["query"] == end["query"]))
        if step is None:
            raise CheckpointLost(_message(self._flow, self.last(), number, end))
        try:
            done = self._engine.commit(step, batch)
        except Exception as error:
            self._engine.note_failure(step, error)
            raise
        return None if done.landed.version is None else done

    @property
    def positions(self) -> Positions:
        last = self.last()
        return {} if last is None else last.end

    def last(self) -> Intent | None:
        """The newest batch of this epoch that was begun."""
        last = self._engine.newest()
        if last is not None and last.epoch > self._epoch:
            raise CheckpointLost(f"{self._flow} is in epoch {last.epoch} already, and was opened in {self._epoch}")
        return last


@dataclass
class BatchTarget(Target[DataFrame]):
    """The table of a query's batches."""

    flow: str
    table: SparkTable
    mode: Mode
    keys: Sequence[str] = ()
    guard: Callable[[], None] = lambda: None
    """Called right before a commit; raises if this process may no longer write."""
    prepare: Callable[[SparkTable, StructType], None] = lambda table, schema: None
    """Called with the table in the batch's session and the batch's columns, before anything is written."""

    def landed(self, commit_tag: CommitTag) -> bool:
        return self.table.exists() and self.table.landed(commit_tag) is not None

    def commit(self, rows: DataFrame, step: Step) -> Landed:
        # A batch belongs to the query's own session, and so must the table that takes it.
        table = self.table.format.spark(rows.sparkSession, self.table.address, self.table.context)
        with _evaluated(rows) as count:
            if count == 0:
                return Landed(None, 0)
            self._check(rows)
            self.prepare(table, StructType([f for f in rows.schema.fields if f.name != DELETED]))
            _check_types(rows, table)
            self.guard()
            write = table.append if self.mode == "append" else table.upsert
            return Landed(write(rows, step.commit_tag), count)

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
def _evaluated(batch: DataFrame) -> Iterator[int]:
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
    jvm: Any = java(session)
    queries = java_session(session).sharedState().activeStreamingQueries()
    execution = queries.get(jvm.java.util.UUID.fromString(query))
    logged = execution.offsetLog().get(number).get().offsets()
    offsets = [logged.apply(at) for at in range(logged.size())]
    known = [_offset_of(session, execution, at, one.get().json()) for at, one in enumerate(offsets) if one.isDefined()]
    return {"query": query, "offsets": known}


def _offset_of(session: SparkSession, execution: Any, source: int, text: str) -> Any:
    """Where a source stands. Spark's file source only counts: which files it means is in the checkpoint, by number."""
    try:
        offset = json.loads(text)
    except ValueError:
        return text
    if not isinstance(offset, dict) or set(offset) != {"logOffset"}:
        return offset
    jvm: Any = java(session)
    names = jvm.org.apache.hadoop.fs.Path
    folder = names(execution.resolvedCheckpointRoot(), f"sources/{source}")
    storage = folder.getFileSystem(java_session(session).sessionState().newHadoopConf())
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


def holds(spark: SparkSession, have: DataType, wanted: DataType) -> bool:
    """Whether a type has room for every value of another."""
    if have == wanted:
        return True
    casts: Any = java(spark).org.apache.spark.sql.catalyst.expressions.Cast
    return bool(casts.canUpCast(java_type(spark, have), java_type(spark, wanted)))


def _message(flow: str, last: Intent | None, number: int, end: Positions) -> str:
    assert last is not None
    if end["query"] != last.end["query"]:
        what = f"batch {number} of another query"
    elif number > last.step + 1:
        what = f"batch {number}: those between went elsewhere"
    elif number == last.step:
        what = f"batch {number} again with other offsets"
    else:
        what = f"batch {number} again"
    return f"{flow} has taken batch {last.step} of query {last.end['query']}, and is given {what}"
