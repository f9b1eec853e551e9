"""A result of groups: one stored row a group, with what it takes to maintain its aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from headwater.core.model import DELETED
from headwater.incremental.aggregates import Aggregate
from headwater.incremental.keys import KeySet, keys_of, narrowed
from headwater.incremental.linear import Filter, Linear, Projection
from headwater.incremental.operator import Moment, Operator
from headwater.incremental.run import FEW, Run, collected
from headwater.incremental.state.base import (
    HIDDEN,
    ID,
    SHOWN,
    RetractionMismatch,
    Stored,
    StoredResult,
    Update,
    fingerprint,
)
from headwater.incremental.state.forward import ROWS, STALE, GroupMerge
from headwater.incremental.state.measures import StoredMeasure, count_of_rows, measure_of
from headwater.spark.frames import column


class Grouped(StoredResult):
    """Filters and projections over an aggregate."""

    def __init__(self, aggregate: Aggregate, above: Sequence[Linear], columns: Sequence[tuple[str, str]]) -> None:
        """`above`: the filters and projections over it, from the lowest; `columns`: names and unique names."""
        self.aggregate = aggregate
        self.input = aggregate.inputs[0]
        self._above = tuple(above)
        self._named = tuple(columns)
        self.columns = tuple(name for name, _ in columns)
        self.filtered = any(isinstance(one, Filter) for one in above)
        self._states: dict[StoredMeasure, str] = {count_of_rows().states[0]: ROWS}
        self._forward: GroupMerge | None = None

    def prepare(self, input: DataFrame) -> None:
        """Find out which aggregates can be maintained incrementally, by the types of the input."""

        def type_of(value: str) -> DataType:
            return input.select(F.expr(value)).schema[0].dataType

        found = {name: measure_of(text, type_of) for name, text in self.aggregate.values.items()}
        known = {name: measure for name, measure in found.items() if measure is not None}
        if len(known) < len(found):
            return
        for state in (state for one in known.values() for state in one.states):
            self._states.setdefault(state, f"{HIDDEN}{len(self._states)}")
        by = self.aggregate.by
        self._forward = GroupMerge(self.input.columns, by, known, self._states, self._id(), self._to_stored(STALE))

    @property
    def brings_forward(self) -> bool:
        return self._forward is not None

    @property
    def description(self) -> str:
        if self._forward is not None:
            return "stored groups are updated by the change; a group whose rows have to be seen is read again"
        return "the groups that the change touches are recomputed from the sources"

    # --- all of it

    def whole(self, run: Run) -> DataFrame:
        return self._anew(self.input.rows(Moment.NEW, run))

    def _anew(self, df: DataFrame) -> DataFrame:
        """Stored rows of an input that holds whole groups."""
        by = self.aggregate.by
        values = [F.expr(sql).alias(name) for name, sql in self.aggregate.values.items()]
        states = [F.expr(state.whole).alias(name) for state, name in self._states.items()]
        groups = df.groupBy(*map(column, by)).agg(*values, *states)
        return reduce(lambda made, step: made.select(*step), self._to_stored(), groups)

    def _to_stored(self, *more: str) -> list[list[Column]]:
        """What is selected, step by step, to make groups with their aggregates what is stored of them: the query's
        columns, ID, states; and some more."""
        kept = [*self._states.values(), *more]
        have = [*self.aggregate.by, *self.aggregate.values, *kept]
        steps = [[*map(column, have), self._id().alias(ID)]]
        have.append(ID)
        for one in self._above:
            if isinstance(one, Filter):
                holds = F.coalesce(F.expr(one.condition), F.lit(False))
                holds = holds & column(SHOWN) if SHOWN in have else holds
                have = [name for name in have if name != SHOWN]
                steps.append([*map(column, have), holds.alias(SHOWN)])
                have.append(SHOWN)
            else:
                assert isinstance(one, Projection)
                also = [ID, *kept, *([SHOWN] if SHOWN in have else [])]
                steps.append([*(F.expr(sql).alias(name) for name, sql in one.values.items()), *map(column, also)])
                have = [*one.values, *also]
        also = [ID, *kept, *([SHOWN] if self.filtered else [])]
        steps.append([*(column(unique).alias(name) for name, unique in self._named), *map(column, also)])
        return steps

    def _id(self) -> Column:
        by = self.aggregate.by
        return fingerprint([column(name) for name in by]) if by else F.lit("all")

    # --- a change

    def update(self, run: Run, stored: Stored) -> Update | None:
        came = run.change(self.input)
        if came is None:
            return None
        if self._forward is None:
            return Update(self._computed(run, came, None))
        return self._brought_forward(run, self._forward, came, stored)

    def _computed(self, run: Run, came: DataFrame, keys: KeySet | None) -> DataFrame:
        """The groups of a change, recomputed; those that have gone marked as deleted."""
        by = self.aggregate.by
        if not by:
            return self._anew(self.input.rows(Moment.NEW, run)).withColumn(DELETED, F.lit(False))
        keys = keys or keys_of([(came, by)], by)
        now = self._anew(narrowed(self.input.rows(Moment.NEW, run, keys), keys))
        touched = keys.frame.select(self._id().alias(ID)).distinct()
        return touched.join(now, ID, "left").withColumn(DELETED, column(ROWS).isNull())

    def _brought_forward(self, run: Run, forward: GroupMerge, came: DataFrame, stored: Stored) -> Update:
        columns = [ID, *self._states.values()]
        partial, old = forward.partial(came), stored.all(columns)
        if old is None:
            partial = run.materialized(partial)
            old = stored.some(keys_of([(partial, [ID])], [ID]), columns)
        merged = forward.merged(partial, old)
        rows = forward.rows(merged)
        taken = collected(rows, FEW)
        if taken is not None and taken.num_rows and pc.min(taken[ROWS]).as_py() < 0:
            raise RetractionMismatch  # of a group goes more than there was
        if not forward.may_be_stale:
            return Update(rows, taken=taken)
        if taken is None:
            rows = run.kept(rows)
        if not _any_stale(rows, taken):
            return Update(rows, taken=taken)
        merged = run.materialized(merged)
        by, found = self.aggregate.by, merged.where(column(STALE))
        stale = keys_of([(found, by)], by) if by else KeySet((), found)
        fresh = forward.rows(merged.where(~column(STALE))).drop(STALE)
        return Update(fresh.unionByName(self._computed(run, stale.frame, stale)))


def _any_stale(rows: DataFrame, taken: pa.Table | None) -> bool:
    """Whether some have to be recomputed."""
    return not rows.where(column(STALE)).isEmpty() if taken is None else bool(pc.any(taken[STALE]).as_py())


def grouped_of(operator: Operator, columns: Sequence[tuple[str, str]]) -> Grouped | None:
    """A query's operators as groups, if an aggregate is under nothing but filters and projections."""
    above: list[Linear] = []
    one = operator
    while isinstance(one, (Filter, Projection)):
        above.append(one)
        one = one.inputs[0]
    return Grouped(one, above[::-1], columns) if isinstance(one, Aggregate) else None
