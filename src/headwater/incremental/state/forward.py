"""Stored groups maintained incrementally: what a change brings to each, merged with what is stored of it.

The columns for it are made and handed to Spark once: over a few rows, that takes longer than to compute them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.model import DELETED, WEIGHT
from headwater.core.quotes import backticked
from headwater.incremental.state.base import HIDDEN, ID
from headwater.incremental.state.measures import Measure, StoredMeasure
from headwater.spark.arrow_bridge import Groups, Selection, held_together, joined, selected
from headwater.spark.frames import column

ROWS = f"{HIDDEN}rows"
"""How many rows a group has: it goes away with the last one."""
STALE = f"{HIDDEN}stale"
"""Whether a group's rows have to be seen: its merged states don't say everything."""


class GroupMerge:
    """The way of one query's groups."""

    def __init__(
        self,
        input: Sequence[str],
        by: Sequence[str],
        measures: Mapping[str, Measure],
        states: Mapping[StoredMeasure, str],
        id: Column,
        to_stored: Sequence[Sequence[Column]],
    ) -> None:
        """`measures` and `states` by their columns; `to_stored`: what is selected, step by step, of groups with their
        measures and STALE."""
        self._input = tuple(input)
        self._by = tuple(by)
        self._measures = dict(measures)
        self._states = dict(states)
        self._id = id
        self._to_stored = to_stored
        self._aids = {sql: f"{HIDDEN}aid_{at}" for at, sql in enumerate(_aids(measures))}
        self._stale = self._staleness()
        self._partial: tuple[Selection, Groups, Selection] | None = None
        self._merged: tuple[StructType, list[Selection]] | None = None
        self._rows: list[Selection] | None = None

    @property
    def may_be_stale(self) -> bool:
        """Whether there are groups at all whose rows have to be seen."""
        return self._stale != "FALSE"

    def partial(self, came: DataFrame) -> DataFrame:
        """What the change brings to each group that it touches."""
        if self._partial is None:
            self._partial = self._bringing(came.sparkSession)
        units, groups, named = self._partial
        return held_together(named.of(groups.of(units.of(came))))

    def merged(self, partial: DataFrame, old: DataFrame) -> DataFrame:
        """Each group with its merged states, and whether its rows have to be seen. `old`: ID and states as stored."""
        if self._merged is None or self._merged[0] != old.schema:
            self._merged = (old.schema, self._merging(old.sparkSession, old.schema))
        old = selected(old, {ID: ID, **{_stored(name): name for name in self._states.values()}})
        return _through(joined(partial, old, ID, "left"), self._merged[1])

    def rows(self, merged: DataFrame) -> DataFrame:
        """The stored rows of merged groups, with DELETED and STALE."""
        if self._rows is None:
            spark = merged.sparkSession
            self._rows = [Selection(spark, one) for one in (self._valued(), *self._to_stored[:-1])]
            gone = column(ROWS) <= 0 if self._by else F.lit(False)
            self._rows.append(Selection(spark, [*self._to_stored[-1], gone.alias(DELETED)]))
        return _through(merged, self._rows)

    # --- columns

    def _bringing(self, spark: SparkSession) -> tuple[Selection, Groups, Selection]:
        unit = F.explode(F.array_repeat(F.signum(WEIGHT).cast("bigint"), F.abs(column(WEIGHT)).cast("int")))
        states = {_of_change(name): state.change for state, name in self._states.items()}
        values = states | {name: sql for sql, name in self._aids.items()}
        return (
            Selection(spark, [*map(column, self._input), unit.alias(WEIGHT)]),
            Groups(spark, list(map(column, self._by)), [F.expr(sql).alias(name) for name, sql in values.items()]),
            Selection(spark, [*map(column, (*self._by, *values)), self._id.alias(ID)]),
        )

    def _merging(self, spark: SparkSession, stored: StructType) -> list[Selection]:
        merged = []
        for state, name in self._states.items():
            text = state.merged.format(old=backticked(_stored(name)), new=backticked(_of_change(name)))
            merged.append(F.expr(text).cast(stored[name].dataType).alias(name))
        kept = [*self._by, *self._aids.values(), *map(_stored, self._states.values())]
        stale = F.coalesce(F.expr(self._stale), F.lit(False)).alias(STALE)
        both = [*map(column, (*kept, *self._states.values())), stale]
        return [Selection(spark, [*map(column, kept), *merged]), Selection(spark, both)]

    def _valued(self) -> list[Column]:
        """The aggregates of the merged states, as the query knows them."""
        values = []
        for name, measure in self._measures.items():
            names = [backticked(self._states[state]) for state in measure.states]
            values.append(F.expr(measure.value.format(*names)).alias(name))
        return [*map(column, (*self._by, *self._states.values(), STALE)), *values]

    def _staleness(self) -> str:
        conditions = []
        for measure in self._measures.values():
            names = [self._states[state] for state in measure.states]
            given = {f"a{at}": backticked(self._aids[sql]) for at, sql in enumerate(measure.aids)}
            if measure.stale is not None:
                conditions.append(measure.stale.format(*(backticked(_stored(name)) for name in names), **given))
            if measure.lost is not None:
                conditions.append(measure.lost.format(*map(backticked, names)))
        return " OR ".join(f"COALESCE({one}, FALSE)" for one in dict.fromkeys(conditions)) or "FALSE"


def _aids(measures: Mapping[str, Measure]) -> list[str]:
    return list(dict.fromkeys(sql for one in measures.values() for sql in one.aids))


def _stored(name: str) -> str:
    return f"{name}@stored"


def _of_change(name: str) -> str:
    return f"{name}@change"


def _through(df: DataFrame, steps: Sequence[Selection]) -> DataFrame:
    for one in steps:
        df = one.of(df)
    return df
