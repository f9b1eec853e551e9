"""Expressions, one by one: names, literals and numbers here, the rest in the modules alongside it.

What is not listed is refused: the list holds what was compared with Spark, in tests/query/test_two_engines.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation.casts import cast_to, spark_type
from headwater.query.duckdb.translation.scopes import NameScope, struct_field
from headwater.query.duckdb.translation.terms import (
    Refused,
    Term,
    cast_node,
    derived,
    literal,
    literal_node,
    spark_name,
)
from headwater.query.predicates import Anything, Compare, Predicate

Rule = Callable[["Expressions", Any], Term]

RULES: dict[type[exp.Expr], Rule] = {}
"""How each kind of expression is translated."""

NAMED: dict[str, Rule] = {}
"""The same for functions that sqlglot has no class for, by their name in small letters."""


def rule(*kinds: type[exp.Expr]) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


def argument(node: exp.Expr, name: str) -> Any:
    """An argument of a function; one that is missing is Spark's to complain about."""
    found = node.args.get(name)
    if found is None:
        raise Refused(f"{node.sql('spark')} lacks an argument")
    return found


def first_argument(node: exp.Expr) -> Any:
    """What a function of one argument is called with, by whichever way it was parsed."""
    if not isinstance(node, exp.Anonymous):
        return argument(node, "this")
    if len(node.expressions) != 1:
        raise Refused(f"{node.sql('spark')} has not one argument")
    return node.expressions[0]


UNKNOWN = Anything()


@dataclass(frozen=True)
class BooleanTerm(Term):
    """A boolean term, and what it says of stored columns."""

    predicate: Predicate = UNKNOWN


@dataclass
class Clock:
    """The moment that a query takes for now, and whether it has asked."""

    moment: datetime
    asked: bool = False

    def read(self) -> datetime:
        self.asked = True
        return self.moment


class Expressions:
    """Translates expressions inside one scope."""

    def __init__(self, scope: NameScope, clock: Clock, subquery: Callable[[exp.Expr, NameScope], Any]) -> None:
        self.scope = scope
        self.clock = clock
        self.subquery = subquery

    def term(self, node: exp.Expr) -> Term:
        if isinstance(node, exp.Anonymous):
            found = NAMED.get(node.name.lower())
            if found is None:
                raise Refused(f"the function {node.name.lower()} is not on the list of those compared with Spark")
            return found(self, node)
        rule = RULES.get(type(node))
        if rule is None:
            what = node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()
            raise Refused(f"{what} is not on the list of what was compared with Spark")
        return rule(self, node)

    def condition(self, node: exp.Expr) -> BooleanTerm:
        """A boolean term."""
        term = self.term(node)
        if pa.types.is_null(term.type):
            return BooleanTerm(literal_node(None, types.BOOLEAN), types.BOOLEAN, term.name)
        if term.type != types.BOOLEAN:
            raise Refused(f"a condition of type {spark_name(term.type)} is left to Spark")
        if isinstance(term, BooleanTerm):
            return term
        predicate = Compare(term.origin, "=", True) if term.origin is not None else Anything()
        return condition_of(term.node, predicate, term, name=term.name)

    def string(self, node: exp.Expr) -> Term:
        return self.of(node, types.STRING)

    def of(self, node: exp.Expr, *allowed: pa.DataType) -> Term:
        """A term of one of these types."""
        term = self.term(node)
        if pa.types.is_null(term.type):
            return types.cast(term, allowed[0])
        if term.type not in allowed:
            raise Refused(f"a {spark_name(term.type)} where {spark_name(allowed[0])} is expected is left to Spark")
        return term

    def integer(self, node: exp.Expr) -> int:
        """A whole number that stands in the query."""
        value = self.term(node).value
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refused("a position or count that is no plain number is left to Spark")
        return value

    def word(self, node: exp.Expr | None) -> str:
        """A text that stands in the query."""
        value = None if node is None else self.term(node).value
        if not isinstance(value, str):
            raise Refused("a pattern or unit that is no plain text is left to Spark")
        return value


def call(name: str, *terms: Term) -> str | None:
    """Spark's name of a call, where the arguments have names."""
    names = [term.name for term in terms]
    return None if None in names else f"{name}({', '.join(str(each) for each in names)})"


def between(left: Term, sign: str, right: Term) -> str | None:
    return None if left.name is None or right.name is None else f"({left.name} {sign} {right.name})"


def condition_of(node: exp.Expr, predicate: Predicate, *parts: Term, name: str | None = None) -> BooleanTerm:
    made = derived(node, types.BOOLEAN, *parts)
    return BooleanTerm(
        made.node, made.type, name, aggregate=made.aggregate, windowed=made.windowed, predicate=predicate
    )


# --- names and literals


@rule(exp.Column)
def _column(to: Expressions, node: exp.Column) -> Term:
    if isinstance(node.this, exp.Star):
        raise Refused("a star inside an expression is left to Spark")
    return to.scope.column(node)


@rule(exp.Dot)
def _dot(to: Expressions, node: exp.Dot) -> Term:
    if not isinstance(node.expression, exp.Identifier):
        raise Refused("this way into a struct is left to Spark")
    return struct_field(to.term(node.this), node.expression.name)


@rule(exp.Paren)
def _paren(to: Expressions, node: exp.Paren) -> Term:
    inner = to.term(node.this)
    return inner if inner.is_literal else replace(inner, node=exp.Paren(this=inner.node))


@rule(exp.Literal)
def _literal(to: Expressions, node: exp.Literal) -> Term:
    written = str(node.this)
    if node.is_string:
        return literal(written, types.STRING, written)
    if written.isdecimal():
        value = int(written)
        if value < 1 << 63:
            return literal(value, types.INT if value < 1 << 31 else types.LONG, written)
    elif "e" in written.lower():
        if math.isfinite(float(written)):
            return literal(float(written), types.DOUBLE, None)
    else:
        number = Decimal(written)
        digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
        if isinstance(exponent, int) and max(len(digits), -exponent) <= 38:
            return literal(number, pa.decimal128(max(len(digits), -exponent), -exponent), None)
    raise Refused(f"the number {written} is left to Spark")


@rule(exp.Boolean)
def _boolean(to: Expressions, node: exp.Boolean) -> Term:
    return literal(bool(node.this), types.BOOLEAN, str(node.this).lower())


@rule(exp.Null)
def _null(to: Expressions, node: exp.Null) -> Term:
    return literal(None, pa.null(), "NULL")


@rule(exp.Neg)
def _negative(to: Expressions, node: exp.Neg) -> Term:
    inner = to.term(node.this)
    if inner.is_literal and isinstance(inner.value, (int, float, Decimal)) and not isinstance(inner.value, bool):
        if inner.value == 1 << 31:
            return literal(-inner.value, types.INT, None)
        return literal(-inner.value, inner.type, None)
    if not types.is_number(inner.type):
        raise Refused(f"minus a {spark_name(inner.type)} is left to Spark")
    name = None if inner.name is None else f"(- {inner.name})"
    return typed(exp.Paren(this=exp.Neg(this=inner.node)), inner.type, inner, name=name)


def typed(node: exp.Expr, type: pa.DataType, *parts: Term, name: str | None = None) -> Term:
    """A value that DuckDB would give another type than Spark does."""
    return derived(cast_node(node, type), type, *parts, name=name)


# --- casts and time


def _require_bare(node: exp.Expr) -> None:
    if (node.args.get("this") is not None and not isinstance(node, exp.Anonymous)) or node.args.get("expressions"):
        raise Refused(f"{node.sql('spark')} has an argument")


@rule(exp.Cast, exp.TryCast)
def _cast(to: Expressions, node: exp.Cast) -> Term:
    inner = to.term(node.this)
    target = spark_type(argument(node, "to"))
    found = cast_to(inner, target)
    keeps = isinstance(node.this, (exp.Column, exp.Dot))
    return replace(found, name=inner.name if keeps else None, origin=None)


@rule(exp.CurrentTimestamp)
def _now(to: Expressions, node: exp.Expr) -> Term:
    _require_bare(node)
    return literal(to.clock.read(), types.TIMESTAMP, None)


@rule(exp.CurrentDate)
def _today(to: Expressions, node: exp.Expr) -> Term:
    _require_bare(node)
    return literal(to.clock.read().astimezone(timezone.utc).date(), types.DATE, None)


NAMED["now"] = _now
