"""GROUP BY and DISTINCT: the groups that a change touches are computed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.changes.keylocal import KeyLocal
from headwater.changes.operator import Operator, named
from headwater.formats.frames import column


class Aggregate(KeyLocal):
    """One row a group; without group columns, one row."""

    def __init__(self, input: Operator, groups: Sequence[str], values: Mapping[str, str]) -> None:
        """`groups` are columns of the input; `values` SQL for each aggregate."""
        self.inputs = (input,)
        self.by = tuple(groups)
        self._values = dict(values)
        self.columns = (*self.by, *values)

    @property
    def title(self) -> str:
        if not self.by:
            return f"aggregate everything: {named(tuple(self._values))}"
        what = f": {named(tuple(self._values))}" if self._values else ""
        return f"aggregate by {named(self.by)}{what}"

    def computed(self, df: DataFrame) -> DataFrame:
        if not self._values:
            return df.select(*map(column, self.by)).distinct()
        return df.groupBy(*map(column, self.by)).agg(*(F.expr(sql).alias(name) for name, sql in self._values.items()))
