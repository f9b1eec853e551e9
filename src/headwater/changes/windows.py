"""Window functions: the partitions that a change touches are computed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.changes.keylocal import KeyLocal
from headwater.changes.operator import Operator, named
from headwater.formats.frames import column


class Window(KeyLocal):
    """The rows of the input, each with values over its partition."""

    def __init__(self, input: Operator, partition: Sequence[str], values: Mapping[str, str]) -> None:
        """`partition` are columns of the input; `values` SQL for each window function, with its OVER."""
        self.inputs = (input,)
        self.by = tuple(partition)
        self._values = dict(values)
        self.columns = (*input.columns, *values)

    @property
    def title(self) -> str:
        over = f"partitions by {named(self.by)}" if self.by else "one partition"
        return f"window over {over}: {named(tuple(self._values))}"

    def computed(self, df: DataFrame) -> DataFrame:
        values = (F.expr(sql).alias(name) for name, sql in self._values.items())
        return df.select(*map(column, self.inputs[0].columns), *values)
