"""A view's table as the target of its flow: a step is a refresh."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from headwater.core.errors import UsageError
from headwater.core.model import CommitTag
from headwater.flows.ledger import Intent
from headwater.flows.step import Landed, Step, Target
from headwater.incremental.state.base import RetractionMismatch
from headwater.tables.late import WATERMARK, WatermarkState
from headwater.tables.row_checks import RowChecks
from headwater.views.input import EMPTY, FULL, OF_THE_QUERY, VersionRange, versions_of
from headwater.views.records import Refreshed
from headwater.views.refresh import RefreshDecision, Refresher


class ViewTarget(Target[VersionRange]):
    """What a refresher fills. `one_of_some` holds one of the refreshes that may run at once."""

    def __init__(
        self,
        refresher: Refresher,
        definition: str,
        one_of_some: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.refresher = refresher
        self.last: Refreshed | None = None
        """What the last step did, in this process."""
        self._definition = definition
        self._one_of_some = one_of_some

    def landed(self, commit_tag: CommitTag) -> bool:
        if commit_tag.positions.get(EMPTY):
            return True
        table = self.refresher.table
        return table.exists() and table.landed(commit_tag) is not None

    def continues(self, last: Intent, definition: str) -> bool:
        return last.definition == definition

    def finish(self, last: Intent) -> None:
        if FULL in last.end and last.definition == self._definition:
            self._keep_notes(last)
            self.refresher.adopt(versions_of(last.end))

    def commit(self, rows: VersionRange, step: Step) -> Landed:
        self._keep_notes(step.intent)
        with self._one_of_some():
            try:
                choice = self.refresher.decide(rows.start, rows.end, why_full=step.intent.end.get(FULL))
                self.last = self._refreshed(rows, step, choice)
            except UsageError as error:
                if error.code in OF_THE_QUERY and FULL in step.intent.end and not step.intent.start:
                    self.refresher.notes.forget_columns()  # of inputs that it was never built over
                raise
        nothing, row_checks = self.last.version is None, self.refresher.row_checks
        version = (self.refresher.table.version() or 0) if self.last.version is None else self.last.version
        if row_checks is None:
            return Landed(version, self.last.rows_changed, came_to_nothing=nothing)
        if nothing:  # what was left out has been dealt with, and is not judged again: the step is over
            step.extend({EMPTY: True})
        return Landed(version, self.last.rows_changed, row_checks.tally.left_out, row_checks.tally.checks())

    def _keep_notes(self, intent: Intent) -> None:
        self.refresher.notes = self.refresher.notes.of(intent.epoch)

    def _refreshed(self, range: VersionRange, step: Step, choice: RefreshDecision) -> Refreshed:
        row_checks = self.refresher.row_checks
        if row_checks is None:
            return self.refresher.refresh(range.start, range.end, step.commit_tag, choice)
        try:
            return self._checked(row_checks, range, step, choice)
        except RetractionMismatch as why:  # such as a row that goes, and had been left out by an expectation
            return self._checked(row_checks, range, step, RefreshDecision(True, str(why)))

    def _checked(self, row_checks: RowChecks, range: VersionRange, step: Step, choice: RefreshDecision) -> Refreshed:
        """A refresh of what a table's checks let through; the intent then says how far event time has come."""
        made = self.refresher.compiled(range.end)
        commit_tag = step.commit_tag
        row_checks.begin(commit_tag, rebuilds=choice.full)
        states = self.refresher.states(range.start, range.end, self.refresher.notes.columns())
        before = WatermarkState.of(step.intent.start.get(WATERMARK))
        admitted = row_checks.admit(states, made, commit_tag, before, rebuilds=choice.full)
        if row_checks.late is not None:
            step.extend({WATERMARK: admitted.watermark.to_json()})
        done = self.refresher.refresh(range.start, range.end, step.commit_tag, choice, admitted.sources)
        if row_checks.late is not None and choice.full:
            row_checks.late.forget_earlier(commit_tag.epoch, admitted.watermark)
        return done
