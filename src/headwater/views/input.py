"""The relations that a view reads, as its flow's input: a range is from versions that it has read to those of now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.core.errors import Code, HeadwaterError
from headwater.flows.flow import FlowInput, wait_for_commits
from headwater.flows.ledger import Ledger, Positions
from headwater.incremental.relations import RelationVersion, current_versions
from headwater.sources.reader import Lag, OffsetRange
from headwater.tables.late import WATERMARK
from headwater.views.refresh import Refresher, changed_rows
from headwater.views.status import EMPTY as EMPTY
from headwater.views.status import FULL as FULL

OF_THE_QUERY = (Code.INVALID_SQL, Code.UNKNOWN_COLUMN, Code.UNKNOWN_FUNCTION)
"""What is told of a query before anything is done with it."""


@dataclass(frozen=True)
class VersionRange:
    """What a step of a view is computed between, by the relations' names."""

    start: Mapping[str, RelationVersion]
    """None of a relation: it was not read before."""
    end: Mapping[str, RelationVersion]


class ViewInput(FlowInput[VersionRange]):
    """All relations that one query reads. Nothing of them is read here: the query is run by the target."""

    def __init__(
        self,
        refresher: Refresher,
        definition: str,
        ledger: Ledger,
        committed: threading.Condition | None,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """`committed` is notified when something of this lake has a new version. While `is_ready` says no, a relation
        is about to be emptied or replaced."""
        self._refresher = refresher
        self._definition = definition
        self._ledger = ledger
        self._committed = committed
        self._is_ready = is_ready
        self._unchanged_at: Mapping[str, RelationVersion] | None = None
        """Versions that the view was looked at for, and nothing was new to it."""

    def next(self, start: Positions) -> OffsetRange | None:
        current = {relation.label: relation.current() for relation in self._refresher.view_query.inputs()}
        end = {label: version for label, version in current.items() if version is not None}
        if len(end) < len(current):
            return None  # something that it reads has no data yet
        why = self.why_full(start)
        if why is None and (self._is_same(versions_of(start), end) or self._is_same(self._unchanged_at, end)):
            return None
        return self._range(start, end, why) if self._is_ready() else None

    def whole(self, start: Positions, why: str, replayed: Mapping[str, RelationVersion] | None = None) -> OffsetRange:
        """A range that makes all rows again, for a reason of the caller's; `replayed`: from other versions than those
        of now."""
        return self._range(start, {**self.versions(), **(replayed or {})}, why)

    def changed(self, start: Positions) -> OffsetRange:
        """A range up to now, even if nothing is new."""
        return self._range(start, self.versions(), self.why_full(start))

    def why_full(self, start: Positions) -> str | None:
        """What makes the stored rows worthless as a beginning."""
        if not self._refresher.table.exists():
            return "it is the first build"
        if start:
            return None
        last = self._ledger.last()
        if last is None:
            return "it is the first build"
        return "its definition has changed" if last.definition != self._definition else None

    def versions(self) -> dict[str, RelationVersion]:
        """Where the relations are now; NO_SUCH_RELATION where one has no data."""
        return current_versions(self._refresher.view_query.inputs())

    def read(self, start: Positions, end: Positions) -> VersionRange:
        after, to = versions_of(start), versions_of(end)
        if after:  # what is only looked up is looked up where it is now
            driving = self._refresher.view_query.driving
            after |= {label: version for label, version in to.items() if label not in driving}
        return VersionRange(after, to)

    def begin_after(self, end: Positions) -> Positions:
        return {name: position for name, position in end.items() if name not in (FULL, EMPTY)}

    def is_gone(self, error: HeadwaterError) -> bool:
        # A query that did not fit its inputs then has done nothing: it is asked of them as they are now.
        return error.code is Code.NO_SUCH_VERSION or error.code in OF_THE_QUERY

    def came_to_nothing(self, end: Positions) -> None:
        self._unchanged_at = versions_of(end)

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        wait_for_commits(self._committed, stopping, seconds)

    def lag(self, start: Positions) -> Lag | None:
        try:
            return Lag(records=self._changed_rows(start, self.versions()))
        except HeadwaterError:
            return None

    def _range(self, start: Positions, end: Mapping[str, RelationVersion], why: str | None) -> OffsetRange:
        positions = {label: version.to_json() for label, version in end.items()}
        return OffsetRange(positions if why is None else {**positions, FULL: why}, self._changed_rows(start, end))

    def _changed_rows(self, start: Positions, end: Mapping[str, RelationVersion]) -> int | None:
        after = versions_of(start)
        return changed_rows(self._refresher.view_query.inputs(), after, end) if after else None

    def _is_same(self, seen: Mapping[str, RelationVersion] | None, end: Mapping[str, RelationVersion]) -> bool:
        """Whether nothing of what drives the result has moved."""
        return seen is not None and all(end[label] == seen.get(label) for label in self._refresher.view_query.driving)


def versions_of(positions: Positions) -> dict[str, RelationVersion]:
    """The versions of the relations among a step's positions."""
    versions = {
        label: RelationVersion.of(position)
        for label, position in positions.items()
        if label not in (FULL, EMPTY, WATERMARK)
    }
    return {label: version for label, version in versions.items() if version is not None}
