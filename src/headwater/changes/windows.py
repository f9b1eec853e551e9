"""Window functions: the partitions that a change touches are computed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.changes.keys import Keys, narrowed
from headwater.changes.operator import Moment, Operator, Strategy, named
from headwater.changes.run import Run, signed
from headwater.formats.frames import column


class Window(Operator):
    """The rows of the input, each with values over its partition."""

    def __init__(self, input: Operator, partition: Sequence[str], values: Mapping[str, str]) -> None:
        """`partition` are columns of the input; `values` SQL for each window function, with its OVER."""
        self.inputs = (input,)
        self._partition = tuple(partition)
        self._values = dict(values)
        self.columns = (*input.columns, *values)

    @property
    def strategy(self) -> Strategy:
        return Strategy.KEY_LOCAL if self._partition else Strategy.WHOLE

    @property
    def title(self) -> str:
        over = f"partitions by {named(self._partition)}" if self._partition else "one partition"
        return f"window over {over}: {named(tuple(self._values))}"

    def rows(self, at: Moment, run: Run, keys: Keys | None = None) -> DataFrame:
        below = None if keys is None else keys.under({name: name for name in self._partition})
        df = self._with_values(self.inputs[0].rows(at, run, below))
        return df if keys is None else narrowed(df, keys)

    def change(self, run: Run) -> DataFrame | None:
        came = run.change(self.inputs[0])
        if came is None:
            return None
        keys = run.keys([(came, self._partition)], self._partition) if self._partition else None
        new, old = (self._at(at, run, keys) for at in (Moment.NEW, Moment.OLD))
        return signed(new, old)

    def _at(self, at: Moment, run: Run, keys: Keys | None) -> DataFrame:
        df = self.inputs[0].rows(at, run, keys)
        return self._with_values(df if keys is None else narrowed(df, keys))

    def _with_values(self, df: DataFrame) -> DataFrame:
        values = (F.expr(sql).alias(name) for name, sql in self._values.items())
        return df.select(*map(column, self.inputs[0].columns), *values)
