"""One refresh of a view: from the versions that it has read up to, to those of its sources now, in one commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Code, TerminalError, Unsupported, UsageError
from headwater.core.logs import get_logger
from headwater.core.model import DELETED, CommitTag, Kind, Version
from headwater.core.spec import View
from headwater.flows.ledger import flow_name
from headwater.flows.retention import require_whole
from headwater.formats.base import Capability
from headwater.formats.evolution import aligned
from headwater.formats.native import NativeTable
from headwater.formats.spark_table import SparkTable
from headwater.incremental.operator import Sources
from headwater.incremental.relations import InputRelation, RelationVersion, States
from headwater.incremental.run import Run, collected
from headwater.incremental.schema_growth import grown, has_fields
from headwater.incremental.state.base import ID, RetractionMismatch, Update
from headwater.spark.arrow_bridge import local_frame, lying
from headwater.spark.arrow_types import spark_schema_of
from headwater.spark.frames import column
from headwater.tables.lookups import require_no_retraction
from headwater.tables.row_checks import RowChecks
from headwater.views.compile import Columns, Compiled, ViewQuery, columns_now
from headwater.views.cost import Decision, decided
from headwater.views.explain import explained
from headwater.views.records import Notes, Refreshed, now, record_of
from headwater.views.status import compiled_of
from headwater.views.stored_table import Storage, StoredRows

SMALL = 20_000
"""Rows of an update that are committed without Spark, where the format has a light way."""

log = get_logger(__name__)

Versions = Mapping[str, RelationVersion]
"""By the relations' labels."""


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
    view_query: ViewQuery
    spark: SparkSession
    storage: Storage
    notes: Notes
    guard: Callable[[], None] = lambda: None
    policy: str | None = None
    """Instead of the definition's."""
    row_checks: RowChecks | None = None
    """What is checked of the rows beyond the query."""
    _compiled: tuple[Columns, Compiled] | None = field(default=None, repr=False)
    _table: SparkTable | None = field(default=None, repr=False)
    _native: NativeTable | None = field(default=None, repr=False)

    @property
    def table(self) -> SparkTable:
        if self._table is None:
            self._table = self.storage.table
            self._native = self.storage.native(self._table)
        return self._table

    # --- how

    def decide(self, start: Versions, end: Versions, *, why_full: str | None = None) -> RefreshDecision:
        """Whether it goes incrementally, by the view's policy; refused where the policy is strict."""
        policy = self.policy or self.usual
        if why_full is not None:
            return RefreshDecision(True, why_full)
        if policy == "full":
            return RefreshDecision(True, "the policy is full")
        made = self.compiled(end)
        obstacle = self._obstacle(made, start, end)
        if obstacle is not None:
            self._require_whole(obstacle)
            if policy == "incremental_strict":
                raise UsageError(Code.NOT_INCREMENTAL, obstacle, hint=made.refused.hint if made.refused else None)
            return RefreshDecision(True, obstacle)
        changed = changed_rows(self.view_query.inputs(), start, end)
        if policy != "auto":
            return RefreshDecision(False, f"the policy is {policy}", None, made, changed)
        decision = decided(changed, self.notes.refreshes())
        log.info("refresh decided", view=self.name, incremental=decision.incremental, **decision.figures)
        return RefreshDecision(not decision.incremental, decision.sentence, decision, made, changed)

    def _obstacle(self, made: Compiled, start: Versions, end: Versions) -> str | None:
        """Why the change can't be brought in, in words."""
        if made.refused is not None:
            return made.refused.message()
        if not self.table.format.can(Capability.UPSERT):
            return self.table.format.refusal(Capability.UPSERT)
        if ID not in self.table.schema().names:
            return "the view was built by a query that could not be kept incrementally"
        for relation in self.view_query.inputs():
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
        if relation.kind is not Kind.TOPIC or relation.label not in self.view_query.driving:
            return None
        if self.view_query.adds_only:
            return "what a function made of them is not known any more"
        if self.row_checks is not None and self.row_checks.late is not None and self.row_checks.late.leaves_out:
            return "an event that comes again would be late"
        if any(one.label not in self.view_query.driving and one.at is None for one in self.view_query.inputs()):
            return "what was looked up for them is not known any more"
        return None

    def compiled(self, end: Versions) -> Compiled:
        """The query over the relations where they are now; kept as long as their columns stay the same."""
        recorded = self.notes.columns()
        present = columns_now(self.view_query.inputs(), end)
        changed = None if recorded is None else self.view_query.changed(recorded, present)
        if changed is not None:
            kind = self.storage.kind.value
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"{changed}, and {kind} '{self.name}' uses it; the {kind} stays as it was",
                hint=f"change its query, or rebuild its rows: {self.storage.rebuild}",
            )
        if self._compiled is None or self._compiled[0] != present:
            made = self.view_query.compiled(self.spark, end, recorded)
            require_no_retraction(made)
            if self.row_checks is not None:
                self.row_checks.require_fitting(made, self.storage.format)
            self._compiled = (present, made)
        return self._compiled[1]

    def states(self, start: Versions, end: Versions, recorded: Columns | None) -> States:
        """The relations at two versions each, without fields that came after `recorded`."""
        recorded = (recorded if self.view_query.pinned else None) or {}
        nested = [one for one in self.view_query.inputs() if has_fields(recorded.get(one.label))]
        now = columns_now(nested, end)
        return States(
            self.view_query.relations, start, end, {label: grown(recorded[label], now[label]) for label in now}
        )

    # --- doing it

    def refresh(
        self,
        start: Versions,
        end: Versions,
        commit_tag: CommitTag,
        choice: RefreshDecision,
        sources: Sources | None = None,
    ) -> Refreshed:
        """Bring the view to `end`; nothing is committed where nothing has changed. `sources`: what it is given of its
        relations, if that is not all."""
        began = time.monotonic()
        watermarks = {
            label: {"before": start[label].version if label in start else None, "after": version.version}
            for label, version in end.items()
        }
        done = Refreshed(self.name, "full" if choice.full else "incremental", choice.reason, watermarks=watermarks)
        recorded = self.notes.columns()
        begins = recorded is None  # it is built, or goes on by another query
        if begins or not self.view_query.pinned:
            self._grow(choice)
        if begins:
            self.notes.put_columns(columns_now(self.view_query.inputs(), end))
        with Run(sources or self.states(start, end, recorded)) as run:
            try:
                done = (
                    self._full(run, end, commit_tag, done)
                    if choice.full
                    else self._incremental(run, choice, commit_tag, done)
                )
            except RetractionMismatch as why:
                if self.row_checks is not None:
                    raise  # what was checked of the rows is checked again: the caller begins again
                done = self._full(run, end, commit_tag, self._rebuilt(done, why))
        took = round((time.monotonic() - began) * 1000)
        cost: dict[str, Any] = {} if choice.decision is None else choice.decision.figures
        done = replace(done, duration_ms=took, at=now(), cost=cost)
        self.notes.add(done)
        self.storage.warehouse.state.note(record_of(done, self.storage.kind))
        self._note_explanation(end)
        self.storage.sweep()
        return done

    def _note_explanation(self, end: Versions) -> None:
        """Note how the view is kept, as Spark's analysis of this refresh tells it: `mv explain` asks no Spark then."""
        definition = self.storage.definition
        if self.storage.kind is not Kind.VIEW or not isinstance(definition, View):
            return
        of = compiled_of(self.storage.warehouse, definition)
        if self.notes.explanation(of) is None:
            self.notes.put_explanation(of, explained(self.name, definition.refresh.policy, self.compiled(end)))

    def _full(self, run: Run, end: Versions, commit_tag: CommitTag, done: Refreshed) -> Refreshed:
        self._compiled = None
        made = self.compiled(end)
        frame = made.answered if made.kept is None else made.kept.whole(run)
        if self.row_checks is not None:
            frame = self.row_checks.checked(frame, made, run, commit_tag, None)
        table = self.storage.built(made, frame, commit_tag.epoch)
        self.guard()
        version = table.replace(frame, commit_tag)
        self.storage.adopt(made, table)
        self._table = None
        written = next(iter(table.history(1)), None)
        rows = written.rows_added if written is not None else None
        return replace(done, rows_read=whole_rows(self.view_query.inputs()), rows_changed=rows, version=version)

    def adopt(self, end: Versions) -> None:
        """Make the table of a build that has landed at `end` the view's own, if its process ended before it could."""
        if not self.storage.is_adopted:
            self.storage.adopt(self.compiled(end), self.table)
            self._table = None

    def _incremental(self, run: Run, choice: RefreshDecision, commit_tag: CommitTag, done: Refreshed) -> Refreshed:
        assert choice.made is not None
        assert choice.made.kept is not None
        done = replace(done, rows_read=choice.changed)
        update = choice.made.kept.update(run, StoredRows(self.table, self._native))
        changed, version = (0, None) if update is None else self._commit(run, choice.made, update, commit_tag)
        if version is None:
            return replace(done, refresh_type="none", reason="nothing has changed", rows_changed=0)
        return replace(done, rows_changed=changed, version=version)

    def _require_whole(self, why: str) -> None:
        """A table keeps what it has made of rows that retention has removed; a view follows its query."""
        if self.storage.kind is Kind.TABLE:
            inputs = [relation.label for relation in self.view_query.inputs()]
            require_whole(self.storage.warehouse.files, flow_name(self.name, Kind.TABLE), inputs, why)

    def _rebuilt(self, done: Refreshed, why: RetractionMismatch) -> Refreshed:
        """A full refresh instead, unless that may not be."""
        self._require_whole(str(why))
        if (self.policy or self.usual) == "incremental_strict":
            raise TerminalError(
                Code.NOT_INCREMENTAL,
                f"{self.name}: {why}",
                hint="order by columns that leave no ties, or sum decimals; then recompute it",
            )
        log.warning("recomputed", view=self.name, reason=str(why))
        return replace(done, refresh_type="full", reason=str(why))

    def _grow(self, choice: RefreshDecision) -> None:
        """Before a change is brought in: the table gets the columns that came to the query."""
        if choice.made is not None and not choice.full and self.storage.grown(choice.made, self.table):
            self._table = None

    def _commit(self, run: Run, made: Compiled, update: Update, commit_tag: CommitTag) -> tuple[int, Version | None]:
        """A small update by the native library, a large one by Spark."""
        taken = self._taken(update) if self.row_checks is None else None
        if taken is None:
            rows = self._complete(update)
            if self.row_checks is not None:
                rows = self.row_checks.checked(rows, made, run, commit_tag, self.table)
            taken = collected(rows, SMALL)
        if taken is not None and taken.num_rows == 0:
            return 0, None
        self.guard()
        if taken is None:
            rows = run.kept(rows)
            version = (
                self.table.append(rows, commit_tag)
                if update.appends
                else self.table.upsert(rows, commit_tag, keys=[ID])
            )
            return rows.count(), version
        return taken.num_rows, self._commit_small(taken, update, commit_tag)

    def _taken(self, update: Update) -> pa.Table | None:
        """The rows of an update that are here already, with exactly the stored columns; None where Spark has them, or
        has to make them fit."""
        rows = update.taken if update.taken is not None else lying(update.rows)
        if rows is None or (not update.appends and rows[DELETED].null_count):
            return None
        schema, sent = self.table.schema(), spark_schema_of(rows.schema)
        have = {f.name: f.dataType.simpleString() for f in sent.fields}
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

    def _commit_small(self, taken: pa.Table, update: Update, commit_tag: CommitTag) -> Version:
        if self._native is not None:
            try:
                if update.appends:
                    return self._native.append(taken, commit_tag)
                return self._native.upsert(taken, [ID], commit_tag)
            except Unsupported as refused:
                log.debug("committed by Spark", view=self.name, reason=str(refused))
        rows = local_frame(self.spark, taken)
        return self.table.append(rows, commit_tag) if update.appends else self.table.upsert(rows, commit_tag, keys=[ID])


def changed_rows(relations: list[InputRelation], start: Versions, end: Versions) -> int | None:
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
