"""Types, as the engine has them: of a value over an operator, and of two values that are compared or put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    DataType,
    NullType,
    StructType,
    _parse_datatype_json_string,
)
from sqlglot import exp

from headwater.core.quotes import spark_text
from headwater.incremental.operator import Moment, Operator
from headwater.incremental.run import Run, as_they_are
from headwater.incremental.translation.expressions import plain, reference, sql
from headwater.incremental.translation.refusal import NotIncremental
from headwater.spark.frames import column
from headwater.spark.internals import analyzed_plan, java_type


class Types:
    """Asks the session; what it has said it is not asked again."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._run = Run(as_they_are(spark))
        self._frames: dict[int, tuple[Operator, DataFrame, StructType]] = {}
        self._compared: dict[tuple[str, str, str], DataType] = {}

    def of(self, operator: Operator, value: exp.Expr) -> DataType:
        """The type of a resolved value over an operator's columns."""
        frame, schema = self._shown(operator)
        name = plain(value)
        return schema[name].dataType if name is not None else _first(frame.select(F.expr(sql(value))).schema)

    def equal(self, one: DataType, other: DataType) -> DataType:
        """The type as which two values are compared by `=`."""
        return self._common("{} = {}", one, other)

    def among(self, one: DataType, other: DataType) -> DataType:
        """The type as which a value is looked for among those of a query: not always that of `=`."""
        return self._common("{} IN (SELECT {})", one, other)

    def together(self, sides: Sequence[Operator]) -> tuple[list[list[DataType]], list[DataType]]:
        """The columns' types on each side of a set operation, and those of its result."""
        frames = [self._shown(one)[0].select(*map(column, one.columns)) for one in sides]
        types = [[field.dataType for field in frame.schema.fields] for frame in frames]
        if all(one == types[0] for one in types):
            return types, types[0]
        return types, [field.dataType for field in reduce(DataFrame.union, frames).schema.fields]

    def cast(self, value: exp.Expr, to: DataType) -> exp.Expr:
        parsed: exp.Expr = exp.maybe_parse(f"CAST({sql(value)} AS {self.text(to)})", dialect="spark")
        return parsed

    def text(self, data_type: DataType) -> str:
        """A type as SQL has it."""
        return str(java_type(self._spark, data_type).sql())

    def literal_of_nothing(self, operator: Operator, name: str) -> str | None:
        """The one value that an operator over no rows has, as SQL; None for NULL."""
        frame, schema = self._shown(operator)
        found, data_type = frame.select(column(name)).collect(), schema[name].dataType
        value = found[0][0] if found else None
        if value is None:
            return None
        if isinstance(data_type, ArrayType) and not value:
            return "ARRAY()"  # takes the type of what it stands next to
        if not isinstance(data_type, AtomicType) or isinstance(data_type, BinaryType):
            raise NotIncremental("a linked subquery whose value over nothing can't be written down")
        text = frame.select(column(name).cast("string")).collect()[0][0]
        return f"CAST({spark_text(str(text))} AS {self.text(data_type)})"

    def _shown(self, operator: Operator) -> tuple[DataFrame, StructType]:
        if id(operator) not in self._frames:
            frame = operator.rows(Moment.NEW, self._run)
            self._frames[id(operator)] = (operator, frame, frame.schema)
        return self._frames[id(operator)][1:]

    def _common(self, pattern: str, one: DataType, other: DataType) -> DataType:
        if one == other or isinstance(one, NullType) or isinstance(other, NullType):
            return other if isinstance(one, NullType) else one
        known = (pattern, one.json(), other.json())
        if known not in self._compared:
            sides = (f"CAST(NULL AS {self.text(data_type)})" for data_type in (one, other))
            asked = self._spark.sql(f"SELECT 1 WHERE {pattern.format(*sides)}")
            analyzed: Any = analyzed_plan(asked)
            condition: Any = analyzed.child().condition()
            left: Any = condition.values().head() if "IN (" in pattern else condition.left()
            self._compared[known] = _parse_datatype_json_string(left.dataType().json())
        return self._compared[known]


def with_casts(operator: Operator, types: Types, have: Sequence[DataType], want: Sequence[DataType]) -> dict[str, str]:
    """SQL for each column of an operator, in another type where it is to have one."""
    found = {}
    for name, one, other in zip(operator.columns, have, want, strict=True):
        value: exp.Expr = reference(name)
        found[name] = sql(value if one == other else types.cast(value, other))
    return found


def _first(schema: StructType) -> DataType:
    return schema.fields[0].dataType
