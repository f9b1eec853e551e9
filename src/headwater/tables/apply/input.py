"""A topic of the lake as the input of a table: its rows by versions, and the truncations among them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from pyspark.sql import DataFrame

from headwater.core.model import WEIGHT, Kind, Version
from headwater.core.spec import Table
from headwater.flows.flow import FlowInput, wait_for_commits
from headwater.flows.ledger import Positions
from headwater.incremental.relations import InputRelation
from headwater.incremental.relations import RelationVersion as At
from headwater.sources.reader import OffsetRange
from headwater.spark.frames import column
from headwater.tables.apply.changes import truncations_of
from headwater.tables.apply.shape import Locate, shape_of
from headwater.tables.apply.target import check_ordered
from headwater.tables.apply.truncation import TRUNCATED, noted, remembered

STEP_ROWS = 1_000_000
"""A backlog is read in steps of about so many rows; a version is never cut."""


class VersionsInput(FlowInput[DataFrame]):
    """Rows that came to a relation. `again` is called with a reason when what was read of it holds no more."""

    def __init__(
        self,
        relation: InputRelation,
        definition: Table,
        locate: Locate,
        again: Callable[[str], NoReturn],
        end: At | None = None,
        committed: threading.Condition | None = None,
        owes: Callable[[], bool] = lambda: False,
    ) -> None:
        """`end`: read no further. `committed` is notified when something of this lake has got a new version. `owes`
        says whether the table needs a step though nothing has come."""
        assert definition.apply is not None
        self._end = end
        self._committed = committed
        self._owes = owes
        self._relation = relation
        self._definition = definition
        self._rules = definition.apply
        self._locate = locate
        self._again = again

    @property
    def _label(self) -> str:
        return self._relation.label

    def next(self, start: Positions) -> OffsetRange | None:
        now, known = self._end or self._relation.current(), At.of(start.get(self._label))
        if now is None and known is not None:
            self._again(f"{self._label} was dropped")
        if now is None:
            return None
        if now == known:
            return OffsetRange(start, 0, due=True) if self._owes() else None
        if known is not None:
            broken = self._relation.broken(known, now)
            if broken is not None:
                self._again(broken)
        versions = self._relation.versions(known, now)
        taken, rows = self._bounded(versions)
        if not taken:
            return None
        end = now if taken[-1] == now.version else replace(self._relation, at=taken[-1]).current()
        assert end is not None
        kept = {key: start[key] for key in (TRUNCATED,) if key in start}
        return OffsetRange({self._label: end.to_json(), **kept}, rows, full=len(taken) < len(versions))

    def fix_range(self, start: Positions, range: OffsetRange) -> Positions:
        """What goes is no change of a key: a topic that lost rows is another one. What was truncated is noted."""
        known, end = At.of(start.get(self._label)), At.of(range.end[self._label])
        assert end is not None
        if known is not None and self._relation.kind is Kind.TOPIC and self._relation.loses_rows(known, end):
            self._again(f"rows of {self._label} were taken away or changed")
        shape = shape_of(self._rules, self._relation.schema(end), self._locate)
        if not shape.captured:
            to: Positions = range.end
            return to
        truncations = noted(remembered(start), truncations_of(self.read(start, range.end), shape), shape)
        check_ordered(truncations, self._definition.name, self._rules.sequence_by, self._locate)
        return {**range.end, **({TRUNCATED: [one.to_json() for one in truncations]} if truncations else {})}

    def read(self, start: Positions, end: Positions) -> DataFrame:
        known, to = At.of(start.get(self._label)), At.of(end[self._label])
        assert to is not None
        if known is None:
            return self._relation.rows(to)
        if known == to:
            return self._relation.rows(to).limit(0)
        return self._relation.change(known, to).where(column(WEIGHT) > 0).drop(WEIGHT)

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        wait_for_commits(self._committed, stopping, seconds)

    def _bounded(self, versions: list[Version]) -> tuple[list[Version], int | None]:
        """As many versions as make a step, and their rows as far as known."""
        rows_of = {commit.version: commit.rows_added for commit in self._relation.table.history(len(versions) + 5)}
        total = 0
        for at, version in enumerate(versions, 1):
            total += rows_of.get(version) or 0
            if total >= STEP_ROWS:
                return versions[:at], total
        return versions, total or None
