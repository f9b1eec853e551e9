"""Window functions: the partitions that a change touches are recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from headwater.core.quotes import backticked
from headwater.incremental.keylocal import KeyLocal
from headwater.incremental.operator import Operator, named
from headwater.spark.frames import column

_BY_ROW = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile)
"""Functions that ask which row comes first, whatever their frame."""


class Window(KeyLocal):
    """The rows of the input, each with values over its partition."""

    def __init__(self, input: Operator, partition: Sequence[str], values: Mapping[str, str]) -> None:
        """`partition` are columns of the input; `values` SQL for each window function, with its OVER."""
        self.inputs = (input,)
        self.by = tuple(partition)
        self._values = {name: steady(sql, input.columns) for name, sql in values.items()}
        self.columns = (*input.columns, *values)

    @property
    def title(self) -> str:
        over = f"partitions by {named(self.by)}" if self.by else "one partition"
        return f"window over {over}: {named(tuple(self._values))}"

    def computed(self, df: DataFrame) -> DataFrame:
        values = (F.expr(sql).alias(name) for name, sql in self._values.items())
        return df.select(*map(column, self.inputs[0].columns), *values)


def steady(sql: str, columns: Sequence[str]) -> str:
    """The same window function, in which rows that its ORDER BY leaves tied have an order of their own: computed again
    of the same rows it gives the same. Where peers count as one, ties stay ties."""
    call = sqlglot.parse_one(sql, dialect="spark")
    changed = False
    for window in call.find_all(exp.Window):
        order, frame = window.args.get("order"), window.args.get("spec")
        asked = window.this.this if isinstance(window.this, (exp.IgnoreNulls, exp.RespectNulls)) else window.this
        by_row = isinstance(asked, _BY_ROW) or (frame is not None and frame.args.get("kind") == "ROWS")
        if order is not None and by_row:
            row = ", ".join(map(backticked, columns))
            order.append("expressions", sqlglot.parse_one(f"to_json(struct({row}))", dialect="spark"))
            changed = True
    return call.sql(dialect="spark") if changed else sql
