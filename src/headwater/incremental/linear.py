"""What a change flows through: scans, filters, projections, UNION ALL, generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from headwater.core.model import WEIGHT
from headwater.core.quotes import backticked
from headwater.incremental.keys import KeySet, having, narrowed
from headwater.incremental.operator import Moment, Operator, Strategy, named, shown
from headwater.incremental.run import Run
from headwater.spark.arrow_bridge import selected
from headwater.spark.frames import column


class Linear(Operator):
    """Its change is its own work on the change of its input."""

    @property
    def strategy(self) -> Strategy:
        return Strategy.LINEAR


class Scan(Linear):
    """A source, its columns under the query's names for them."""

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        """`names`: the query's name of each column → the source's own."""
        self.source = source
        self._names = dict(names)
        self.columns = tuple(names)

    @property
    def title(self) -> str:
        return f"scan {self.source}"

    def sources(self) -> list[str]:
        return [self.source]

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        key_filter = None if keys is None else keys.key_filter(self._names)
        found = None if key_filter is None else run.sources.key_filter(self.source, at, key_filter)
        if keys is None or found is None:
            df = self._renamed(run.sources.rows(self.source, at))
            return df if keys is None else narrowed(df, keys)
        df = self._renamed(found)
        return df if len(keys.columns) == 1 else having(df, keys)

    def change(self, run: Run) -> DataFrame | None:
        found = run.sources.change(self.source)
        return None if found is None else self._renamed(found, WEIGHT)

    def _renamed(self, df: DataFrame, *more: str) -> DataFrame:
        return selected(df, {**self._names, **{name: name for name in more}})


class Filter(Linear):
    """The rows for which a condition holds."""

    def __init__(self, input: Operator, condition: str, told: str) -> None:
        self.inputs = (input,)
        self.columns = input.columns
        self.condition = condition
        self._described = told

    @property
    def title(self) -> str:
        return f"filter {self._described}"

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        return self.inputs[0].rows(at, run, keys).where(F.expr(self.condition))

    def change(self, run: Run) -> DataFrame | None:
        found = run.change(self.inputs[0])
        return None if found is None else found.where(F.expr(self.condition))


class Projection(Linear):
    """Columns computed of a row's columns."""

    def __init__(
        self,
        input: Operator,
        values: Mapping[str, str],
        plain: Mapping[str, str],
        widened: Mapping[str, tuple[str, DataType]] = MappingProxyType({}),
    ) -> None:
        """`values`: SQL for each column; `plain`: which of them are just a column of the input; `widened`: which are a
        whole number of it in a wider type, and the type that it has there."""
        self.inputs = (input,)
        self.columns = tuple(values)
        self.values = dict(values)
        self._plain = dict(plain)
        self._widened = dict(widened)

    @property
    def title(self) -> str:
        return f"project {named(self.columns)}"

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        below = None if keys is None else self._below(keys)
        df = self._projected(self.inputs[0].rows(at, run, below))
        if keys is not None and (below is None or len(below.columns) < len(keys.columns)):
            return narrowed(df, keys)
        return df

    def change(self, run: Run) -> DataFrame | None:
        found = run.change(self.inputs[0])
        return None if found is None else self._projected(found, WEIGHT)

    def _below(self, keys: KeySet) -> KeySet | None:
        """The keys as the input has them."""
        found = keys.under({**self._plain, **{name: inner for name, (inner, _) in self._widened.items()}})
        if found is None:
            return None
        asked = [self._widened[name] for name in keys.columns if name in self._widened]
        return found.fitting({inner: data_type for inner, data_type in asked if inner in found.columns})

    def _projected(self, df: DataFrame, *more: str) -> DataFrame:
        values = (F.expr(sql).alias(name) for name, sql in self.values.items())
        return df.select(*values, *map(column, more))


class UnionAll(Linear):
    """The rows of all inputs, by the order of their columns."""

    def __init__(self, inputs: Sequence[Operator], columns: Sequence[str]) -> None:
        self.inputs = tuple(inputs)
        self.columns = tuple(columns)

    @property
    def title(self) -> str:
        return "union all"

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        parts = []
        for one in self.inputs:
            below = None if keys is None else keys.under(dict(zip(self.columns, one.columns, strict=True)))
            parts.append(one.rows(at, run, below).select(*map(column, one.columns)))
        return reduce(DataFrame.union, parts).toDF(*self.columns)

    def change(self, run: Run) -> DataFrame | None:
        parts = []
        for one in self.inputs:
            found = run.change(one)
            if found is not None:
                parts.append(found.select(*map(column, one.columns), column(WEIGHT)))
        return reduce(DataFrame.union, parts).toDF(*self.columns, WEIGHT) if parts else None


class Generate(Linear):
    """Several rows of one: `LATERAL VIEW explode(…)`."""

    def __init__(self, input: Operator, generator: str, columns: Sequence[str], *, outer: bool) -> None:
        self.inputs = (input,)
        self.columns = (*input.columns, *columns)
        self._generator = generator
        self._made = tuple(columns)
        self._outer = outer

    @property
    def title(self) -> str:
        return f"generate {', '.join(map(shown, self._made))}"

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        inner = self.inputs[0]
        below = None if keys is None else keys.under({name: name for name in inner.columns})
        df = self._generated(inner.rows(at, run, below))
        return df if keys is None else narrowed(df, keys)

    def change(self, run: Run) -> DataFrame | None:
        found = run.change(self.inputs[0])
        return None if found is None else self._generated(found)

    def _generated(self, df: DataFrame) -> DataFrame:
        call = self._generator
        if self._outer:
            name, _, rest = call.partition("(")
            call = f"{name}_outer({rest}"
        made = ", ".join(map(backticked, self._made))
        return df.selectExpr("*", f"{call} AS ({made})")
