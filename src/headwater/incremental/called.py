"""A function of frames as an operator: what it makes of the rows that came, less what it makes of those that went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.model import WEIGHT
from headwater.incremental.keys import KeySet, narrowed
from headwater.incremental.linear import Linear
from headwater.incremental.operator import Moment
from headwater.incremental.run import Run
from headwater.spark.frames import column, signed

Call = Callable[[Mapping[str, DataFrame]], DataFrame]
"""From the frames of the sources, by their names, to the result."""


class Called(Linear):
    """A function that looks at single rows: what it makes of some rows does not depend on any others."""

    def __init__(
        self,
        title: str,
        call: Call,
        sources: Mapping[str, Sequence[str]],
        retracting: frozenset[str],
        result: Sequence[str],
    ) -> None:
        """`sources`: the columns of each that the function is given; `retracting`: whose rows may go again."""
        self.columns = tuple(result)
        self._title = title
        self._call = call
        self._given = {name: list(columns) for name, columns in sources.items()}
        self._retracting = retracting

    @property
    def title(self) -> str:
        return self._title

    def sources(self) -> list[str]:
        return list(self._given)

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        found = self._called({name: run.sources.rows(name, at) for name in self._given})
        return found if keys is None else narrowed(found, keys)

    def change(self, run: Run) -> DataFrame | None:
        changes = {name: run.sources.change(name) for name in self._given}
        if all(change is None for change in changes.values()):
            return None
        changes = {
            name: run.materialized(change) if change is not None and name in self._retracting else change
            for name, change in changes.items()
        }
        parts = [signed(self._of(changes, run, 1), 1)]
        if any(changes[name] is not None for name in self._retracting):
            parts.append(signed(self._of(changes, run, -1), -1))
        return reduce(DataFrame.unionByName, parts)

    def _of(self, changes: Mapping[str, DataFrame | None], run: Run, sign: int) -> DataFrame:
        """What the function makes of all rows that came (+1), or that went (−1)."""
        given = {}
        for name, change in changes.items():
            if change is None:
                given[name] = run.sources.rows(name, Moment.NEW).limit(0)
            else:
                some = change.where(column(WEIGHT) * F.lit(sign) > 0)
                times = F.explode(F.expr(f"array_repeat(0, CAST(abs({WEIGHT}) AS INT))"))
                given[name] = some.withColumn(WEIGHT, times)
        return self._called(given)

    def _called(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        given = {name: frames[name].select(*map(column, columns)) for name, columns in self._given.items()}
        return self._call(given).select(*map(column, self.columns))
