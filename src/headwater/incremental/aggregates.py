"""GROUP BY and DISTINCT: the groups that a change touches are recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.incremental.keylocal import KeyLocal
from headwater.incremental.operator import Operator, named
from headwater.spark.frames import column


class Aggregate(KeyLocal):
    """One row a group; without group columns, one row."""

    def __init__(self, input: Operator, groups: Sequence[str], values: Mapping[str, str]) -> None:
        """`groups` are columns of the input; `values` SQL for each aggregate."""
        self.inputs = (input,)
        self.by = tuple(groups)
        self.values = dict(values)
        self.columns = (*self.by, *values)

    @property
    def title(self) -> str:
        if not self.by:
            return f"aggregate everything: {named(tuple(self.values))}"
        what = f": {named(tuple(self.values))}" if self.values else ""
        return f"aggregate by {named(self.by)}{what}"

    def computed(self, df: DataFrame) -> DataFrame:
        if not self.values:
            return df.select(*map(column, self.by)).distinct()
        return df.groupBy(*map(column, self.by)).agg(*(F.expr(sql).alias(name) for name, sql in self.values.items()))


class Sessions(KeyLocal):
    """Groups with sessions among them: how the rows of a group fall into sessions, they decide together."""

    def __init__(
        self, input: Operator, groups: Sequence[str], name: str, session: str, values: Mapping[str, str]
    ) -> None:
        """`session`: SQL, `session_window(…)`, for the column of that name."""
        self.inputs = (input,)
        self.by = tuple(groups)
        self._name = name
        self._session = session
        self._values = dict(values)
        self.columns = (*self.by, name, *values)

    @property
    def title(self) -> str:
        return f"sessions by {named(self.by)}" if self.by else "sessions of everything"

    def computed(self, df: DataFrame) -> DataFrame:
        values = [F.expr(sql).alias(name) for name, sql in self._values.items()] or [F.count(F.lit(1))]
        grouped = df.groupBy(*map(column, self.by), F.expr(self._session).alias(self._name)).agg(*values)
        # Spark would merge sessions again wherever its own column of them is grouped by: a plain struct replaces it.
        ends = (column(self._name)[end].alias(end) for end in ("start", "end"))
        plain = {self._name: F.struct(*ends).alias(self._name)}
        return grouped.select(*(plain.get(name, column(name)) for name in self.columns))
