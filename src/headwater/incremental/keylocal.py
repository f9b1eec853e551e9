"""What is computed of some columns' keys alone: those that a change touches are recomputed, before and after."""

from __future__ import annotations

from abc import abstractmethod

from pyspark.sql import DataFrame

from headwater.incremental.keys import KeySet, keys_of, narrowed
from headwater.incremental.operator import Moment, Operator, Strategy
from headwater.incremental.run import Run, signed


class KeyLocal(Operator):
    """Its rows of a key are made of the input's rows of that key, and of no others."""

    by: tuple[str, ...]
    """Columns of the input; without any, all of it is one key."""

    @abstractmethod
    def computed(self, df: DataFrame) -> DataFrame:
        """Its work on whole keys of the input."""

    @property
    def strategy(self) -> Strategy:
        return Strategy.KEY_LOCAL if self.by else Strategy.WHOLE

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        below = None if keys is None else keys.under({name: name for name in self.by})
        df = self.computed(self.inputs[0].rows(at, run, below))
        return df if keys is None else narrowed(df, keys)

    def change(self, run: Run) -> DataFrame | None:
        came = run.change(self.inputs[0])
        if came is None:
            return None
        keys = keys_of([(came, self.by)], self.by) if self.by else None
        if keys is not None and keys.few == ():
            return None
        new, old = (self._at(at, run, keys) for at in (Moment.NEW, Moment.OLD))
        return signed(new, old)

    def _at(self, at: Moment, run: Run, keys: KeySet | None) -> DataFrame:
        df = self.inputs[0].rows(at, run, keys)
        return self.computed(df if keys is None else narrowed(df, keys))
