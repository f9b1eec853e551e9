"""What a query or a `from:` names: `topic('x')`, `table('x')`, `mv('x')`, `topics.x`, a bare `x`, `changes('x', …)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from headwater.core.errors import Code, UsageError
from headwater.sql.moments import between, is_present
from headwater.sql.names import DATABASES, FUNCTIONS, SYSTEM, Reference, resolve
from headwater.sql.parse import parse_condition, parse_query
from headwater.sql.places import InvalidSql, span_of

__all__ = [
    "DATABASES",
    "FUNCTIONS",
    "InvalidSql",
    "Reference",
    "parse_condition",
    "parse_query",
    "parse_reference",
    "references",
    "referring",
    "resolve",
]

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(['\"])(.*?)\2\s*\)\s*")
_QUERY = re.compile(r"\s*(?:SELECT|WITH|VALUES)\b|\s*\(", re.IGNORECASE)
_DOTTED = re.compile(r"\s*(?:(\w+)\s*\.\s*)?(\w+)\s*")


def references(query: exp.Query) -> list[Reference]:
    """Every relation that a query reads, in the order of the text."""
    return [reference for _, reference in referring(query)]


def is_query(text: str) -> bool:
    """Whether a `from:` is a query, and not the name of a relation."""
    return _QUERY.match(text) is not None


def parse_reference(text: str) -> Reference:
    """The relation that a `from:` or `on:` names."""
    call = _CALL.fullmatch(text)
    if call is not None and call[1].lower() in FUNCTIONS:
        return Reference(call[3], FUNCTIONS[call[1].lower()])
    dotted = _DOTTED.fullmatch(text)
    if dotted is not None and (dotted[1] is None or dotted[1] in DATABASES):
        return Reference(dotted[2], DATABASES.get(dotted[1] or ""))
    raise UsageError(
        Code.INVALID_VALUE,
        f"'{text.strip()}' names no topic, table or view",
        hint="write topic('x'), table('x') or mv('x')",
    )


def referring(query: exp.Query) -> Iterator[tuple[exp.Table, Reference]]:
    """Each place in a query that reads a relation, with what it names."""
    for table in query.find_all(exp.Table, bfs=False):
        if table.find_ancestor(exp.Hint):
            continue  # the name that the query has for one
        reference = _referred(table)
        if reference is not None:
            latest = is_present(table.args.get("version"))
            span = reference.span or span_of(table.this)
            yield table, replace(reference, temporal=_is_temporal(table), latest=latest, span=span)


def _referred(table: exp.Table) -> Reference | None:
    called = table.this
    if isinstance(called, exp.Anonymous):
        return _called(called)
    if not isinstance(called, exp.Identifier):
        return None
    database = table.db.lower()
    if database == SYSTEM and not table.catalog:
        return Reference(table.name, system=True, line=_line(called))
    if table.catalog or (database and database not in DATABASES):
        return Reference(".".join(part.name for part in table.parts), foreign=True, line=_line(called))
    if database:
        return Reference(table.name, DATABASES[database], line=_line(called))
    return None if _is_cte(table) else Reference(table.name, line=_line(called))


def _called(call: exp.Anonymous) -> Reference | None:
    """`topic('x')`, `stream(…)` or `changes(…)` in FROM; None for a table function such as range(10)."""
    name = call.name.lower()
    if name == "stream":
        if len(call.expressions) != 1:
            raise _wrong("stream() takes one topic or table", call)
        inner = _named(call.expressions[0])
        return Reference(inner.name, inner.kind, driving=True, line=inner.line or _line(call), span=span_of(call))
    if name == "changes":
        what, *ends = call.expressions or [None]
        if not isinstance(what, exp.Literal) or not what.is_string or not 1 <= len(ends) <= 2:
            raise _wrong("changes() takes a name in quotes, and the versions or times between which", call)
        inner = parse_reference(what.name)
        return Reference(inner.name, inner.kind, changes=between(ends), line=_line(call), span=span_of(call))
    if name in FUNCTIONS:
        return _named(call)
    return None


def _named(expression: exp.Expr) -> Reference:
    if isinstance(expression, exp.Anonymous) and expression.name.lower() in FUNCTIONS:
        arguments = expression.expressions
        if len(arguments) == 1 and isinstance(arguments[0], exp.Literal) and arguments[0].is_string:
            kind = FUNCTIONS[expression.name.lower()]
            return Reference(arguments[0].name, kind, line=_line(expression), span=span_of(expression))
        raise _wrong(f"{expression.name.lower()}() takes one name in quotes", expression)
    if isinstance(expression, exp.Column) and (not expression.table or expression.table in DATABASES):
        return Reference(expression.name, DATABASES.get(expression.table), line=_line(expression.this))
    raise _wrong("stream() takes one topic or table", expression)


def _wrong(message: str, at: exp.Expr) -> InvalidSql:
    return InvalidSql(message, _line(at), span=span_of(at))


def _is_temporal(table: exp.Table) -> bool:
    version = table.args.get("version")
    return isinstance(version, exp.Version) and version.find(exp.Column) is not None


def _is_cte(table: exp.Table) -> bool:
    """Whether a bare name means a CTE: one that stands around it, or before the one that it stands in."""
    node: exp.Expr | None = table.parent
    inside: exp.Expr | None = None
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        elif isinstance(node, exp.Query):
            for cte in node.ctes:
                if cte is inside:
                    break
                if cte.alias.lower() == table.name.lower():
                    return True
        node = node.parent
    return False


def _line(expression: exp.Expr) -> int | None:
    line = expression.meta.get("line")
    return int(line) if line is not None else None
