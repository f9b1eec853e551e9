"""What a query or a `from:` names: `topic('x')`, `table('x')`, `mv('x')`, `topics.x`, a bare `x`."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from headwater.errors import Code, UsageError, Where, did_you_mean
from headwater.model import Kind

FUNCTIONS = {"topic": Kind.TOPIC, "table": Kind.TABLE, "mv": Kind.VIEW}
DATABASES = {kind.plural: kind for kind in Kind}

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(['\"])(.*?)\2\s*\)\s*")
_DOTTED = re.compile(r"\s*(?:(\w+)\s*\.\s*)?(\w+)\s*")

# What sqlglot can't parse it takes for an opaque command, which is refused here: its warning says it twice.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Reference:
    """A relation as it is named; `kind` is None for a bare name."""

    name: str
    kind: Kind | None = None
    driving: bool = False
    """Inside `stream(…)`."""
    temporal: bool = False
    """Looked up `FOR SYSTEM_TIME AS OF` a column."""
    foreign: bool = False
    """A name that none of the lake's relations can have: `lake.sales.orders`."""
    line: int | None = None

    def __str__(self) -> str:
        if self.kind is None:
            return self.name
        function = next(name for name, kind in FUNCTIONS.items() if kind is self.kind)
        return f"{function}('{self.name}')"


class InvalidSql(UsageError):
    """SQL that can't be parsed; `line` counts from the statement's first."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(Code.INVALID_SQL, message, where=None if line is None else Where("SQL", line))
        self.line = line


def parse_query(sql: str) -> exp.Query:
    """The one query in a text."""
    statements = _parsed(sql)
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise InvalidSql("should be one SELECT")
    return statements[0]


def parse_condition(sql: str) -> exp.Expression:
    """A boolean expression: `page IS NOT NULL`."""
    found = _parsed(sql)
    if len(found) != 1 or not isinstance(found[0], exp.Expression) or isinstance(found[0], (exp.Query, exp.Command)):
        raise InvalidSql("should be one condition")
    return found[0]


def references(query: exp.Query) -> list[Reference]:
    """Every relation that a query reads, in the order of the text."""
    return [reference for _, reference in referring(query)]


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


def resolve(reference: Reference, known: Mapping[Kind, Collection[str]]) -> Kind:
    """The kind of relation that a reference means; UNKNOWN_REFERENCE if there is none or more than one."""
    if reference.foreign:
        raise UsageError(
            Code.UNKNOWN_REFERENCE,
            f"'{reference.name}' is not in this lake",
            hint="a source of type `table` takes in somebody else's table",
        )
    if reference.kind is not None:
        if reference.name in known[reference.kind]:
            return reference.kind
        raise _unknown(reference, known, reference.kind)
    kinds = [kind for kind in Kind if reference.name in known[kind]]
    if len(kinds) == 1:
        return kinds[0]
    if not kinds:
        raise _unknown(reference, known, None)
    choices = " or ".join(str(Reference(reference.name, kind)) for kind in kinds)
    raise UsageError(Code.UNKNOWN_REFERENCE, f"'{reference.name}' is not unique", hint=f"write {choices}")


def _unknown(reference: Reference, known: Mapping[Kind, Collection[str]], kind: Kind | None) -> UsageError:
    elsewhere = [Reference(reference.name, other) for other in Kind if reference.name in known[other]]
    if elsewhere:
        hint = f"did you mean {elsewhere[0]}?"
    else:
        hint = did_you_mean(
            reference.name, known[kind] if kind else {name for names in known.values() for name in names}
        )
    what = kind.value if kind else "topic, table or view"
    return UsageError(Code.UNKNOWN_REFERENCE, f"there is no {what} '{reference.name}'", hint=hint)


def _parsed(sql: str) -> list[object]:
    try:
        return [statement for statement in sqlglot.parse(sql, dialect="spark") if statement is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = str(first.get("highlight") or "").strip()
        message = str(first.get("description") or "can't be parsed")
        # The parser shows its own token objects in some messages; the text it stumbled over says more.
        message = message.split(" but got <", 1)[0]
        raise InvalidSql(message + (f" near '{near}'" if near else ""), first.get("line")) from None
    except TokenError:
        raise InvalidSql("a quote or comment is not closed") from None


def referring(query: exp.Query) -> Iterator[tuple[exp.Table, Reference]]:
    """Each place in a query that reads a relation, with what it names."""
    for table in query.find_all(exp.Table, bfs=False):
        called = table.this
        temporal = _is_temporal(table)
        if isinstance(called, exp.Anonymous):
            found = _called(called, temporal)
            if found is not None:
                yield table, found
            continue
        if not isinstance(called, exp.Identifier):
            continue
        if table.catalog or (table.db and table.db not in DATABASES):
            name = ".".join(part.name for part in table.parts)
            yield table, Reference(name, temporal=temporal, foreign=True, line=_line(called))
        elif table.db:
            yield table, Reference(table.name, DATABASES[table.db], temporal=temporal, line=_line(called))
        elif not _is_cte(table):
            yield table, Reference(table.name, temporal=temporal, line=_line(called))


def _called(call: exp.Anonymous, temporal: bool) -> Reference | None:
    """`topic('x')` or `stream(…)` in FROM; None for a table function such as range(10)."""
    name = call.name.lower()
    if name == "stream":
        if len(call.expressions) != 1:
            raise InvalidSql("stream() takes one topic or table", _line(call))
        inner = _named(call.expressions[0])
        return Reference(inner.name, inner.kind, driving=True, temporal=temporal, line=inner.line or _line(call))
    if name in FUNCTIONS:
        inner = _named(call)
        return Reference(inner.name, inner.kind, temporal=temporal, line=inner.line)
    return None


def _named(expression: exp.Expression) -> Reference:
    if isinstance(expression, exp.Anonymous) and expression.name.lower() in FUNCTIONS:
        arguments = expression.expressions
        if len(arguments) == 1 and isinstance(arguments[0], exp.Literal) and arguments[0].is_string:
            return Reference(arguments[0].name, FUNCTIONS[expression.name.lower()], line=_line(expression))
        raise InvalidSql(f"{expression.name.lower()}() takes one name in quotes", _line(expression))
    if isinstance(expression, exp.Column) and (not expression.table or expression.table in DATABASES):
        return Reference(expression.name, DATABASES.get(expression.table), line=_line(expression.this))
    raise InvalidSql("stream() takes one topic or table", _line(expression))


def _is_temporal(table: exp.Table) -> bool:
    version = table.args.get("version")
    return isinstance(version, exp.Version) and version.find(exp.Column) is not None


def _is_cte(table: exp.Table) -> bool:
    ancestor = table.parent
    while ancestor is not None:
        if isinstance(ancestor, exp.Query) and any(cte.alias == table.name for cte in ancestor.ctes):
            return True
        ancestor = ancestor.parent
    return False


def _line(expression: exp.Expression) -> int | None:
    line = expression.meta.get("line")
    return int(line) if line is not None else None
