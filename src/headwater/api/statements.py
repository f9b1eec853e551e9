"""Statements of Headwater's SQL, executed: queries by the engines, the rest by what looks after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import exp

from headwater.core.errors import Code, HeadwaterError, ProjectError, TerminalError, UsageError, did_you_mean
from headwater.core.model import Kind
from headwater.core.spec import Export, Table, View
from headwater.operations import tags
from headwater.operations.diff import require_one_state
from headwater.operations.exports.definitions import checked, explained
from headwater.operations.listings import HISTORY, shown
from headwater.query.engines import Engine, answer
from headwater.query.limits import Limits, QueryStop
from headwater.query.records import result_of
from headwater.query.result import Result
from headwater.query.settings import SqlSettings
from headwater.query.system.folders import hide_folders
from headwater.query.system.registry import system_table
from headwater.query.system.table import SystemTable
from headwater.spark.errors import piece_of
from headwater.sql.blame import asked_moment, blame, fragment, place_of
from headwater.sql.bounds import too_deep
from headwater.sql.dialect import Headwater
from headwater.sql.moments import moment_of
from headwater.sql.names import Moment, Reference, resolve
from headwater.sql.parse import parse_statement
from headwater.sql.places import InvalidSql, Span, pointed, span_of
from headwater.sql.references import referring
from headwater.sql.rewrite import with_limit, with_versions
from headwater.sql.safety import require_read_only, require_short
from headwater.sql.schemas import without_schema
from headwater.sql.statements import (
    CreateView,
    Describe,
    DropView,
    Explain,
    ExplainView,
    ExportStatement,
    Insert,
    RefreshView,
    Select,
    SetOption,
    Show,
    Statement,
)
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

T = TypeVar("T")


def execute(
    warehouse: Warehouse,
    sql: str,
    settings: SqlSettings | None = None,
    *,
    engine: Engine | None = None,
    limit: int | None = None,
    limits: Limits | None = None,
    stopping: QueryStop | None = None,
    read_only: bool = False,
    may_refresh: bool = False,
) -> Result:
    """Execute one statement: a query's first `limit` rows; `read_only` refuses all but questions about the lake, and
    refreshes no view for them unless it `may_refresh`."""
    limits = (limits or Limits()).or_else(warehouse.project.settings.queries)
    stopping = stopping or QueryStop()
    stopping.at_most(limits.seconds)
    asking = Asking(engine, limit, limits, stopping, read_only, may_refresh or not read_only)
    try:
        return _executed(warehouse, sql, settings or SqlSettings(), asking)
    except RecursionError:
        raise too_deep() from None
    except HeadwaterError as error:
        if read_only:
            hide_folders(warehouse, error)
        raise


def _executed(warehouse: Warehouse, sql: str, settings: SqlSettings, asking: Asking) -> Result:
    if asking.read_only:
        require_short(sql)
    plain = without_schema(sql, warehouse.project.name)
    statement = _parsed(plain) if len(sql) <= _SHORT else parse_statement(plain)
    if not isinstance(statement, (Select, Explain, ExplainView, Show, Describe, SetOption)):
        warehouse.project.require_whole()
    warehouse.require_lake()
    if asking.read_only:
        require_read_only(statement, sql)
    return _Execution(warehouse, sql, settings, asking).run(statement)


_SHORT = 10_000
"""Characters of a statement that is worth keeping."""


@lru_cache(maxsize=256)
def _parsed(sql: str) -> Statement:
    """A text that was parsed before. Whoever changes what it means works on a copy."""
    return parse_statement(sql)


@dataclass(frozen=True)
class Asking:
    """How a query is to be answered."""

    engine: Engine | None = None
    limit: int | None = None
    """Its first rows."""
    limits: Limits | None = None
    stopping: QueryStop | None = None
    read_only: bool = False
    may_refresh: bool = True
    """Whether a view of mode `on_query` that is too old is brought up to date first."""


class _Execution:
    """One statement, with the text that errors point into."""

    def __init__(self, warehouse: Warehouse, text: str, settings: SqlSettings, asking: Asking) -> None:
        self._warehouse = warehouse
        self._text = text
        self._settings = settings
        self._asking = asking
        self._engine: Engine = asking.engine or settings.engine
        self._known = {kind: warehouse.names(kind) for kind in Kind}

    def run(self, statement: Statement) -> Result:
        if isinstance(statement, Select):
            return self._select(statement)
        if isinstance(statement, Explain):
            return self._explain(statement)
        if isinstance(statement, Show):
            return shown(self._warehouse, statement, self._known, read_only=self._asking.read_only)
        if isinstance(statement, Describe):
            return self._describe(statement)
        if isinstance(statement, SetOption):
            return self._set(statement)
        if isinstance(statement, Insert):
            return self._insert(statement)
        if isinstance(statement, ExportStatement):
            return self._export(statement)
        return self._view(statement)

    # --- queries

    def _select(self, select: Select, engine: Engine | None = None, *, here: bool = False) -> Result:
        sql = self._prepared(select)
        return self._blaming(
            select.query,
            lambda: answer(
                self._warehouse,
                sql,
                engine=engine or self._engine,
                limits=self._asking.limits,
                stopping=self._asking.stopping,
                read_only=self._asking.read_only,
                here=here,
            ),
        )

    def _explain(self, statement: Explain) -> Result:
        from headwater.query.explain import explain

        what = statement.what
        if isinstance(what, ExportStatement):
            return result_of(explained(self._warehouse, self._check_export(what)), ["property", "value"])
        if isinstance(what, CreateView):
            from headwater.operations.views import explain_query

            self._require_own_spark()
            sql = self._prepared(what.select, read=False, kept=True)
            read_only = self._asking.read_only
            explained_query = self._blaming(
                what.select.query, lambda: explain_query(self._warehouse, sql, read_only=read_only)
            )
            return _lines(explained_query.lines())
        sql = self._prepared(what, read=statement.analyze)
        explanation = self._blaming(
            what.query,
            lambda: explain(
                self._warehouse,
                sql,
                engine=self._engine,
                analyze=statement.analyze,
                limits=self._asking.limits,
                stopping=self._asking.stopping,
                read_only=self._asking.read_only,
            ),
        )
        return _lines(explanation.lines())

    def _require_own_spark(self) -> None:
        """Spark computes some values while it analyses a query. Those of others are not analysed in a runner's Spark,
        which one of them could end."""
        from headwater.query.spark import isolation

        if self._asking.read_only and isolation.process() is not None:
            raise UsageError(
                Code.NOT_ALLOWED,
                "how a query would be kept as a view is worked out in the Spark of the runner that is up, where no"
                " read-only statement is",
            )

    def _prepared(self, select: Select, *, read: bool = True, kept: bool = False) -> str:
        """The query's text with its names checked, versions for the labels in it, and no more rows than wanted. Where
        its rows will be read, views that are too old are refreshed first. `kept`: a view keeps its result."""
        query, labels = select.query, False
        for table, reference in self._referring(query):
            if reference.system and not kept:
                self._require_system(reference, table)
                continue
            kind, moment = self._resolved(reference), self._moment(reference, table)
            ends = () if reference.changes is None else (reference.changes.start, reference.changes.end)
            if read and kind is Kind.VIEW and moment is None and not ends:
                self._freshen(reference)
            labels |= any(isinstance(one, str) for one in (moment, *ends))
            if reference.latest:
                require_one_state(self._warehouse, kind, reference, self._text)
        if labels:
            query = with_versions(query, self._version)
        if self._asking.limit is not None:
            query = with_limit(query, self._asking.limit)
        return select.sql if query is select.query else query.sql(dialect=Headwater)

    def _require_system(self, reference: Reference, table: exp.Table) -> None:
        """A system table is read as it is now."""
        self._system(reference)
        if table.args.get("version") is not None:
            error = UsageError(Code.NO_SUCH_VERSION, f"{reference} has no versions; it can only be read as it is now")
            raise pointed(error, self._text, span_of(table.args["version"]) or reference.span)

    def _system(self, reference: Reference) -> SystemTable:
        try:
            return system_table(reference.name)
        except UsageError as error:
            raise pointed(error, self._text, reference.span) from None

    def _referring(self, query: exp.Query) -> list[tuple[exp.Table, Reference]]:
        try:
            return list(referring(query))
        except InvalidSql as error:
            raise pointed(error, self._text, error.span) from None

    def _moment(self, reference: Reference, table: exp.Table) -> Moment | None:
        try:
            return moment_of(table)
        except UsageError as error:
            raise pointed(error, self._text, span_of(table.args["version"]) or reference.span) from None

    def _freshen(self, reference: Reference) -> None:
        """One of mode `on_query` that is too old is brought up to date before it is read."""
        definition = self._warehouse.definition(Kind.VIEW, reference.name)
        if isinstance(definition, View) and definition.refresh.mode == "on_query":
            from headwater.operations.views import freshen

            try:
                freshen(self._warehouse, reference.name, self._settings.stale, may_refresh=self._asking.may_refresh)
            except ProjectError:
                raise  # it knows its places
            except UsageError as error:
                raise pointed(error, self._text, reference.span) from None

    def _version(self, reference: Reference, label: str) -> int:
        try:
            return tags.version_of(self._warehouse, self._resolved(reference), reference.name, label)
        except UsageError as error:
            raise pointed(error, self._text, reference.span) from None

    def _blaming(self, query: exp.Query, ask: Callable[[], T]) -> T:
        """What an engine finds wrong with a query, at its place in the user's text."""
        try:
            return ask()
        except TerminalError as error:
            if error.problem.code is not Code.NO_SUCH_VERSION:
                raise
            refused = UsageError(error.problem.code, error.problem.message, hint=error.problem.hint)
            raise pointed(refused, self._text, asked_moment(query)) from error.__cause__
        except UsageError as error:
            cause: Any = error.__cause__
            error_class = cause.getErrorClass() if hasattr(cause, "getErrorClass") else None
            if error_class:
                blamed = blame(error_class, cause.getMessageParameters() or {}, self._text, query)
                raise blamed or pointed(error, self._text, _context(cause, self._text)) from cause
            raise pointed(error, self._text, _named_in(error, query)) from error.__cause__

    # --- what is there

    def _describe(self, statement: Describe) -> Result:
        if statement.what.system and not statement.history:
            columns = self._system(statement.what).columns
            return result_of([{"column": name, "type": type} for name, type in columns.items()], ["column", "type"])
        from headwater.spark.arrow_types import spark_schema_of

        kind, name = self._resolved(statement.what), statement.what.name
        if statement.history:
            commits = self._warehouse.lookup(kind, name).history()
            return result_of([commit.to_dict() for commit in commits], HISTORY)
        # An engine's own word for it: DuckDB's comes without a JVM.
        query = exp.select("*").from_(exp.to_table(f"{kind.plural}.{name}")).limit(0)
        result = answer(self._warehouse, query.sql(dialect="spark"), engine=self._engine, here=True)
        rows = [{"column": f.name, "type": f.dataType.simpleString()} for f in spark_schema_of(result.schema)]
        return result_of(rows, ["column", "type"])

    def _set(self, statement: SetOption) -> Result:
        try:
            if statement.name is not None and statement.value is not None:
                self._settings.set(statement.name, statement.value)
            return result_of(self._settings.shown(statement.name), ["name", "value"])
        except UsageError as error:
            raise pointed(error, self._text, statement.span) from None

    # --- what changes something

    def _insert(self, statement: Insert) -> Result:
        from headwater.operations.load import insert, reference
        from headwater.tables.reference import fitted

        name = statement.table.name
        if self._resolved(statement.table) is not Kind.TABLE:
            error = UsageError(Code.USAGE, f"rows are inserted into tables, and {statement.table} is none")
            raise pointed(error, self._text, statement.table.span)
        reference(self._warehouse, name)
        rows = self._select(statement.select, "spark", here=True).df()
        known = self._columns(name)
        columns = statement.columns or tuple(known.names if known is not None else rows.columns)
        unknown = [one for one in columns if known is not None and one not in known.names]
        if unknown:
            assert known is not None
            message = f"table '{name}' has no column '{unknown[0]}'"
            error = UsageError(Code.SCHEMA_MISMATCH, message, hint=did_you_mean(unknown[0], known.names))
            raise pointed(error, self._text, statement.table.span)
        twice = next((one for at, one in enumerate(columns) if one in columns[:at]), None)
        if twice is not None:
            error = UsageError(Code.SCHEMA_MISMATCH, f"the column '{twice}' is named twice")
            raise pointed(error, self._text, statement.table.span)
        if len(columns) != len(rows.columns):
            error = UsageError(
                Code.SCHEMA_MISMATCH,
                f"{len(rows.columns)} values for the {len(columns)} columns {', '.join(columns)}",
                hint="name the columns: INSERT INTO x (a, b) …",
            )
            raise pointed(error, self._text, statement.table.span)
        rows = rows.toDF(*columns)
        if known is not None:
            try:
                rows = fitted(rows, known, f"tables.{name}")
            except UsageError as error:
                raise pointed(error, self._text, statement.table.span) from None
        return _one(insert(self._warehouse, name, rows).to_dict())

    def _columns(self, name: str) -> StructType | None:
        """The columns of a table, also of one that is declared and not made yet."""
        table = self._warehouse.table(Kind.TABLE, name)
        if table.exists():
            return table.schema()
        definition = self._warehouse.definition(Kind.TABLE, name)
        declared = definition.schema_ if isinstance(definition, Table) else None
        from headwater.schema.types import parse_ddl

        return parse_ddl(self._warehouse.spark, declared)

    def _export(self, statement: ExportStatement) -> Result:
        from headwater.operations.exports.jobs import begin_stream, run_export

        definition = self._check_export(statement)
        if definition.mode == "streaming":
            return _one({"flow": begin_stream(self._warehouse, definition), "state": "new"})
        done = run_export(self._warehouse, definition).to_dict()
        done["readers"] = [one["reader"] for one in done["readers"]]  # type: ignore[attr-defined]
        return _one(done)

    def _check_export(self, statement: ExportStatement) -> Export:
        kind = self._resolved(statement.what)
        columns = self._warehouse.columns(kind, statement.what.name)
        return checked(self._warehouse, statement, self._text, columns)

    def _view(self, statement: CreateView | RefreshView | DropView | ExplainView) -> Result:
        from headwater.operations import views

        if isinstance(statement, CreateView):
            return self._create_view(statement)
        name = statement.view.name
        if not isinstance(statement, DropView):
            self._resolved(statement.view)
        if isinstance(statement, RefreshView):
            return _one(views.refresh_view(self._warehouse, name, "full" if statement.full else None).to_dict())
        if isinstance(statement, ExplainView):
            return _lines(views.explain_view(self._warehouse, name).lines())
        if not statement.if_exists:
            self._resolved(statement.view)
        return _one(views.drop_view(self._warehouse, name, if_exists=statement.if_exists).to_dict())

    def _create_view(self, statement: CreateView) -> Result:
        from headwater.operations import views

        if statement.if_not_exists and statement.name in self._known[Kind.VIEW]:
            return _one({"view": statement.name, "refresh_type": "none", "reason": "it exists already"})
        sql = self._prepared(statement.select, kept=True)
        made = self._blaming(
            statement.select.query,
            lambda: views.create_view(
                self._warehouse,
                statement.name,
                sql,
                statement.refresh,
                replace=statement.replace,
                format=statement.format,
                partition_by=statement.partition_by,
            ),
        )
        return _one(made.to_dict())

    def _resolved(self, reference: Reference) -> Kind:
        try:
            return resolve(reference, self._known)
        except UsageError as error:
            raise pointed(error, self._text, reference.span) from None


def _one(row: Mapping[str, object]) -> Result:
    return result_of([row], list(row))


def _lines(lines: Sequence[str]) -> Result:
    return result_of([{"plan": line} for line in lines], ["plan"])


def _named_in(error: UsageError, query: exp.Query) -> Span | None:
    """The column that an engine says is not there."""
    name = re.search(r"'([^']*)'", error.problem.message) if error.code is Code.UNKNOWN_COLUMN else None
    return None if name is None else place_of(name[1].split("."), query)


def _context(cause: Any, text: str) -> Span | None:
    """The piece of the query that Spark's analysis is about, as far as it stands in the user's text."""
    piece = piece_of(cause)
    return None if piece is None else fragment(piece, text)
