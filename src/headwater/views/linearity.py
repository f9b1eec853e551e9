"""Whether a function of frames looks at single rows, read from what Spark understands of its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.spark.internals import analyzed_plan

READ = "its inputs are read inside of the function"
"""What an action on a sample says: the words by which it is known again."""

_LINEAR = {
    "Project",
    "Filter",
    "Union",
    "Generate",
    "Expand",
    "SubqueryAlias",
    "ResolvedHint",
    "Repartition",
    "RepartitionByExpression",
    "RebalancePartitions",
    "Sort",
    "MapInPandas",
    "PythonMapInArrow",
}
"""Nodes whose result for some rows does not depend on other rows, or that only say where rows lie."""
_WORDS = {
    "Aggregate": "aggregates rows",
    "Join": "joins its inputs",
    "AsOfJoin": "joins its inputs",
    "Distinct": "leaves out rows that are there twice",
    "Deduplicate": "leaves out rows that are there twice",
    "Window": "looks at other rows by a window",
    "GlobalLimit": "takes some of the rows by a limit",
    "LocalLimit": "takes some of the rows by a limit",
    "Offset": "takes some of the rows by an offset",
    "Tail": "takes some of the rows by a limit",
    "Sample": "takes a sample of the rows",
    "Intersect": "compares its inputs with each other",
    "Except": "compares its inputs with each other",
    "FlatMapGroupsInPandas": "works on groups of rows",
    "FlatMapCoGroupsInPandas": "works on groups of rows",
}
_NOW = {"CurrentTimestamp", "CurrentDate", "LocalTimestamp", "Now", "CurrentTimestampLike"}


def sample(spark: SparkSession, name: str, schema: StructType) -> DataFrame:
    """A frame of these columns that can be described and not be read: whoever does is told READ."""
    rows = spark.range(1).where(F.raise_error(F.lit(READ)).isNull())
    return rows.select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields)).alias(_alias(name))


def not_linear(result: DataFrame, names: list[str]) -> str | None:
    """What a function does that needs more than single rows, in words and with Spark's name for it; None if nothing.

    `result` is what it makes of a `sample` for each of the names.
    """
    plan: Any = analyzed_plan(result)
    inputs = {_alias(name) for name in names}
    for node in _above(plan, inputs):
        kind = str(node.nodeName())
        if not _has_children(node):
            return f"reads something that is none of its parameters ({kind})"
        if kind not in _LINEAR:
            return f"{_WORDS.get(kind, 'does what is not known to look at single rows')} ({kind})"
        if node.subqueries().nonEmpty():
            return "asks a query inside of an expression (Subquery)"
        for expression in _items(node.expressions()):
            if not expression.deterministic():
                return f"gives something else each time ({expression.sql()})"
            moment = next((one for one in _inside(expression) if one.nodeName() in _NOW), None)
            if moment is not None:
                return f"depends on the time of its run ({moment.sql()})"
    return None


def _above(node: Any, inputs: set[str]) -> Iterator[Any]:
    """The nodes of a plan down to its inputs."""
    if node.nodeName() == "SubqueryAlias" and node.alias() in inputs:
        return
    yield node
    for child in _items(node.children()):
        yield from _above(child, inputs)


def _inside(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _items(expression.children()):
        yield from _inside(child)


def _has_children(node: Any) -> bool:
    return int(node.children().size()) > 0


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _alias(name: str) -> str:
    return f"hw_input_{name}"
