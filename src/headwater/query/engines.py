"""One query, one answer: by DuckDB inside the process where that is exact, else by Spark."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import At
from headwater.core.state.holds import VersionHolds
from headwater.query.limits import SMALL, Limits, QueryStop
from headwater.query.result import Answer, Result
from headwater.query.settings import ENGINES as ENGINES
from headwater.query.settings import Engine as Engine
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.core.model import Kind, Version
    from headwater.query.duckdb.eligibility import QueryPlan
    from headwater.query.duckdb.scans import DuckScan
    from headwater.query.spark.answer import SparkAnswer

Pinned = Mapping[tuple["Kind", str, "At | None"], "Version | None"]
"""Versions that relations are read at, whatever has been committed since."""


def answer(
    warehouse: Warehouse,
    sql: str,
    *,
    engine: Engine = "auto",
    limits: Limits | None = None,
    stopping: QueryStop | None = None,
    read_only: bool = False,
    here: bool = False,
) -> Result:
    """Answer one SELECT. Every relation is read at one version from start to end.

    With `stopping` the query can be stopped before its result is there. A `read_only` query comes from others: it
    passed `sql.safety`, and Spark's own reading of it is checked as well. Where queries have a Spark of their own,
    `here` takes the flows' all the same.
    """
    if engine not in ENGINES:
        raise UsageError(Code.USAGE, f"there is no engine '{engine}'", hint="auto, duckdb or spark")
    limits = limits or Limits()
    stopping = stopping or QueryStop(limits.seconds)
    return _Asked(warehouse, sql, engine, limits, stopping, read_only, here).result()


class _Asked:
    """A query on its way to an engine."""

    def __init__(
        self,
        warehouse: Warehouse,
        sql: str,
        engine: Engine,
        limits: Limits,
        stopping: QueryStop,
        read_only: bool,
        here: bool,
    ) -> None:
        self._warehouse, self._sql, self._engine = warehouse, sql, engine
        self._limits, self._stopping = limits, stopping
        self._read_only, self._here = read_only, here
        self._bounded = bounded(sql, limits.rows)
        self._plan: QueryPlan | None = None
        self._scans: list[DuckScan] = []
        self._holds: VersionHolds | None = None

    def result(self) -> Result:
        try:
            found = self._answered()
        except BaseException:
            self._release()
            raise
        result = Result(
            found,
            self._answered,
            limits=self._limits,
            stopping=self._stopping,
            df=self._df,
            read=self._release,
        )
        weakref.finalize(result, self._release)  # one that nobody reads to its end
        return result

    def _hold(self, versions: Mapping[str, Version | None]) -> None:
        """Nobody may expire what is read here, until all of it has been read."""
        if self._holds is None:
            self._holds = VersionHolds(self._warehouse.state, "a query", self._limits.seconds)
        self._holds.hold(versions)

    def _release(self) -> None:
        holds, self._holds = self._holds, None
        if holds is not None:
            holds.release()

    def _answered(self) -> Answer:
        from headwater.query.duckdb.translation.terms import Refused

        if self._engine == "spark":
            try:
                self._look()
            except HeadwaterError:
                pass  # Spark is asked whatever the other engine thinks of the query
            return self._by_spark("it was asked for")
        try:
            return self._by_duckdb()
        except Refused as refused:
            if self._engine == "duckdb":
                raise
            return self._by_spark(refused.reason)

    def _look(self) -> QueryPlan:
        """The query as DuckDB would answer it; what is found out on the way is kept."""
        from headwater.query.duckdb.eligibility import plan_query
        from headwater.query.duckdb.translation.terms import Refused

        if self._plan is None:
            try:
                self._plan = plan_query(self._warehouse, self._bounded)
                self._scans = [one.scan for one in self._plan.scans]
            except Refused as refused:
                self._scans = refused.scans
                raise
        return self._plan

    def _by_duckdb(self) -> Answer:
        from headwater.query.duckdb.connections import DuckDBAnswer, TurnToSpark
        from headwater.query.duckdb.translation.terms import Refused

        self._look()
        assert self._plan is not None
        self._hold(self._plan.versions)
        try:
            return DuckDBAnswer(self._plan, self._limits, self._stopping)
        except TurnToSpark as turned:
            raise Refused(f"DuckDB could not finish it: {turned.reason}") from turned

    def _by_spark(self, reason: str) -> Answer:
        from headwater.query.spark import isolation
        from headwater.query.spark.messages import Ask

        process = None if self._here else isolation.process()
        if process is not None:
            ask = Ask(
                self._bounded,
                reason,
                dict(self._pinned),
                self._limits.rows,
                self._limits.bytes,
                self._read_only,
            )
            return process.answer(ask, self._stopping)
        return self._on_spark(self._bounded, reason, self._limits.rows)

    def _df(self) -> DataFrame:
        return self._on_spark(self._sql, "").df

    def _on_spark(self, sql: str, reason: str, rows: int | None = None) -> SparkAnswer:
        from headwater.query.spark.answer import SparkAnswer

        answer = SparkAnswer(
            self._warehouse,
            sql,
            reason,
            self._stopping,
            self._pinned,
            self._scans,
            rows,
            read_only=self._read_only,
        )
        self._hold(answer.versions)
        return answer

    @property
    def _pinned(self) -> Pinned:
        """What DuckDB has seen, Spark sees too."""
        return {} if self._plan is None else {key: found.version for key, found in self._plan.readings.items()}


def bounded(sql: str, rows: int | None) -> str:
    """The query with a limit of one row more than its result may have, where that is few: it tells that there are
    more, and nobody looks for the rest."""
    if rows is None or rows > SMALL:
        return sql
    from headwater.sql.dialect import Headwater
    from headwater.sql.references import parse_query
    from headwater.sql.rewrite import with_limit

    return with_limit(parse_query(sql), rows + 1).sql(dialect=Headwater)
