"""SQL that may be served to others: one question about the lake's own relations, by known functions."""

from __future__ import annotations

import re

from sqlglot import exp

from headwater.errors import Code
from headwater.sql.functions import SAFE
from headwater.sql.places import InvalidSql, Span, span_of
from headwater.sql.references import referring
from headwater.sql.statements import CreateView, Describe, Explain, Export, Select, Show, Statement

LONGEST = 100_000
"""Characters of a statement."""

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")

_LAKE = frozenset({"topic", "table", "mv", "stream", "changes"})

_TELLING = frozenset({"current_user", "session_user", "current_catalog", "current_database", "current_schema"})
"""What Spark takes for a function without brackets where it is no column."""

_WORDS = frozenset({"case", "cast", "not", "exists", "interval", "in", "and", "or"})
"""What can stand before a bracket and is no function."""

_REFUSED = (exp.QueryTransform, exp.Command, exp.DML, exp.DDL, exp.Into, exp.Parameter, exp.SessionParameter)
"""Scripts, commands, changes and variables, wherever they may hide in a query."""


def require_read_only(statement: Statement, text: str) -> None:
    """Raise NOT_ALLOWED, at its place in the text, for whatever may not be asked."""
    if len(text) > LONGEST:
        raise _refusal(f"a statement has {LONGEST} characters at most", text, None)
    if "${" in text:
        # Spark puts settings and environment variables in for ${…}, also inside of quotes.
        at = text.index("${")
        raise _refusal("variables can't be used here", text, (at, at + 1))
    if isinstance(statement, (Show, Describe)):
        return
    what = statement.what if isinstance(statement, Explain) else statement
    if isinstance(statement, Explain) and isinstance(what, Export):
        return
    if isinstance(statement, Explain) and isinstance(what, CreateView):
        what = what.select
    if not isinstance(what, Select):
        first = re.search(r"\S+", text)
        span = (first.start(), first.end() - 1) if first else None
        raise _refusal("only queries, EXPLAIN, SHOW and DESCRIBE are answered here", text, span)
    _require_plain(what.query, text)


def _require_plain(query: exp.Query, text: str) -> None:
    known = {id(table) for table, reference in referring(query) if not reference.foreign}
    names = {cte.alias for cte in query.find_all(exp.CTE)}
    for node in query.walk():
        if isinstance(node, _REFUSED):
            raise _refusal("this can't be done here", text, span_of(node))
        if isinstance(node, exp.Table) and id(node) not in known and not node.find_ancestor(exp.Hint):
            called = isinstance(node.this, exp.Func) and not node.db
            if not called and (node.db or node.name not in names):
                raise _refusal("only topics, tables and views of this lake can be read here", text, span_of(node))
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in _TELLING:
            raise _refusal(f"'{node.name}' can't be used here", text, span_of(node))
        if isinstance(node, exp.Func) and not _of_the_lake(node):
            _require_safe(node, text)


def _require_safe(call: exp.Func, text: str) -> None:
    """Judge a function by the name under which Spark will run it."""
    text_of = call.sql(dialect="spark")
    found = _CALL.match(text_of)
    name = call.name.lower() if isinstance(call, exp.Anonymous) else found[1].lower() if found else None
    if name is None and text_of.lower() in _TELLING:
        name = text_of.lower()
    if name is None or name in SAFE or (name in _WORDS and not isinstance(call, exp.Anonymous)):
        return
    raise _refusal(f"the function '{name}' can't be used here", text, span_of(call))


def _of_the_lake(call: exp.Func) -> bool:
    """`topic('x')`, `changes(…)` and so on in FROM."""
    inside = call.find_ancestor(exp.Table)
    return isinstance(call, exp.Anonymous) and inside is not None and call.name.lower() in _LAKE


def _refusal(message: str, text: str, span: Span | None) -> InvalidSql:
    return InvalidSql(message, text=text, span=span or (0, 0), code=Code.NOT_ALLOWED)
