"""The project's name as a schema: `shop.events` means `events`, be it a topic, a table or a view."""

from __future__ import annotations

import re

from sqlglot import exp

from headwater.core.errors import UsageError
from headwater.sql.names import DATABASES, SYSTEM
from headwater.sql.parse import parse_statement
from headwater.sql.places import Span, span_of
from headwater.sql.statements import CreateView, Explain, Insert, Select

_HEAD = re.compile(
    r"\s*(?:DESC(?:RIBE)?(?:\s+HISTORY)?(?:\s+(?:TABLE|TOPIC|VIEW|MATERIALIZED\s+VIEW))?|INSERT\s+INTO(?:\s+TABLE)?|"
    r"(?:EXPLAIN\s+)?EXPORT|REFRESH\s+MATERIALIZED\s+VIEW|DROP\s+MATERIALIZED\s+VIEW(?:\s+IF\s+EXISTS)?|"
    r"EXPLAIN\s+MATERIALIZED\s+VIEW)\s+(`?(\w+)`?\s*\.)\s*`?\w+`?",
    re.IGNORECASE,
)
"""Statements that begin with the name of a relation."""

_QUOTED = re.compile(r"['\"]\s*((\w+)\s*\.)\s*\w+\s*['\"]")
"""What `changes('shop.events', …)` names."""


def without_schema(text: str, schema: str) -> str:
    """A statement or query with blanks for the schema, so that everything in it stays where it was."""
    name = schema.lower()
    if name in DATABASES or name == SYSTEM or name not in text.lower():
        return text
    head = _HEAD.match(text)
    if head is not None and head[2].lower() == name:
        text = _blanked(text, [(head.start(1), head.end(1) - 1)])
    query = _query_of(text)
    return text if query is None else _blanked(text, _spans(query, text, name))


def _query_of(text: str) -> exp.Query | None:
    """The query in a statement; None where there is none, or it can't be parsed, which is told elsewhere."""
    try:
        statement: object = parse_statement(text)
    except UsageError:
        return None
    if isinstance(statement, Explain):
        statement = statement.what
    if isinstance(statement, (CreateView, Insert)):
        statement = statement.select
    return statement.query if isinstance(statement, Select) else None


def _spans(query: exp.Query, text: str, schema: str) -> list[Span]:
    """Where the schema stands before a relation, and before one of its columns."""
    spans: list[Span] = []
    named: set[str] = set()
    for table in query.find_all(exp.Table):
        if table.db.lower() == schema and not table.catalog:
            named.add(table.name.lower())
            spans += _before_dot(table.args["db"], text)
        call = table.this
        for inner in call.expressions if isinstance(call, exp.Anonymous) else ():
            if isinstance(inner, exp.Column) and inner.table.lower() == schema:  # stream(shop.events)
                spans += _before_dot(inner.args["table"], text)
        if isinstance(call, exp.Anonymous) and call.name.lower() == "changes" and call.expressions:
            quoted = _QUOTED.search(text, (span_of(call) or (0, 0))[0])
            if quoted is not None and quoted[2].lower() == schema:
                spans.append((quoted.start(1), quoted.end(1) - 1))
    for column in query.find_all(exp.Column):
        if column.db.lower() == schema and column.table.lower() in named and not column.catalog:
            spans += _before_dot(column.args["db"], text)
    return spans


def _before_dot(identifier: exp.Identifier, text: str) -> list[Span]:
    span = span_of(identifier)
    dot = -1 if span is None else text.find(".", span[1] + 1)
    return [] if span is None or dot < 0 else [(span[0], dot)]


def _blanked(text: str, spans: list[Span]) -> str:
    for first, last in spans:
        text = text[:first] + " " * (last - first + 1) + text[last + 1 :]
    return text
