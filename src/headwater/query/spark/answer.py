"""Queries on Spark: the lake's relations are put in as views of a session that lives as long as the query."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame as SparkDataFrame
from sqlglot import exp

from headwater.core.errors import Code, HeadwaterError, TerminalError, Unsupported, UsageError
from headwater.core.model import At, Kind, Version
from headwater.query.broadcasts import small_parts
from headwater.query.gathered import Statistics
from headwater.query.limits import SMALL, QueryStop
from headwater.query.spark.outputs import ArrowOutput
from headwater.query.spark.safety import require_quiet, require_safe_text, with_windows_inside
from headwater.query.system.registry import system_table
from headwater.spark.errors import as_headwater_error, reason, without_plan
from headwater.spark.internals import analyzed_plan, arrow_batches, gateway_of, java, java_session
from headwater.spark.jvm import HINT, Ending, bury, has_ended
from headwater.spark.session import fork
from headwater.sql.bounds import too_deep
from headwater.sql.references import Reference, parse_query, resolve
from headwater.sql.rewrite import only_at, with_relations
from headwater.warehouse import Warehouse, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.query.duckdb.scans import DuckScan

DYING = 3.0
"""Seconds from the failure of a job for lack of memory to the end of its Java, where it ends."""
_FULL = re.compile(r"OutOfMemoryError|Java heap space|GC overhead|maxResultSize|Unable to acquire \d+ bytes of memory")

_NO_FIELDS = "each serializer expression should contain at least one `BoundReference`"

Pinned = Mapping[tuple[Kind, str, "At | None"], "Version | None"]


_SETTINGS = {
    # A name such as text.`/etc/passwd` is no table.
    "spark.sql.runSQLOnFiles": "false",
    # Spark would put settings and environment variables in for ${…}, after the text was checked.
    "spark.sql.variable.substitute": "false",
}
"""While a query is analysed. Before and after, our own readers and writers go by paths."""


class SparkAnswer:
    """A query on Spark: analysed at once, computed when its rows are asked for."""

    engine = "spark"

    def __init__(
        self,
        warehouse: Warehouse,
        sql: str,
        why: str,
        stopping: QueryStop,
        pinned: Pinned | None = None,
        scans: Sequence[DuckScan] = (),
        rows: int | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """`scans` is what is known of the query's relations; without it Spark goes by the text alone. More than one
        row beyond `rows` is found in no partition. `read_only` queries are looked through as Spark understands them
        before they are analysed."""
        self.reason = why
        self.small = small_parts(scans, Statistics(warehouse))
        """Relations that are sent to every worker."""
        self._stopping = stopping
        self._versions: dict[str, Version | None] = {}
        # One tag for all its jobs: the thread that serves the batches has that of the moment it was made at.
        self._tag = f"headwater-query-{uuid.uuid4().hex}"
        self._read_only = read_only
        self.df = self._analysed(warehouse, sql, pinned or {})
        if rows is not None and rows > SMALL:  # fewer are a LIMIT in the query
            self.df = _cut_off(self.df, rows + 1)

    @property
    def versions(self) -> dict[str, Version | None]:
        return self._versions

    @property
    def schema(self) -> pa.Schema:
        return self._output.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Partition by partition, in Arrow."""
        output = self._output
        with self.running():
            messages = arrow_batches(self.df).toLocalIterator(prefetchPartitions=False)
        while True:
            with self.running():
                message = next(messages, None)
            if message is None:
                return
            yield output.read(message)

    def rows(self) -> None:
        """Only by batches."""

    def close(self) -> None:
        """Nothing is held between batches."""

    @cached_property
    def _output(self) -> ArrowOutput:
        return ArrowOutput.of(self.df)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Jobs that are started inside can be stopped."""
        context: Any = self.df.sparkSession.sparkContext
        try:
            context.addJobTag(self._tag)
            context.setInterruptOnCancel(True)
            with self._stopping.stopping(lambda: context.cancelJobsWithTag(self._tag)):
                yield
        except (PySparkException, Py4JError) as error:
            raise failure(error, context) from error
        except (EOFError, OSError) as error:  # the line that the rows come by
            if not has_ended():
                raise
            raise failure(error, context) from error
        finally:
            with suppress(Py4JError, OSError):  # Spark has died
                context.removeJobTag(self._tag)

    def _analysed(self, warehouse: Warehouse, sql: str, pinned: Pinned) -> DataFrame:
        query = parse_query(sql)
        known = {kind: warehouse.names(kind) for kind in Kind}
        session = fork(warehouse.spark)
        views: set[str] = set()

        def place(reference: Reference, at: At | None) -> str:
            if reference.system:
                view = f"headwater_system_{reference.name}_{self._tag[-12:]}"
                if view not in views:
                    system_table(reference.name).frame(warehouse, session).createTempView(view)
                    views.add(view)
                return view
            kind = resolve(reference, known)
            # No name that a query can foresee: a CTE of the same name would stand before it.
            view = f"{_view_name(kind, reference, at)}_{self._tag[-12:]}"
            if view not in views:
                self._place(view, warehouse, kind, reference, session, at, pinned)
                views.add(view)
            return view

        try:
            text = with_relations(with_windows_inside(query) if self._read_only else query, place)
            with _set(session, _SETTINGS):
                if self._read_only:
                    require_safe_text(session, text, views | {cte.alias for cte in query.find_all(exp.CTE)})
                answered = session.sql(text)
            if self._read_only:
                require_quiet(answered)
            return answered
        except AnalysisException as error:
            raise UsageError(Code.INVALID_SQL, without_plan(reason(error))) from error
        except (PySparkException, Py4JError) as error:
            if _NO_FIELDS in reason(error):
                hint = "give it a field: struct(1 AS a)"
                raise Unsupported("a result can't hold a struct without fields", hint=hint) from None
            raise failure(error, session.sparkContext) from error

    def _place(
        self,
        view: str,
        warehouse: Warehouse,
        kind: Kind,
        reference: Reference,
        session: SparkSession,
        at: At | None,
        pinned: Pinned,
    ) -> None:
        if reference.changes is not None:
            start, end = (only_at(one) for one in (reference.changes.start, reference.changes.end))
            warehouse.changes(kind, reference.name, session, start, end).createTempView(view)
            return
        rows, version = _rows(warehouse, kind, reference.name, session, at, pinned)
        self._versions[f"{kind.plural}.{reference.name}"] = version
        if (kind, reference.name) in self.small:
            rows = rows.hint("broadcast")  # by what its conditions leave of it
        rows.createTempView(view)


@contextmanager
def _set(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a while."""
    before = {key: str(session.conf.get(key)) for key in settings}
    try:
        for key, value in settings.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            session.conf.set(key, value)


def failure(error: BaseException, context: Any) -> HeadwaterError:
    """What an error of a running query means; Spark itself may have died of it."""
    if isinstance(error, (PySparkException, Py4JError)) and "StackOverflowError" in reason(error):
        return too_deep()
    full = isinstance(error, (PySparkException, Py4JError)) and bool(_FULL.search(reason(error)))
    deadline = time.monotonic() + DYING
    while not (ended := has_ended()) and full and time.monotonic() < deadline:
        time.sleep(0.1)  # the job has failed already, and Java is about to end
    if not ended and not full:
        return as_headwater_error(error)
    ending = bury(gateway_of(context)) if ended else Ending("Spark does not have the memory for it", out_of_memory=True)
    if ending.out_of_memory or full:
        return TerminalError(
            Code.QUERY_TOO_LARGE,
            f"the query needs too much memory: {ending}",
            hint="ask for less at a time, or set more: spark.conf spark.driver.memory; with a runner queries.memory",
        )
    return TerminalError(Code.SPARK_FAILED, f"{ending} while the query ran", hint=HINT)


def _cut_off(df: DataFrame, rows: int) -> DataFrame:
    """So many rows of each partition at most. A LIMIT would bring all of them into one."""
    session: Any = df.sparkSession
    sql = java(session).org.apache.spark.sql
    most = sql.functions.lit(min(rows, 2**31 - 1)).expr()
    plan = sql.catalyst.plans.logical.LocalLimit(most, analyzed_plan(df))
    return SparkDataFrame(sql.Dataset.ofRows(java_session(session), plan), session)


def _rows(
    warehouse: Warehouse, kind: Kind, name: str, session: SparkSession, at: At | None, pinned: Pinned
) -> tuple[DataFrame, Version | None]:
    """A relation's rows as people see them, and the version that they are of."""
    table = warehouse.existing(kind, name, session)
    if (kind, name, at) in pinned:
        version = pinned[(kind, name, at)]
    else:
        version = table.version() if at is None else table.version_at(at)
    latest = at is None and version == table.version()
    stored = table.read() if latest or version is None else table.read(version)
    record = warehouse.record(kind, name)
    return (stored if record is None or record.shown is None else shown(stored, record.shown)), version


def _view_name(kind: Kind, reference: Reference, at: At | None) -> str:
    told = [str(one) for one in (at, reference.changes) if one is not None]
    when = "_" + hashlib.sha256(" ".join(told).encode()).hexdigest()[:12] if told else ""
    return f"headwater_{kind.value}_{reference.name}{when}"
