"""A result of groups: one stored row a group, with what it takes to bring its aggregates forward."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from headwater.changes.aggregates import Aggregate
from headwater.changes.kept.base import HIDDEN, ID, SHOWN, Kept, Stored, Update, fingerprint
from headwater.changes.kept.measures import Measure, State, count_of_rows, measure_of
from headwater.changes.keys import Keys, keys_of, narrowed
from headwater.changes.linear import Filter, Linear, Project
from headwater.changes.operator import Moment, Operator
from headwater.changes.run import Run
from headwater.formats.frames import column, quoted
from headwater.handover import beside, lying, selected
from headwater.model import DELETED, WEIGHT

_GROUP = f"{HIDDEN}rows"
"""How many rows a group has: it goes away with the last one."""
_STALE = f"{HIDDEN}stale"


class Grouped(Kept):
    """Filters and projections over an aggregate."""

    def __init__(self, aggregate: Aggregate, above: Sequence[Linear], columns: Sequence[tuple[str, str]]) -> None:
        """`above`: the filters and projections over it, from the lowest; `columns`: names and unique names."""
        self.aggregate = aggregate
        self.input = aggregate.inputs[0]
        self._above = tuple(above)
        self._named = tuple(columns)
        self.columns = tuple(name for name, _ in columns)
        self.filtered = any(isinstance(one, Filter) for one in above)
        self._measures: dict[str, Measure] | None = None
        self._states: dict[State, str] = {count_of_rows().states[0]: _GROUP}

    def prepare(self, input: DataFrame) -> None:
        """Find out which aggregates can be brought forward, by the types of the input."""

        def type_of(value: str) -> DataType:
            return input.select(F.expr(value)).schema[0].dataType

        found = {name: measure_of(text, type_of) for name, text in self.aggregate.values.items()}
        known = {name: measure for name, measure in found.items() if measure is not None}
        if len(known) < len(found):
            return
        self._measures = known
        for state in (state for one in known.values() for state in one.states):
            self._states.setdefault(state, f"{HIDDEN}{len(self._states)}")

    @property
    def brings_forward(self) -> bool:
        return self._measures is not None

    @property
    def told(self) -> str:
        if self._measures is not None:
            return "stored groups are brought forward by the change; a group whose rows have to be seen is read again"
        return "the groups that the change touches are computed anew from the sources"

    # --- all of it

    def whole(self, run: Run) -> DataFrame:
        return self._anew(self.input.rows(Moment.NEW, run))

    def _anew(self, df: DataFrame) -> DataFrame:
        """Stored rows of an input that holds whole groups."""
        by = self.aggregate.by
        values = [F.expr(sql).alias(name) for name, sql in self.aggregate.values.items()]
        states = [F.expr(state.whole).alias(name) for state, name in self._states.items()]
        return self._shown(df.groupBy(*map(column, by)).agg(*values, *states))

    def _shown(self, groups: DataFrame, *more: str) -> DataFrame:
        """Groups with their aggregates as they are stored: the query's columns, ID, states; and some more."""
        kept = [*self._states.values(), *more]
        df = groups.withColumn(ID, self._id())
        shown = F.lit(True)
        for one in self._above:
            if isinstance(one, Filter):
                df = df.withColumn(SHOWN, F.coalesce(F.expr(one.condition), F.lit(False)) & shown)
                shown = column(SHOWN)
            else:
                assert isinstance(one, Project)
                also = [ID, *kept, *([SHOWN] if SHOWN in df.columns else [])]
                df = df.select(*(F.expr(sql).alias(name) for name, sql in one.values.items()), *map(column, also))
        also = [ID, *kept, *([SHOWN] if self.filtered else [])]
        return df.select(*(column(unique).alias(name) for name, unique in self._named), *map(column, also))

    def _id(self) -> Column:
        by = self.aggregate.by
        return fingerprint([column(name) for name in by]) if by else F.lit("all")

    # --- a change

    def update(self, run: Run, stored: Stored) -> Update | None:
        came = run.change(self.input)
        if came is None:
            return None
        if self._measures is None:
            return Update(self._computed(run, came, None))
        return Update(self._brought_forward(run, run.settled(self._partial(came)), stored))

    def _computed(self, run: Run, came: DataFrame, keys: Keys | None) -> DataFrame:
        """The groups of a change anew, those that have gone marked as deleted."""
        by = self.aggregate.by
        if not by:
            return self._anew(self.input.rows(Moment.NEW, run)).withColumn(DELETED, F.lit(False))
        keys = keys or keys_of([(came, by)], by)
        now = self._anew(narrowed(self.input.rows(Moment.NEW, run, keys), keys))
        touched = keys.frame.select(self._id().alias(ID)).distinct()
        return touched.join(now, ID, "left").withColumn(DELETED, column(_GROUP).isNull())

    def _partial(self, came: DataFrame) -> DataFrame:
        """What the change brings to each group that it touches."""
        assert self._measures is not None
        unit = F.explode(F.array_repeat(F.signum(WEIGHT).cast("bigint"), F.abs(column(WEIGHT)).cast("int")))
        names = [name for name in came.columns if name != WEIGHT]
        units = came.select(*map(column, names), unit.alias(WEIGHT))
        states = [F.expr(state.change).alias(_of_change(name)) for state, name in self._states.items()]
        aids = [F.expr(sql).alias(name) for sql, name in self._aids().items()]
        return units.groupBy(*map(column, self.aggregate.by)).agg(*states, *aids).withColumn(ID, self._id())

    def _aids(self) -> dict[str, str]:
        assert self._measures is not None
        texts = dict.fromkeys(sql for one in self._measures.values() for sql in one.aids)
        return {sql: f"{HIDDEN}aid_{at}" for at, sql in enumerate(texts)}

    def _brought_forward(self, run: Run, partial: DataFrame, stored: Stored) -> DataFrame:
        joined = self._beside_stored(partial, keys_of([(partial, [ID])], [ID]), stored)
        if self._staleness() == "FALSE":
            return self._forward(joined)
        forward = run.settled(self._forward(joined, _STALE))
        if not _any_stale(forward):
            return selected(forward, {name: name for name in forward.columns if name != _STALE})
        joined = run.settled(joined)
        by, found = self.aggregate.by, joined.where(column(_STALE))
        stale = keys_of([(found, by)], by) if by else Keys((), found)
        return self._forward(joined.where(~column(_STALE))).unionByName(self._computed(run, stale.frame, stale))

    def _forward(self, joined: DataFrame, *more: str) -> DataFrame:
        """The stored rows of groups whose merged states say everything."""
        rows = self._shown(self._valued(joined, *more), *more)
        return rows.withColumn(DELETED, column(_GROUP) <= 0 if self.aggregate.by else F.lit(False))

    def _beside_stored(self, partial: DataFrame, keys: Keys, stored: Stored) -> DataFrame:
        """Each group with its merged states, and whether its rows have to be seen."""
        names = list(self._states.values())
        old = selected(stored(keys, [ID, *names]), {ID: ID, **{_stored(name): name for name in names}})
        partial, old = beside(partial, old)
        joined = partial.join(old, ID, "left")
        merged = []
        for state, name in self._states.items():
            text = state.merged.format(old=quoted(_stored(name)), new=quoted(_of_change(name)))
            data_type = old.schema[_stored(name)].dataType
            merged.append(F.expr(text).cast(data_type).alias(name))
        kept = [*self.aggregate.by, *self._aids().values(), *map(_stored, self._states.values())]
        both = joined.select(*map(column, kept), *merged)
        return both.withColumn(_STALE, F.coalesce(F.expr(self._staleness()), F.lit(False)))

    def _staleness(self) -> str:
        assert self._measures is not None
        aids = self._aids()
        conditions = []
        for measure in self._measures.values():
            names = [self._states[state] for state in measure.states]
            given = {f"a{at}": quoted(aids[sql]) for at, sql in enumerate(measure.aids)}
            if measure.stale is not None:
                conditions.append(measure.stale.format(*(quoted(_stored(name)) for name in names), **given))
            if measure.lost is not None:
                conditions.append(measure.lost.format(*map(quoted, names)))
        return " OR ".join(f"COALESCE({one}, FALSE)" for one in dict.fromkeys(conditions)) or "FALSE"

    def _valued(self, groups: DataFrame, *more: str) -> DataFrame:
        """The aggregates of the merged states, as the query knows them."""
        assert self._measures is not None
        values = []
        for name, measure in self._measures.items():
            names = [quoted(self._states[state]) for state in measure.states]
            values.append(F.expr(measure.value.format(*names)).alias(name))
        kept = [*self.aggregate.by, *self._states.values(), *more]
        return groups.select(*map(column, kept), *values)


def _any_stale(groups: DataFrame) -> bool:
    """Whether some have to be computed anew."""
    known = lying(groups)
    return not groups.where(column(_STALE)).isEmpty() if known is None else bool(pc.any(known[_STALE]).as_py())


def _stored(name: str) -> str:
    return f"{name}@stored"


def _of_change(name: str) -> str:
    return f"{name}@change"


def grouped_of(operator: Operator, columns: Sequence[tuple[str, str]]) -> Grouped | None:
    """A query's operators as groups, if an aggregate is under nothing but filters and projections."""
    above: list[Linear] = []
    one = operator
    while isinstance(one, (Filter, Project)):
        above.append(one)
        one = one.inputs[0]
    return Grouped(one, above[::-1], columns) if isinstance(one, Aggregate) else None
