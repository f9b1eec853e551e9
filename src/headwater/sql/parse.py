"""A text of Headwater's SQL as a query, a condition or a statement."""

from __future__ import annotations

import logging
import re

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from headwater.core.errors import nearest
from headwater.sql.bounds import require_bounded, too_deep
from headwater.sql.dialect import Headwater, Stated, as_query
from headwater.sql.places import InvalidSql, Span
from headwater.sql.statements import Select, Statement

FIRST_WORDS = (
    "SELECT", "WITH", "VALUES", "FROM", "CREATE", "REFRESH", "DROP", "EXPLAIN", "EXPORT", "SHOW", "DESCRIBE",
    "INSERT", "SET",
)  # fmt: skip
STATEMENTS = (
    "it has SELECT, CREATE | REFRESH | DROP | EXPLAIN MATERIALIZED VIEW, EXPLAIN [ANALYZE], EXPORT, SHOW, DESCRIBE,"
    " INSERT INTO and SET"
)

STUMBLES = (IndexError, KeyError, TypeError, AttributeError, ValueError, AssertionError, ArithmeticError)
"""What sqlglot itself raises over some texts that are no SQL, or that it can't translate."""

_OPENED = re.compile(r"Missing .* from \d+:(\d+)")

# What sqlglot can't parse it takes for an opaque command, which is refused here: its warning says it twice.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def parse_query(sql: str) -> exp.Query:
    """The one query in a text."""
    statements = _parsed(sql)
    query = as_query(statements[0]) if len(statements) == 1 else None
    if query is None:
        raise InvalidSql("should be one SELECT")
    return query


def parse_condition(sql: str) -> exp.Expr:
    """A boolean expression: `page IS NOT NULL`."""
    parsed = _parsed(sql, exp.Condition)
    if len(parsed) != 1 or isinstance(parsed[0], exp.Query):
        raise InvalidSql("should be one condition")
    require_bounded(parsed[0])
    return parsed[0]


def parse_statement(sql: str) -> Statement:
    """The one statement in a text."""
    statements = split(sql)
    if not statements:
        raise InvalidSql("there is no statement in it", hint=STATEMENTS)
    if len(statements) > 1:
        raise InvalidSql("one statement at a time", text=sql, span=_first_of(sql, 1))
    (parsed,) = _parsed(sql)
    if isinstance(parsed, Stated):
        made: Statement = parsed.this
        return made
    query = as_query(parsed)
    if query is not None:
        return Select(statements[0], query)
    raise InvalidSql(f"Headwater's SQL has no such statement; {STATEMENTS}", text=sql, span=_first_of(sql, 0))


def split(sql: str) -> list[str]:
    """The statements of a text, without the semicolons between them."""
    tokens = _tokens(sql)
    statements: list[str] = []
    start: int | None = None
    end = 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if start is not None:
                statements.append(sql[start : end + 1])
            start = None
        else:
            start = token.start if start is None else start
            end = token.end
    if start is not None:
        statements.append(sql[start : end + 1])
    return statements


def is_complete(sql: str) -> bool:
    """Whether a text ends with a semicolon that is not inside quotes or a comment."""
    try:
        tokens = _tokens(sql)
    except InvalidSql:
        return False
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


def _tokens(sql: str) -> list[sqlglot.Token]:
    _require_whole(sql)
    try:
        return sqlglot.tokenize(sql, dialect=Headwater)
    except TokenError as error:
        raise _not_closed(error, sql) from None


def _first_of(sql: str, number: int) -> Span:
    """The first word of the numbered statement of a text."""
    at = 0
    begins = True
    for token in _tokens(sql):
        if token.token_type is TokenType.SEMICOLON:
            begins = True
        elif begins:
            if at == number:
                return token.start, token.end
            at, begins = at + 1, False
    return 0, 0


def _require_whole(sql: str) -> None:
    """Half of a character, as a command line may have it, is none: no engine takes it."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        text = sql.encode(errors="replace").decode()
        hint = "write the text in UTF-8"
        raise InvalidSql("not a character", text=text, span=(error.start, error.start), hint=hint) from None


def _parsed(sql: str, into: type[exp.Expr] | None = None) -> list[exp.Expr]:
    _require_whole(sql)
    try:
        dialect = Headwater()
        parsed = dialect.parse(sql) if into is None else dialect.parse_into(into, sql)
        # A comment behind a semicolon is a statement of its own for sqlglot.
        return [one for one in parsed if one is not None and not isinstance(one, exp.Semicolon)]
    except ParseError as error:
        raise _not_parsed(error, sql) from None
    except TokenError as error:
        raise _not_closed(error, sql) from None
    except RecursionError:
        raise too_deep() from None
    except STUMBLES as error:
        raise InvalidSql("can't be parsed", hint="it may lack an argument") from error


def _not_closed(error: TokenError, sql: str) -> InvalidSql:
    opened = _OPENED.search(str(error.__cause__))
    at = int(opened[1]) if opened else max(0, sql.rfind("/*"))
    return InvalidSql("a quote or comment is not closed", text=sql, span=(at, at))


def _not_parsed(error: ParseError, sql: str) -> InvalidSql:
    first = error.errors[0] if error.errors else {}
    near = str(first.get("highlight") or "").strip()
    message = str(first.get("description") or "can't be parsed")
    # The parser shows its own token objects in some messages; the text it stumbled over says more.
    message = message.split(" but got <", 1)[0]
    if message.startswith("Required keyword"):
        message = "something is missing"
    elif message.endswith("does not support CTE"):
        message = "WITH stands before the SELECT that it is for"
    message += f" near '{near}'" if near else ""
    line, column = first.get("line"), first.get("col")
    if line is None or column is None:
        return InvalidSql(message, line)
    lines = sql.split("\n")
    end = sum(len(one) + 1 for one in lines[: line - 1]) + column - 1
    word = next(iter(sql.split()), "")
    meant = None if word.upper() in FIRST_WORDS else nearest(word.upper(), FIRST_WORDS)
    hint = f"did you mean {meant}?" if meant else None
    return InvalidSql(message, text=sql, span=(max(0, end - max(len(near), 1) + 1), end), hint=hint)
