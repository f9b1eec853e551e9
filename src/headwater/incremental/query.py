"""A query as operators, checked against the engine that answers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.core.model import WEIGHT
from headwater.incremental.operator import Moment, Operator
from headwater.incremental.run import Run, as_they_are
from headwater.incremental.translation.query import Translation
from headwater.incremental.translation.refusal import NotIncremental
from headwater.incremental.translation.types import Types
from headwater.spark.frames import column
from headwater.spark.internals import analyzed_plan, java, java_session
from headwater.sql.dialect import Headwater
from headwater.sql.nondeterminism import non_deterministic
from headwater.sql.references import parse_query

FULL = "it is refreshed in full; written in another way it may be kept"


@dataclass(frozen=True)
class Query:
    """A query that is kept incrementally: its operators, and its columns by the names that people gave them."""

    operator: Operator
    columns: tuple[tuple[str, str], ...]
    """Name of the result's column → unique name in the plan."""

    def rows(self, at: Moment, run: Run) -> DataFrame:
        """The query's result."""
        return self._named(self.operator.rows(at, run))

    def change(self, run: Run) -> DataFrame | None:
        """The change of the query's result."""
        found = run.change(self.operator)
        return None if found is None else self._named(found, WEIGHT)

    def _named(self, df: DataFrame, *more: str) -> DataFrame:
        return df.select(*(column(unique).alias(name) for name, unique in self.columns), *map(column, more))


def incremental(spark: SparkSession, sql: str, sources: Sequence[str]) -> Query:
    """A query over temporary views of the session as operators; NotIncremental says why it can't be."""
    parsed = parse_query(sql)
    answered = spark.sql(parsed.sql(dialect=Headwater))
    analyzed: Any = analyzed_plan(answered)
    if not analyzed.deterministic():
        raise NotIncremental("the query is not deterministic", hint="leave out rand(), uuid() and the like")
    moment = next((one for one in non_deterministic(parsed) if one.clock), None)
    if moment is not None:
        raise NotIncremental("the query depends on the time of its refresh", moment.part)
    known = {name.lower(): _mentioned(parsed, spark.table(name).columns) for name in sources}

    def columns_of(name: str) -> Sequence[str]:
        if name.lower() not in known:
            raise NotIncremental(f"'{name}' is not one of the query's sources")
        return known[name.lower()]

    try:
        made = Translation(columns_of, _aggregate_functions(spark), Types(spark)).query(parsed)
        if len(made.columns) != len(answered.columns):
            raise NotIncremental("the columns of its result are not those that its text names")
        query = Query(made.operator, tuple(zip(answered.columns, (unique for _, unique in made.columns), strict=True)))
        _require_same_types(spark, query, answered)
    except (PySparkException, SqlglotError) as error:
        # The query itself is one that the engine answers: only in parts it is not.
        raise NotIncremental(f"the engine can't answer it part by part ({_said(error)})", hint=FULL) from error
    return query


def _said(error: Exception) -> str:
    """What an error says first."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _mentioned(query: exp.Expr, columns: Sequence[str]) -> Sequence[str]:
    """The columns that a query may mean: all where it says so, or where columns are found by their names alone."""
    stars = [one for one in query.find_all(exp.Star) if not isinstance(one.parent, exp.Count)]
    if stars or any(join.method for join in query.find_all(exp.Join)):
        return columns
    names = {one.name.lower() for one in query.find_all(exp.Identifier)}
    return [name for name in columns if name.lower() in names] or columns[:1]


def _require_same_types(spark: SparkSession, query: Query, answered: DataFrame) -> None:
    """The engine's own types for the query, and for what the operators make of it."""
    made = query.rows(Moment.NEW, Run(as_they_are(spark))).schema
    for mine, theirs in zip(made.fields, answered.schema.fields, strict=True):
        if mine.dataType != theirs.dataType:
            raise NotIncremental(
                f"column '{theirs.name}' would be {mine.dataType.simpleString()} "
                f"instead of {theirs.dataType.simpleString()}"
            )


def _aggregate_functions(spark: SparkSession) -> Callable[[str], bool]:
    """Whether a function is an aggregate, as the session's own registry has it."""
    jvm: Any = java(spark)
    registry: Any = java_session(spark).sessionState().functionRegistry()

    @cache
    def is_aggregate(name: str) -> bool:
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        found = registry.lookupFunction(identifier)
        return bool(found.isDefined() and found.get().getGroup() == "agg_funcs")

    return is_aggregate
