"""INTERSECT and EXCEPT: the rows that a change touches are compared again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from headwater.incremental.keys import KeySet, keys_of, narrowed
from headwater.incremental.operator import Moment, Operator, Strategy
from headwater.incremental.run import Run, signed
from headwater.spark.frames import column


class SetOperation(Operator):
    """Two inputs compared row by row, by the order of their columns."""

    def __init__(self, left: Operator, right: Operator, columns: Sequence[str], *, intersect: bool, all: bool) -> None:
        self.inputs = (left, right)
        self.columns = tuple(columns)
        self._intersect = intersect
        self._all = all

    @property
    def strategy(self) -> Strategy:
        return Strategy.KEY_LOCAL

    @property
    def title(self) -> str:
        return ("intersect" if self._intersect else "except") + (" all" if self._all else "")

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        left, right = (self._side(one, at, run, keys) for one in self.inputs)
        return self._compared(left, right)

    def change(self, run: Run) -> DataFrame | None:
        touched = [(came, one.columns) for one in self.inputs if (came := run.change(one)) is not None]
        if not touched:
            return None
        keys = keys_of(touched, self.columns)
        return signed(self.rows(Moment.NEW, run, keys), self.rows(Moment.OLD, run, keys))

    def _side(self, one: Operator, at: Moment, run: Run, keys: KeySet | None) -> DataFrame:
        """One side's rows, exactly those of the keys: what is missing there is missing at all."""
        below = None if keys is None else keys.under(dict(zip(self.columns, one.columns, strict=True)))
        df = one.rows(at, run, below).select(*map(column, one.columns)).toDF(*self.columns)
        return df if keys is None else narrowed(df, keys)

    def _compared(self, left: DataFrame, right: DataFrame) -> DataFrame:
        if self._intersect:
            return left.intersectAll(right) if self._all else left.intersect(right)
        return left.exceptAll(right) if self._all else left.subtract(right)
