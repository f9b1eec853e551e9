"""One refresh of a view: from the places it has read up to, to where its sources are now, in one commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.core.errors import Code, TerminalError, Unsupported, UsageError
from headwater.core.logs import get_logger
from headwater.core.model import DELETED, CommitTag, Kind, Version
from headwater.formats.base import Capability, SparkTable
from headwater.formats.evolution import aligned
from headwater.formats.native import NativeTable
from headwater.incremental.operator import Sources
from headwater.incremental.relations import InputRelation, RelationVersion, States
from headwater.incremental.run import Run, collected
from headwater.incremental.schema_growth import grown, has_fields
from headwater.incremental.state.base import ID, RetractionMismatch, Update
from headwater.spark.arrow_bridge import local_frame, lying
from headwater.spark.frames import column
from headwater.views.compile import Asked, Columns, Compiled, columns_now
from headwater.views.cost import Decision, decided
from headwater.views.lookups import require_no_retraction
from headwater.views.records import Notes, Refreshed, now
from headwater.views.row_checks import Screen
from headwater.views.stored_table import Storage, StoredRows

SMALL = 20_000
"""Rows of an update that are committed without Spark, where the format has a light way."""

log = get_logger(__name__)

Places = Mapping[str, RelationVersion]


@dataclass(frozen=True)
class RefreshDecision:
    """How a refresh is going to be done, and why."""

    full: bool
    reason: str
    decision: Decision | None = None
    made: Compiled | None = None
    """What brings the change in."""
    changed: int | None = None
    """Rows of the sources' change, as far as known."""


@dataclass
class Refresher:
    """A view's table and what fills it."""

    name: str
    usual: str
    """The policy of its definition."""
    asked: Asked
    spark: SparkSession
    storage: Storage
    notes: Notes
    guard: Callable[[], None] = lambda: None
    policy: str | None = None
    """Instead of the definition's."""
    screen: Screen | None = None
    """What else is asked of the rows."""
    _compiled: tuple[Columns, Compiled] | None = field(default=None, repr=False)
    _table: SparkTable | None = field(default=None, repr=False)
    _light: NativeTable | None = field(default=None, repr=False)

    @property
    def table(self) -> SparkTable:
        if self._table is None:
            self._table = self.storage.table
            self._light = self.storage.light(self._table)
        return self._table

    # --- how

    def planned(self, start: Places, end: Places, *, why_full: str | None = None) -> RefreshDecision:
        """Whether it goes incrementally, by the view's policy; refused where the policy is strict."""
        policy = self.policy or self.usual
        if why_full is not None:
            return RefreshDecision(True, why_full)
        if policy == "full":
            return RefreshDecision(True, "the policy is full")
        made = self.compiled(end)
        obstacle = self._obstacle(made, start, end)
        if obstacle is not None:
            if policy == "incremental_strict":
                raise UsageError(Code.NOT_INCREMENTAL, obstacle, hint=made.refused.hint if made.refused else None)
            return RefreshDecision(True, obstacle)
        changed = changed_rows(self.asked.inputs(), start, end)
        if policy != "auto":
            return RefreshDecision(False, f"the policy is {policy}", None, made, changed)
        decision = decided(changed, self.notes.refreshes())
        log.info("refresh decided", view=self.name, incremental=decision.incremental, **decision.figures)
        return RefreshDecision(not decision.incremental, decision.told, decision, made, changed)

    def _obstacle(self, made: Compiled, start: Places, end: Places) -> str | None:
        """Why the change can't be brought in, in words."""
        if made.refused is not None:
            return made.refused.told()
        if not self.table.format.can(Capability.UPSERT):
            return self.table.format.refusal(Capability.UPSERT)
        if ID not in self.table.schema().names:
            return "the view was built by a query that could not be kept incrementally"
        for relation in self.asked.inputs():
            if relation.label not in start:
                return f"{relation.label} was not read before"
            if start[relation.label] != end[relation.label]:
                broken = relation.broken(start[relation.label], end[relation.label])
                if broken is not None:
                    return broken
                unable = self._cannot_take_back(relation)
                if unable is not None and relation.loses_rows(start[relation.label], end[relation.label]):
                    return f"rows of {relation.label} were taken away or changed, and {unable}"
        return None

    def _cannot_take_back(self, relation: InputRelation) -> str | None:
        """Why a row of the result can't be found again by a row of a topic that goes; None if it can."""
        if relation.kind is not Kind.TOPIC or relation.label not in self.asked.driving:
            return None
        if self.asked.adds_only:
            return "what a function made of them is not known any more"
        if self.screen is not None and self.screen.late is not None and self.screen.late.leaves_out:
            return "an event that comes again would be late"
        if any(one.label not in self.asked.driving and one.at is None for one in self.asked.inputs()):
            return "what was looked up for them is not known any more"
        return None

    def compiled(self, end: Places) -> Compiled:
        """The query over the relations where they are now; kept as long as their columns stay the same."""
        recorded = self.notes.columns()
        present = columns_now(self.asked.inputs(), end)
        if recorded is not None:
            self.asked.require_unchanged(recorded, present)
        if self._compiled is None or self._compiled[0] != present:
            made = self.asked.compiled(self.spark, end, recorded)
            require_no_retraction(made)
            if self.screen is not None:
                self.screen.require_fitting(made, self.storage.format)
            self._compiled = (present, made)
        return self._compiled[1]

    def states(self, start: Places, end: Places, recorded: Columns | None) -> States:
        """The relations at two places each, without fields that came after `recorded`."""
        recorded = (recorded if self.asked.pinned else None) or {}
        nested = [one for one in self.asked.inputs() if has_fields(recorded.get(one.label))]
        now = columns_now(nested, end)
        return States(self.asked.relations, start, end, {label: grown(recorded[label], now[label]) for label in now})

    # --- doing it

    def refresh(
        self, start: Places, end: Places, mark: CommitTag, planned: RefreshDecision, sources: Sources | None = None
    ) -> Refreshed:
        """Bring the view to `end`; nothing is committed where nothing has changed. `sources`: what it is given of its
        relations, if that is not all."""
        began = time.monotonic()
        watermarks = {
            label: {"before": start[label].version if label in start else None, "after": place.version}
            for label, place in end.items()
        }
        done = Refreshed(self.name, "full" if planned.full else "incremental", planned.reason, watermarks=watermarks)
        recorded = self.notes.columns()
        begins = recorded is None  # it is built, or goes on by another query
        if begins or not self.asked.pinned:
            self._grow(planned)
        if begins:
            self.notes.put_columns(columns_now(self.asked.inputs(), end))
        with Run(sources or self.states(start, end, recorded)) as run:
            try:
                done = self._full(run, end, mark, done) if planned.full else self._incremental(run, planned, mark, done)
            except RetractionMismatch as why:
                if self.screen is not None:
                    raise  # what was checked of the rows is checked again: whoever called begins anew
                done = self._full(run, end, mark, self._anew(done, why))
        took = round((time.monotonic() - began) * 1000)
        cost: dict[str, Any] = {} if planned.decision is None else planned.decision.figures
        done = replace(done, duration_ms=took, at=now(), cost=cost)
        self.notes.add(done)
        self.storage.sweep()
        return done

    def _full(self, run: Run, end: Places, mark: CommitTag, done: Refreshed) -> Refreshed:
        self._compiled = None
        made = self.compiled(end)
        frame = made.answered if made.kept is None else made.kept.whole(run)
        if self.screen is not None:
            frame = self.screen.checked(frame, made, run, mark, None)
        table = self.storage.built(made, frame, mark.epoch)
        self.guard()
        version = table.replace(frame, mark)
        self.storage.settle(made, table)
        self._table = None
        written = next(iter(table.history(1)), None)
        rows = written.rows_added if written is not None else None
        return replace(done, rows_read=whole_rows(self.asked.inputs()), rows_changed=rows, version=version)

    def settle(self, end: Places) -> None:
        """A build has landed at `end`: where its process ended right then, what the table shows is written down now."""
        if not self.storage.is_settled:
            self.storage.settle(self.compiled(end), self.table)
            self._table = None

    def _incremental(self, run: Run, planned: RefreshDecision, mark: CommitTag, done: Refreshed) -> Refreshed:
        assert planned.made is not None
        assert planned.made.kept is not None
        done = replace(done, rows_read=planned.changed)
        update = planned.made.kept.update(run, StoredRows(self.table, self._light))
        changed, version = (0, None) if update is None else self._commit(run, planned.made, update, mark)
        if version is None:
            return replace(done, refresh_type="none", reason="nothing has changed", rows_changed=0)
        return replace(done, rows_changed=changed, version=version)

    def _anew(self, done: Refreshed, why: RetractionMismatch) -> Refreshed:
        """A full refresh instead, unless that may not be."""
        if (self.policy or self.usual) == "incremental_strict":
            raise TerminalError(
                Code.NOT_INCREMENTAL,
                f"{self.name}: {why}",
                hint="order by columns that leave no ties, or sum decimals; then compute it anew",
            )
        log.warning("computed anew", view=self.name, reason=str(why))
        return replace(done, refresh_type="full", reason=str(why))

    def _grow(self, planned: RefreshDecision) -> None:
        """Before a change is brought in: the table gets the columns that came to the query."""
        if planned.made is not None and not planned.full and self.storage.grown(planned.made, self.table):
            self._table = None

    def _commit(self, run: Run, made: Compiled, update: Update, mark: CommitTag) -> tuple[int, Version | None]:
        """A small update by the light library, a large one by Spark."""
        taken = self._taken(update) if self.screen is None else None
        if taken is None:
            rows = self._complete(update)
            if self.screen is not None:
                rows = self.screen.checked(rows, made, run, mark, self.table)
            taken = collected(rows, SMALL)
        if taken is not None and taken.num_rows == 0:
            return 0, None
        self.guard()
        if taken is None:
            rows = run.kept(rows)
            version = self.table.append(rows, mark) if update.appends else self.table.upsert(rows, mark, keys=[ID])
            return rows.count(), version
        return taken.num_rows, self._commit_small(taken, update, mark)

    def _taken(self, update: Update) -> pa.Table | None:
        """The rows of an update that are here already, with exactly the stored columns; None where Spark has them, or
        has to make them fit."""
        rows = update.taken if update.taken is not None else lying(update.rows)
        if rows is None or (not update.appends and rows[DELETED].null_count):
            return None
        schema, given = self.table.schema(), from_arrow_schema(rows.schema, prefer_timestamp_ntz=False)
        have = {f.name: f.dataType.simpleString() for f in given.fields}
        if any(have.get(f.name) != f.dataType.simpleString() for f in schema.fields):
            return None
        return rows.select([*schema.names, *([] if update.appends else [DELETED])])

    def _complete(self, update: Update) -> DataFrame:
        """The rows with exactly the stored columns."""
        schema, rows = self.table.schema(), update.rows
        if update.taken is not None:
            rows = local_frame(self.spark, update.taken)
        missing = [name for name in schema.names if name not in rows.columns]
        if missing:
            raise TerminalError(Code.INTERNAL, f"the update of a view lacks {', '.join(missing)}")
        names = [*schema.names, *([] if update.appends else [DELETED])]
        return aligned(rows.select(*map(column, names)), schema, self.table.address, deletes=not update.appends)

    def _commit_small(self, taken: pa.Table, update: Update, mark: CommitTag) -> Version:
        if self._light is not None:
            try:
                if update.appends:
                    return self._light.append(taken, mark)
                return self._light.upsert(taken, [ID], mark)
            except Unsupported as refused:
                log.debug("committed by Spark", view=self.name, reason=str(refused))
        rows = local_frame(self.spark, taken)
        return self.table.append(rows, mark) if update.appends else self.table.upsert(rows, mark, keys=[ID])


def changed_rows(relations: list[InputRelation], start: Places, end: Places) -> int | None:
    """How many rows the sources' changes have, from their histories; None where those don't say."""
    total = 0
    for relation in relations:
        first, last = start.get(relation.label), end[relation.label]
        if first is None or first == last:
            continue
        for commit in relation.between(first, last):
            if commit.rows_added is None:
                return None
            total += commit.rows_added + (commit.rows_removed or 0)
    return total


def whole_rows(relations: list[InputRelation]) -> int | None:
    """How many rows the sources have."""
    total = 0
    for relation in relations:
        if not relation.table.format.can(Capability.FILES):
            return None
        counts = [file.rows for file in relation.table.files()]
        if any(count is None for count in counts):
            return None
        total += sum(count or 0 for count in counts)
    return total
