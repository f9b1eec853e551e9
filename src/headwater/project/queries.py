"""Queries of tables and views that could never be kept right, whatever the data is."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from headwater.core.errors import Code, Problem
from headwater.core.model import Kind
from headwater.core.spec import Table, View
from headwater.project.definition import ProjectDefinition
from headwater.project.graph import sql_line
from headwater.sql.nondeterminism import HINTS, non_deterministic
from headwater.sql.places import Span, excerpt, span_of, where_in
from headwater.sql.references import InvalidSql, parse_condition, parse_query

_AGAIN = "rebuilt, the table would have other rows"


def query_problems(project: ProjectDefinition) -> Iterator[Problem]:
    for kind in (Kind.TABLE, Kind.VIEW):
        for name, relation in project.relations(kind).items():
            assert isinstance(relation, (Table, View))
            if relation.sql is None:
                continue
            try:
                query = parse_query(relation.sql)
            except InvalidSql:
                continue  # told where the relations that it reads are looked for
            path, what = f"{kind.plural}.{name}.sql", f"{kind.value} '{name}'"
            yield from _unordered(project, path, what, relation.sql, query)
            if kind is Kind.TABLE:
                yield from _non_deterministic(project, path, what, relation.sql, query)
    for name, table in project.tables.items():
        if table.apply is not None and table.apply.delete_when is not None:
            yield from _deleting(project, name, table.apply.delete_when)


def _unordered(project: ProjectDefinition, path: str, what: str, text: str, query: exp.Query) -> Iterator[Problem]:
    """A view may be recomputed over any rows that a query inside of it takes; EXISTS asks for none of them."""
    inside = query.find_all(exp.Query) if path.startswith("tables.") else [query]
    for one in inside:
        limit = one.args.get("limit")
        if limit is not None and one.args.get("order") is None and not isinstance(one.parent, exp.Exists):
            message = f"{what} has a LIMIT without an ORDER BY: any of its rows would do"
            yield _described(
                project, path, text, span_of(limit), Code.INVALID_SQL, message, "say which rows come first"
            )


def _non_deterministic(
    project: ProjectDefinition, path: str, what: str, text: str, query: exp.Query
) -> Iterator[Problem]:
    """The same events make the same rows, live and from history: nothing else may tell what they are."""
    for one in non_deterministic(query):
        message = f"{what}: {one.why}, and {_AGAIN}"
        yield _described(project, path, text, one.span(text), Code.INVALID_SQL, message, HINTS[one.clock])


def _deleting(project: ProjectDefinition, name: str, condition: str) -> Iterator[Problem]:
    try:
        parsed = parse_condition(condition)
    except InvalidSql:
        return  # told with the other conditions
    path = f"tables.{name}.apply.delete_when"
    for one in non_deterministic(parsed):
        message = f"{one.why}, and {_AGAIN}"
        yield _described(project, path, condition, one.span(condition), Code.INVALID_VALUE, message, HINTS[one.clock])


def _described(
    project: ProjectDefinition, path: str, text: str, span: Span | None, code: Code, message: str, hint: str
) -> Problem:
    """A problem with its line in the user's file, and a caret under the place."""
    line = None if span is None else where_in(text, span).line
    return Problem(code, message, sql_line(project, path, line), hint, None if span is None else excerpt(text, span))
