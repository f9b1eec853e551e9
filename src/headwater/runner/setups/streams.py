"""Runs a streaming query as a flow: its micro-batches are the steps, and each waits for its turn."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.core.model import Kind
from headwater.core.spec import Table, layout_of
from headwater.core.storage import Files
from headwater.flows.ledger import Epoch, Ledger, Positions, flow_name
from headwater.flows.step import StepDone
from headwater.formats.feed import leave_feed
from headwater.formats.spark_table import SparkTable
from headwater.project.decorators import Registered
from headwater.project.graph import Name, graph_of
from headwater.project.transforms import inputs_of, streaming_tables
from headwater.runner.preflight import empty, notes_of, require_fence
from headwater.runner.setups.setup import FlowSetup, Guard, setup_of_table
from headwater.runner.setups.stream_inputs import InputRebuilt, StreamInputs
from headwater.schema.types import parse_ddl
from headwater.sources.reader import Lag, OffsetRange
from headwater.spark.errors import as_headwater_error
from headwater.spark.internals import query_failure
from headwater.tables.batches import Batches, BatchTarget, CheckpointLost, Mode
from headwater.tables.epochs import KeptTable, new_rows_of
from headwater.tables.transforms import as_declared, is_intact, kept_columns, started, transformed
from headwater.warehouse import Warehouse, fingerprint

LOOK = 0.1
"""Seconds between two looks whether a query is still there."""

_CHANGED = re.compile(r"SCHEMA_CHANGED|schema change", re.IGNORECASE)

Take = Callable[[DataFrame, int], None]


def stream_setup(warehouse: Warehouse, name: str) -> FlowSetup:
    """How a table is run that a streaming query makes."""
    return setup_of_table(warehouse, name, lambda spark, guard: StreamFlow(TableQuery(warehouse, name, spark, guard)))


@dataclass
class TableQuery:
    """A table's streaming query, ready to be started, as often as need be."""

    warehouse: Warehouse
    name: str
    spark: SparkSession
    guard: Guard
    _inputs: list[SparkTable] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_fence(self.warehouse, self.definition)
        self.flow = flow_name(self.name, Kind.TABLE)
        self.ledger = Ledger(self.warehouse.files, self.flow)
        self.epoch: Epoch = self.ledger.epoch()
        self.table = self.warehouse.table(Kind.TABLE, self.name, self.spark)
        mode: Mode = "upsert" if self.definition.keys else "append"
        target = BatchTarget(self.flow, self.table, mode, self.definition.keys, self.guard)
        definition, note = fingerprint(self.definition), self.warehouse.state.note
        self.batches = Batches(self.flow, self.epoch.number, self.ledger, target, definition, note)

    @property
    def definition(self) -> Table:
        return self.warehouse.project.tables[self.name]

    @property
    def function(self) -> Registered:
        return streaming_tables(self.warehouse.project)[self.name]

    @property
    def consumer(self) -> str:
        return f"{self.flow}.{self.epoch.number}"

    def start(self, take: Take, *, once: bool) -> StreamingQuery | None:
        """Start the query; None as long as one of its inputs has no data yet."""
        inputs = self._inputs_by_parameter()
        if not all(table.exists() for table in inputs.values()):
            return None
        root, files = self.warehouse.project.root, self.warehouse.files
        checkpoint = "/".join(["_headwater/flows", self.flow, *notes_of(self.epoch), "checkpoint"])
        last = self.batches.last()
        if last is not None and not is_intact(files, checkpoint, last):
            raise CheckpointLost(f"the checkpoint of {self.flow} is lost")
        self.new_rows.begin()
        if not self.new_rows.are_ready():
            return None
        self._inputs = list(inputs.values())
        if last is None:
            self._begin_epoch()
        frames = {
            parameter: table.read_stream(changes=parameter in self.function.changes, consumer=self.consumer)
            for parameter, table in inputs.items()
        }
        result = transformed(self.function, root, frames)
        result = as_declared(self.function, root, result, parse_ddl(self.spark, self.definition.schema_))
        self._prepare(result)
        mode = self.function.output_mode or ("update" if self.definition.keys else "append")
        return started(self.function, root, result, mode, files.spark_uri(checkpoint), take, once=once)

    def leave(self) -> None:
        """The query has ended: nothing more is fetched for it."""
        for table in self._inputs:
            leave_feed(table, self.consumer)

    def replay(self, why: CheckpointLost | InputRebuilt) -> TransientError:
        """Begin an epoch that fills the table again; the error says so, and that it is worth another try."""
        self.guard()
        epoch = self.ledger.restart(empty=True).number
        message = f"{why.problem.message}: {self.flow} is emptied and filled again by replay, in epoch {epoch}"
        return TransientError(why.code, message)

    @cached_property
    def new_rows(self) -> StreamInputs:
        """The inputs that the function is given new rows of, and no signed changes."""
        tables = [KeptTable.of(self.warehouse, name, self.spark) for _, name in new_rows_of(self.warehouse, self.name)]
        folder = self.warehouse.files.join("_headwater/flows", self.flow, *notes_of(self.epoch))
        return StreamInputs(tables, Files(folder, dict(self.warehouse.context.storage)))

    def _inputs_by_parameter(self) -> dict[str, SparkTable]:
        project = self.warehouse.project
        reads = graph_of(project).inputs[Name(Kind.TABLE, self.name)]
        parameters = inputs_of(self.function, project.root)
        return {
            parameter: self.warehouse.table(each.of.kind, each.of.name, self.spark)
            for parameter, each in zip(parameters, reads, strict=True)
        }

    def _begin_epoch(self) -> None:
        """May be done again, as long as the epoch has no step."""
        if self.epoch.empty:
            empty(self.table)
        for table in self._inputs:
            for number in range(1, self.epoch.number):
                leave_feed(table, f"{self.flow}.{number}", forget=True)

    def _prepare(self, result: DataFrame) -> None:
        table = self.table
        columns = kept_columns(self.function, self.warehouse.project.root, result, self.definition.keys)
        if table.exists():
            table.evolve(columns)
        else:
            table.create(columns, layout_of(self.definition))
            self.warehouse.remember(Kind.TABLE, self.name)


class StreamFlow:
    """One query, batch by batch. `ahead` keeps it going on; `step` alone runs it over what is there by now.

    Spark calls `_take` from a thread of its own with each batch, which is worked out only there: nothing is done before
    `step` lets it, and nothing after the runner has stopped calling.
    """

    def __init__(self, query: TableQuery) -> None:
        self._of = query
        self._query: StreamingQuery | None = None
        self._turn = threading.Condition()
        self._waiting = self._let = self._closed = False
        self._outcome: list[StepDone | Exception | None] = []

    @property
    def positions(self) -> Positions:
        return self._of.batches.positions

    def recover(self) -> StepDone | None:
        """Spark itself repeats the batch that a crash left open."""
        return None

    def freeze(self) -> None:
        """The end is where the inputs end when the query starts, after the flows that it reads."""

    def lag(self) -> Lag | None:
        return None

    def probe(self) -> None:
        """Its inputs are tables of the lake."""

    def ahead(self) -> OffsetRange | None:
        if not self._runs(once=False) or not self._waiting:
            return None
        return OffsetRange(self.positions, full=True)

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._waiting or stopping.is_set(), seconds)

    def step(self, range: OffsetRange | None = None) -> StepDone | None:
        while self._runs(once=range is None):
            with self._turn:
                if not self._turn.wait_for(lambda: self._waiting, LOOK):
                    continue
                self._let, self._waiting = True, False
                self._turn.notify_all()
                self._turn.wait_for(lambda: self._outcome)
                outcome = self._outcome.pop()
            if isinstance(outcome, Exception):
                raise self._as_error(outcome)
            if outcome is not None or range is not None:
                return outcome
        return None

    def close(self) -> None:
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        if self._query is not None:
            self._query.stop()
        self._of.leave()

    def _runs(self, *, once: bool) -> bool:
        """Whether the query is running, started now if need be; False when it has come to its end."""
        if self._query is None:
            try:
                self._query = self._of.start(self._take, once=once)
            except Exception as error:
                raise self._as_error(error) from error
            return self._query is not None
        if self._query.isActive:
            return True
        ended, self._query = self._query, None
        self._of.leave()
        failure = query_failure(ended)
        if failure is not None:
            raise self._as_error(Py4JJavaError("the query has failed", failure))
        return False

    def _take(self, batch: DataFrame, number: int) -> None:
        with self._turn:
            self._waiting = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._let or self._closed)
            if self._closed:
                raise TransientError(Code.COMMIT_FAILED, f"batch {number} was not begun: the flow is stopped")
            self._let = False
        outcome: StepDone | Exception | None = None
        try:
            self._of.new_rows.check()
            outcome = self._of.batches.write(batch, number)
        except Exception as error:
            outcome = error
            raise
        finally:
            with self._turn:
                self._outcome.append(outcome)
                self._turn.notify_all()

    def _as_error(self, error: Exception) -> HeadwaterError:
        """What went wrong, as whoever runs the flow has to know it."""
        if isinstance(error, (CheckpointLost, InputRebuilt)):
            return self._of.replay(error)
        failure = as_headwater_error(error)
        if failure.code is Code.SPARK_FAILED and _CHANGED.search(failure.problem.message):
            return TransientError(failure.code, f"an input has new columns: {failure.problem.message}")
        return failure
