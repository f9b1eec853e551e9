"""SQL that may be served to others: one question about the lake's own relations, by known functions.

A query is judged twice: as it was written, and as it is generated for Spark, whose text is the one that counts. Every
kind of node and every function has to be on a list. What Spark's own parser makes of the text is judged in
`query.sparksafety`.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.core.errors import Code
from headwater.sql.bounds import too_deep
from headwater.sql.dialect import Headwater
from headwater.sql.functions import SAFE
from headwater.sql.moments import is_present
from headwater.sql.nodes import IN_HINTS, NODES
from headwater.sql.parse import STUMBLES, parse_query
from headwater.sql.places import InvalidSql, Span, span_of
from headwater.sql.references import referring
from headwater.sql.statements import CreateView, Describe, Explain, ExportStatement, Select, Show, Statement

LONGEST = 100_000
"""Characters of a statement."""

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")

_TELLING = frozenset({"current_user", "session_user", "current_catalog", "current_database", "current_schema"})
"""What Spark takes for a function without brackets where it is no column."""

_WORDS = frozenset({"case", "cast", "not", "exists", "interval", "in", "and", "or"})
"""What can stand before a bracket and is no function."""


def require_read_only(statement: Statement, text: str) -> None:
    """Raise NOT_ALLOWED, at its place in the text, for whatever may not be asked."""
    require_short(text)
    if isinstance(statement, (Show, Describe)):
        return
    what = statement.what if isinstance(statement, Explain) else statement
    if isinstance(statement, Explain) and isinstance(what, ExportStatement):
        return
    if isinstance(statement, Explain) and isinstance(what, CreateView):
        what = what.select
    if not isinstance(what, Select):
        first = re.search(r"\S+", text)
        span = (first.start(), first.end() - 1) if first else None
        raise _refusal("only queries, EXPLAIN, SHOW and DESCRIBE are answered here", text, span)
    try:
        _require_plain(what.query, text)
        _require_plain_as_generated(what.query, text)
    except RecursionError:
        raise too_deep() from None
    except (SqlglotError, *STUMBLES) as error:
        raise _refusal("this can't be translated for Spark", text, None) from error


def require_short(text: str) -> None:
    """Raise NOT_ALLOWED for a text that would take long to read. Called before it is parsed."""
    if len(text) > LONGEST:
        raise _refusal(f"a statement has {LONGEST} characters at most", text[: LONGEST // 1000], None)


def _require_plain_as_generated(query: exp.Query, text: str) -> None:
    """What the query is translated into has to pass as well; its places are not those of the text."""
    generated = query.sql(dialect=Headwater, comments=False)
    try:
        _require_plain(parse_query(generated), generated)
    except InvalidSql as error:
        raise _refusal(error.problem.message, text, span_of(query)) from None


def _require_plain(query: exp.Query, text: str) -> None:
    known = {id(table): table for table, reference in referring(query) if not reference.foreign}
    of_the_lake = {id(call) for table in known.values() for call in _calls(table)}
    names = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    of_hints = {id(node) for hint in query.find_all(exp.Hint) for node in hint.walk()}
    for node in query.walk():
        if id(node) in of_hints:
            if type(node) not in IN_HINTS:
                raise _refusal("a hint holds names and numbers", text, None)
            continue
        if isinstance(node, exp.Table) and id(node) not in known:
            called = isinstance(node.this, exp.Func) and not node.db
            if not called and (node.db or node.name.lower() not in names):
                raise _refusal("only topics, tables and views of this lake can be read here", text, span_of(node))
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in _TELLING:
            raise _refusal(f"'{node.name}' can't be used here", text, span_of(node))
        if id(node) in of_the_lake:
            continue
        if isinstance(node, exp.Func):
            _require_safe(node, text)
        elif type(node) not in NODES:
            raise _refusal("this can't be done here", text, span_of(node))


def _require_safe(call: exp.Func, text: str) -> None:
    """Judge a function by the name under which Spark will run it."""
    if isinstance(call, (exp.And, exp.Or)):  # functions too, for sqlglot: in a chain each holds all before it
        return
    text_of = call.sql(dialect="spark", comments=False)
    call_match = _CALL.match(text_of)
    name = call.name.lower() if isinstance(call, exp.Anonymous) else call_match[1].lower() if call_match else None
    if name is None and text_of.lower() in _TELLING:
        name = text_of.lower()
    if name is None and type(call) not in NODES:
        raise _refusal("this can't be done here", text, span_of(call))
    if name is None or name in SAFE or (name in _WORDS and not isinstance(call, exp.Anonymous)):
        return
    raise _refusal(f"the function '{name}' can't be used here", text, span_of(call))


def _calls(table: exp.Table) -> list[exp.Expr]:
    """`topic('x')`, `changes(…)`, `stream(topic('x'))`, `PROCTIME()` of one place in FROM that reads a relation."""
    version, call = table.args.get("version"), table.this
    calls: list[exp.Expr] = [version.expression] if version is not None and is_present(version) else []
    if isinstance(call, exp.Anonymous):
        calls += [call, *(inner for inner in call.expressions if isinstance(inner, exp.Anonymous))]
    return calls


def _refusal(message: str, text: str, span: Span | None) -> InvalidSql:
    return InvalidSql(message, text=text, span=span or (0, 0), code=Code.NOT_ALLOWED)
