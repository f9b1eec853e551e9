"""A view's flow: its steps are refreshes."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import Kind
from headwater.core.spec import RelationSpec, Table, View
from headwater.flows.flow import Intent, Landed, Ledger, Positions, Range, StepDone, flow_name, wait_for_commits
from headwater.incremental.relations import RelationVersion, places
from headwater.incremental.state.base import RetractionMismatch
from headwater.sources.reader import Lag
from headwater.tables.late import WATERMARK, Waterline
from headwater.views.compile import Asked, asked
from headwater.views.forward import made_by
from headwater.views.records import Notes, Refreshed
from headwater.views.refresh import RefreshDecision, Refresher, changed_rows
from headwater.views.row_checks import Screen, screen_of
from headwater.views.stored_table import Storage
from headwater.warehouse import Warehouse, fingerprint

FULL = "full"
"""In an intent's end: why this step computes the view anew."""
EMPTY = "empty"
"""In an intent's end: the step came to nothing, and there is no commit of it."""


@dataclass
class ViewFlow:
    """One view, refresh by refresh. What a crash left open is done again, over the same versions."""

    name: str
    refresher: Refresher
    ledger: Ledger
    definition: str
    one_of_some: Callable[[], AbstractContextManager[object]] = nullcontext
    """Holds a place among the refreshes that may run at once."""
    wake: threading.Condition | None = None
    """Told of by the commits of other flows."""
    last: Refreshed | None = None
    _intent: Intent | None = None
    _seen: dict[str, RelationVersion] | None = None
    """Looked at, and nothing was new to the view."""

    @property
    def flow(self) -> str:
        return flow_name(self.name, self.refresher.storage.kind)

    @property
    def positions(self) -> Positions:
        return {} if self._intent is None else self._intent.end

    # --- steps

    def recover(self) -> StepDone | None:
        """Settle the last intent. It is read each time: another thread may have refreshed the view meanwhile."""
        self._intent = intent = self.ledger.last()
        self.refresher.notes = self.refresher.notes.of(self.ledger.epoch().number)
        if intent is None:
            return None
        if self._has_landed(intent):
            if FULL in intent.end and intent.definition == self.definition:
                self.refresher.settle(_places_of(intent.end))
            return None
        if intent.definition == self.definition:
            try:
                return self._run(intent, recovered=True)
            except HeadwaterError as error:
                if error.code is not Code.NO_SUCH_VERSION:
                    raise
        # It was never done, and will not be: the next step begins where it did.
        self._intent = replace(intent, end=intent.start)
        return None

    def ahead(self) -> Range | None:
        found = {one.label: one.place() for one in self.refresher.asked.inputs()}
        end = {label: place for label, place in found.items() if place is not None}
        if len(end) < len(found):
            return None  # something that it reads has no data yet
        if self._why_full() is None and any(self._same(end, seen) for seen in (self._start(), self._seen)):
            return None
        return Range(_positions(end), rows=self._rows_ahead(end))

    def step(self, range: Range | None = None, *, full: str | None = None) -> StepDone | None:
        """Refresh, if anything is new; `full`: compute it anew, for this reason."""
        with _one_at_a_time(self.refresher.storage.warehouse, self.flow):
            recovered = self.recover()
            if recovered is not None and full is None:
                return recovered
            ahead = self.ahead()
            if ahead is None and full is None:
                return None
            return self._run(self._begun(ahead or Range(_positions(self._places())), full))

    def replayed(self, label: str, place: RelationVersion, why: str) -> StepDone:
        """Compute it anew over one of its inputs as that was once, in one commit; the others are as they are now."""
        with _one_at_a_time(self.refresher.storage.warehouse, self.flow):
            self.recover()
            return self._run(self._begun(Range(_positions({**self._places(), label: place})), why))

    def _begun(self, range: Range, full: str | None) -> Intent:
        """Write down what is about to be done."""
        last, why = self._intent, full or self._why_full()
        if last is not None and last.definition != self.definition:
            last = None
            self.refresher.notes = self.refresher.notes.of(self.ledger.restart(empty=False).number)
        end = {**range.end, **({FULL: why} if why is not None else {})}
        epoch, number = (self.ledger.epoch().number, 0) if last is None else (last.epoch, last.step + 1)
        start = {} if last is None else {name: place for name, place in last.end.items() if name not in (FULL, EMPTY)}
        intent = Intent(epoch, number, start, end, self.definition, datetime.now(timezone.utc), range.rows)
        self.ledger.write(intent)
        return intent

    def _run(self, intent: Intent, *, recovered: bool = False) -> StepDone:
        end = _places_of(intent.end)
        start = _places_of(intent.start)
        if start:  # what is only looked up is looked up where it is now
            start |= {label: place for label, place in end.items() if label not in self.refresher.asked.driving}
        mark = intent.mark(self.flow)
        with self.one_of_some():
            planned = self.refresher.planned(start, end, why_full=intent.end.get(FULL))
            if self.refresher.screen is None:
                self.last = self.refresher.refresh(start, end, mark, planned)
            else:
                try:
                    intent = self._screened(self.refresher.screen, start, end, intent, planned)
                except RetractionMismatch as why:  # such as a row that goes, and had been left out by an expectation
                    planned = RefreshDecision(True, str(why))
                    intent = self._screened(self.refresher.screen, start, end, intent, planned)
        assert self.last is not None
        if self.last.version is None and self.refresher.screen is not None:
            # What was left out has been dealt with, and is not judged again: the step is over without a commit.
            self._intent = intent = replace(intent, end={**intent.end, EMPTY: True})
            self.ledger.write(intent)
        elif self.last.version is None:
            # Nothing of it changed the view: there is no commit, and the next refresh begins where this one did.
            self._seen = end
            self.ledger.take_back(intent)
            self._intent = self.ledger.last()
        else:
            self._intent = intent
        landed = self._landed(self.last.rows_changed)
        return StepDone(self.flow, intent.epoch, intent.step, intent.end, landed, recovered)

    def _screened(
        self,
        screen: Screen,
        start: Mapping[str, RelationVersion],
        end: Mapping[str, RelationVersion],
        intent: Intent,
        planned: RefreshDecision,
    ) -> Intent:
        """A refresh of what a table's checks let through; the intent with how far event time has come."""
        made = self.refresher.compiled(end)
        mark = intent.mark(self.flow)
        screen.begin(mark, anew=planned.full)
        states = self.refresher.states(start, end, self.refresher.notes.columns())
        line = Waterline.of(intent.start.get(WATERMARK))
        taken = screen.taken(states, made, mark, line, anew=planned.full)
        if screen.late is not None:
            intent = replace(intent, end={**intent.end, WATERMARK: taken.line.to_json()})
            self.ledger.write(intent)
        self.last = self.refresher.refresh(start, end, intent.mark(self.flow), planned, taken.sources)
        if screen.late is not None and planned.full:
            screen.late.forget_earlier(mark.epoch, taken.line)
        return intent

    def _landed(self, rows: int | None) -> Landed:
        screen = self.refresher.screen
        if screen is None:
            return Landed(self._version(), rows)
        return Landed(self._version(), rows, screen.tally.left_out, screen.tally.told())

    def take_in(self, letters: DataFrame) -> int:
        """Let rows in that came late, by their dead letters, in a step of their own; how many there were."""
        screen = self.refresher.screen
        with _one_at_a_time(self.refresher.storage.warehouse, self.flow):
            self.recover()
            last = self._intent
            if last is None or screen is None or screen.late is None or self._why_full() is not None:
                return 0  # nothing has been left out of what there is, or all of it is read again
            line = Waterline.of(last.end.get(WATERMARK))
            kept_out = screen.late.kept_out(last.epoch, line)
            released = kept_out.release(screen.late.keys_of(letters), last.step + 1)
            if released:
                self._run(self._begun(Range(_positions(self._places())), None))
            return released

    # --- where it is

    def _same(self, end: Mapping[str, RelationVersion], seen: Mapping[str, RelationVersion] | None) -> bool:
        """Whether nothing of what drives the result has moved."""
        return seen is not None and all(end[label] == seen.get(label) for label in self.refresher.asked.driving)

    def recorded(self) -> dict[str, RelationVersion]:
        """The places of the sources that the view's last commit names; NO_SUCH_RELATION before there is one."""
        table = self.refresher.table
        for commit in table.history() if table.exists() else []:
            if commit.mark is not None and commit.mark.flow == self.flow:
                return _places_of(commit.mark.positions)
        raise UsageError(
            Code.NO_SUCH_RELATION, f"view '{self.name}' has no data yet", hint=f"headwater mv refresh {self.name}"
        )

    def outlook(self, end: Mapping[str, RelationVersion]) -> str:
        """What the next refresh would do, in words."""
        self._intent = self.ledger.last()
        why = self._why_full()
        if why is None and end == self._start():
            return "nothing is new"
        planned = self.refresher.planned(self._start(), end, why_full=why)
        return f"{'full' if planned.full else 'incremental'}: {planned.reason}"

    def _version(self) -> int:
        made = None if self.last is None else self.last.version
        return (self.refresher.table.version() or 0) if made is None else made

    def _why_full(self) -> str | None:
        """What makes the stored rows worthless as a beginning."""
        if self._intent is None or not self.refresher.table.exists():
            return "it is the first build"
        if self._intent.definition != self.definition:
            return "its definition has changed"
        return None

    def _start(self) -> dict[str, RelationVersion]:
        return {} if self._intent is None else _places_of(self._intent.end)

    def _has_landed(self, intent: Intent) -> bool:
        table = self.refresher.table
        if intent.end.get(EMPTY):
            return True
        return table.exists() and table.landed(intent.mark(self.flow)) is not None

    def _places(self) -> dict[str, RelationVersion]:
        return places(self.refresher.asked.inputs())

    def _rows_ahead(self, end: Mapping[str, RelationVersion]) -> int | None:
        start = self._start()
        return changed_rows(self.refresher.asked.inputs(), start, end) if start else None

    # --- for whoever runs it

    def freeze(self) -> None:
        """Its end is where its sources are when its turn comes: they are brought up to date first."""

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        wait_for_commits(self.wake, stopping, seconds)

    def lag(self) -> Lag | None:
        try:
            return Lag(records=self._rows_ahead(self._places()))
        except HeadwaterError:
            return None

    def close(self) -> None:
        """Nothing is held between two steps."""


def open_table(
    warehouse: Warehouse, definition: Table, spark: SparkSession, guard: Callable[[], None] = lambda: None
) -> ViewFlow:
    """A table that is kept by a query, in a session of its own."""
    assert definition.sql is not None
    origin = warehouse.project.place(f"tables.{definition.name}.sql")
    query = asked(warehouse, definition.sql, spark, streams=True, origin=origin)
    flow = flow_of(warehouse, Kind.TABLE, definition, "incremental", query, spark, guard)
    flow.definition = made_by(warehouse.project, definition)
    return flow


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
    found = definition or warehouse.definition(Kind.VIEW, name)
    assert isinstance(found, View)
    defined = warehouse.project.views.get(name)
    written = warehouse.project.place(f"views.{name}.sql") if defined and defined.sql == found.sql else None
    query = asked(warehouse, found.sql, spark, origin=written)
    return flow_of(warehouse, Kind.VIEW, found, found.refresh.policy, query, spark, guard)


def flow_of(
    warehouse: Warehouse,
    kind: Kind,
    definition: RelationSpec,
    policy: str,
    query: Asked,
    spark: SparkSession,
    guard: Callable[[], None],
) -> ViewFlow:
    """A flow that keeps the result of a query, or of what stands in its place."""
    name, flow = definition.name, flow_name(definition.name, kind)
    ledger = Ledger(warehouse.files, flow)
    storage = Storage(warehouse, kind, name, definition, spark)
    notes = Notes(warehouse.files, flow, ledger.epoch().number)
    refresher = Refresher(name, policy, query, spark, storage, notes, guard)
    if isinstance(definition, Table):
        refresher.screen = screen_of(warehouse, definition, spark)
    return ViewFlow(name, refresher, ledger, fingerprint(definition), warehouse.refreshing, warehouse.committed)


_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def _one_at_a_time(warehouse: Warehouse, flow: str) -> threading.Lock:
    """In a runner a view is refreshed by its own thread and by commands."""
    return _turns[f"{warehouse.around.warehouse}/{flow}"]


def _positions(places: Mapping[str, RelationVersion]) -> dict[str, Any]:
    return {label: place.to_json() for label, place in places.items()}


def _places_of(positions: Positions) -> dict[str, RelationVersion]:
    about = (FULL, EMPTY, WATERMARK)
    found = {label: RelationVersion.of(position) for label, position in positions.items() if label not in about}
    return {label: place for label, place in found.items() if place is not None}
