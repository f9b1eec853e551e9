"""A view's flow, put together; and what is done to a view alongside its steps."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Code, UsageError
from headwater.core.model import Kind
from headwater.core.spec import RelationSpec, Table, View
from headwater.flows.flow import Flow
from headwater.flows.ledger import Ledger, Positions, flow_name
from headwater.flows.step import StepDone
from headwater.incremental.relations import RelationVersion
from headwater.project.graph import Name, graph_of
from headwater.sources.reader import OffsetRange
from headwater.tables.epochs import KeptTable, is_streamed
from headwater.tables.forward import made_by
from headwater.tables.late import WATERMARK, WatermarkState
from headwater.tables.row_checks import row_checks_of
from headwater.views.compile import ViewQuery, bind_query
from headwater.views.input import VersionRange, ViewInput, versions_of
from headwater.views.records import Notes, Refreshed
from headwater.views.refresh import Refresher
from headwater.views.stored_table import Storage
from headwater.views.target import ViewTarget
from headwater.warehouse import Warehouse, fingerprint


@dataclass(frozen=True)
class ViewFlow:
    """What keeps one view, or one table by SQL or by a function of frames."""

    name: str
    definition: str
    """What its rows are made by: an intent by another one is not repeated, and the next step begins a new epoch."""
    steps: Flow[VersionRange]
    input: ViewInput
    target: ViewTarget
    ledger: Ledger

    @property
    def refresher(self) -> Refresher:
        return self.target.refresher

    def refresh(self, *, full: str | None = None) -> Refreshed | None:
        """Take a step, if anything is new; `full`: make all rows again, for this reason. None if nothing was done."""
        if full is None:
            done = self.steps.step()
        else:
            done = self.steps.take(lambda start: self.input.whole(start, full))
        return None if done is None else self.target.last

    def replay(self, label: str, version: RelationVersion, why: str) -> StepDone:
        """Make all rows from one of its inputs as that was once, in one commit; the others are as they are now."""
        done = self.steps.take(lambda start: self.input.whole(start, why, {label: version}))
        assert done is not None
        return done

    def admit_late(self, dead_letters: DataFrame) -> int:
        """Let rows in that came late, by their dead letters, in a step of their own; how many there were."""
        row_checks = self.refresher.row_checks
        released = 0

        def choose(start: Positions) -> OffsetRange | None:
            nonlocal released
            last = self.steps.last
            if last is None or row_checks is None or row_checks.late is None or self.input.why_full(start) is not None:
                return None  # nothing has been left out of what there is, or all of it is read again
            watermark = WatermarkState.of(last.end.get(WATERMARK))
            kept_out = row_checks.late.kept_out(last.epoch, watermark)
            released = kept_out.release(row_checks.late.keys_of(dead_letters), last.step + 1)
            return self.input.changed(start) if released else None

        self.steps.take(choose)
        return released

    def recorded(self) -> dict[str, RelationVersion]:
        """The versions of the sources that the view's last commit names; NO_SUCH_RELATION before there is one."""
        table = self.refresher.table
        for commit in table.history() if table.exists() else []:
            if commit.commit_tag is not None and commit.commit_tag.flow == self.steps.name:
                return versions_of(commit.commit_tag.positions)
        raise UsageError(
            Code.NO_SUCH_RELATION, f"view '{self.name}' has no data yet", hint=f"headwater mv refresh {self.name}"
        )

    def outlook(self) -> str:
        """What the next refresh would do, in words."""
        last, end = self.ledger.last(), self.input.versions()
        goes_on = last is not None and self.target.continues(last, self.definition)
        positions = self.input.begin_after(last.end) if last is not None and goes_on else {}
        why, start = self.input.why_full(positions), versions_of(positions)
        if why is None and end == start:
            return "nothing is new"
        choice = self.refresher.decide(start, end, why_full=why)
        return f"{'full' if choice.full else 'incremental'}: {choice.reason}"


def open_table(
    warehouse: Warehouse, definition: Table, spark: SparkSession, guard: Callable[[], None] = lambda: None
) -> ViewFlow:
    """A table that is kept by a query, in a session of its own."""
    assert definition.sql is not None
    origin = warehouse.project.where(f"tables.{definition.name}.sql")
    query = bind_query(warehouse, definition.sql, spark, streams=True, origin=origin)
    return flow_of_table(warehouse, definition, query, spark, guard)


def flow_of_table(
    warehouse: Warehouse, definition: Table, query: ViewQuery, spark: SparkSession, guard: Callable[[], None]
) -> ViewFlow:
    """A flow that keeps a table by a query, or by what stands in its place."""
    refresher = _refresher(warehouse, Kind.TABLE, definition, "incremental", query, spark, guard)
    refresher.row_checks = row_checks_of(warehouse, definition, spark)
    return _put_together(warehouse, refresher, made_by(warehouse.project, definition))


def open_flow(
    warehouse: Warehouse,
    name: str,
    spark: SparkSession,
    guard: Callable[[], None] = lambda: None,
    definition: View | None = None,
) -> ViewFlow:
    """A view of the project, or one that was made by a statement, in a session of its own.

    `definition`: what a statement says that it shall be from the next build on.
    """
    view = definition or warehouse.definition(Kind.VIEW, name)
    assert isinstance(view, View)
    defined = warehouse.project.views.get(name)
    written = warehouse.project.where(f"views.{name}.sql") if defined and defined.sql == view.sql else None
    query = bind_query(warehouse, view.sql, spark, origin=written)
    refresher = _refresher(warehouse, Kind.VIEW, view, view.refresh.policy, query, spark, guard)
    return _put_together(warehouse, refresher, fingerprint(view))


def _refresher(
    warehouse: Warehouse,
    kind: Kind,
    definition: RelationSpec,
    policy: str,
    query: ViewQuery,
    spark: SparkSession,
    guard: Callable[[], None],
) -> Refresher:
    flow = flow_name(definition.name, kind)
    storage = Storage(warehouse, kind, definition.name, definition, spark)
    notes = Notes(warehouse.files, flow, Ledger(warehouse.files, flow).epoch().number)
    return Refresher(definition.name, policy, query, spark, storage, notes, guard)


def _put_together(warehouse: Warehouse, refresher: Refresher, definition: str) -> ViewFlow:
    flow = flow_name(refresher.name, refresher.storage.kind)
    ledger = Ledger(warehouse.files, flow)
    input = ViewInput(refresher, definition, ledger, warehouse.committed, _readiness(warehouse, refresher))
    target = ViewTarget(refresher, definition, warehouse.refreshing)
    # In a runner a view is refreshed by its own thread and by commands.
    turn = _turns[f"{warehouse.context.warehouse}/{flow}"]
    steps = Flow(flow, definition, input, target, ledger, turn=turn, record=warehouse.state.note)
    return ViewFlow(refresher.name, definition, steps, input, target, ledger)


def _readiness(warehouse: Warehouse, refresher: Refresher) -> Callable[[], bool]:
    """Whether nothing that it reads is about to be emptied: asked only where a stream would see its rows go and come
    again as new ones."""
    name = Name(refresher.storage.kind, refresher.name)
    if not is_streamed(warehouse, name):
        return lambda: True
    inputs = [KeptTable.of(warehouse, each.of, refresher.spark) for each in graph_of(warehouse.project).inputs[name]]
    return lambda: all(one.is_ready() for one in inputs)


_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
