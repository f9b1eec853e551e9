"""GROUP BY and DISTINCT: the groups that a change touches are computed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.changes.keys import Keys, narrowed
from headwater.changes.operator import Moment, Operator, Strategy, named
from headwater.changes.run import Run, signed
from headwater.formats.frames import column


class Aggregate(Operator):
    """One row a group; without group columns, one row."""

    def __init__(self, input: Operator, groups: Sequence[str], values: Mapping[str, str]) -> None:
        """`groups` are columns of the input; `values` SQL for each aggregate."""
        self.inputs = (input,)
        self.groups = tuple(groups)
        self.values = dict(values)
        self.columns = (*self.groups, *values)

    @property
    def strategy(self) -> Strategy:
        return Strategy.KEY_LOCAL if self.groups else Strategy.WHOLE

    @property
    def title(self) -> str:
        if not self.groups:
            return f"aggregate everything: {named(tuple(self.values))}"
        what = f": {named(tuple(self.values))}" if self.values else ""
        return f"aggregate by {named(self.groups)}{what}"

    def rows(self, at: Moment, run: Run, keys: Keys | None = None) -> DataFrame:
        below = None if keys is None else keys.under({name: name for name in self.groups})
        df = self._aggregated(self.inputs[0].rows(at, run, below))
        return df if keys is None else narrowed(df, keys)

    def change(self, run: Run) -> DataFrame | None:
        came = run.change(self.inputs[0])
        if came is None:
            return None
        keys = run.keys([(came, self.groups)], self.groups) if self.groups else None
        new, old = (self._at(at, run, keys) for at in (Moment.NEW, Moment.OLD))
        return signed(new, old)

    def _at(self, at: Moment, run: Run, keys: Keys | None) -> DataFrame:
        df = self.inputs[0].rows(at, run, keys)
        return self._aggregated(df if keys is None else narrowed(df, keys))

    def _aggregated(self, df: DataFrame) -> DataFrame:
        grouped = df.groupBy(*map(column, self.groups))
        if not self.values:
            return df.select(*map(column, self.groups)).distinct()
        return grouped.agg(*(F.expr(sql).alias(name) for name, sql in self.values.items()))
