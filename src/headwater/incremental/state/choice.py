"""How the result of a query is kept."""

from __future__ import annotations

from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot.errors import SqlglotError

from headwater.incremental.operator import Moment
from headwater.incremental.query import Query
from headwater.incremental.run import Run, as_they_are
from headwater.incremental.state.bag import Bag
from headwater.incremental.state.base import StoredResult
from headwater.incremental.state.grouped import grouped_of


def kept(spark: SparkSession, query: Query) -> StoredResult:
    """As groups where an aggregate is at the top, else as plain rows."""
    grouped = grouped_of(query.operator, query.columns)
    if grouped is None:
        return Bag(query)
    # Where the engine can't tell the types of an aggregate's parts, its groups are recomputed.
    with suppress(PySparkException, SqlglotError):
        grouped.prepare(grouped.input.rows(Moment.NEW, Run(as_they_are(spark))))
    return grouped
