"""Comparisons, logic, CASE, and queries inside conditions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.expressions import (
    NAMED,
    BooleanTerm,
    Expressions,
    argument,
    between,
    condition_of,
    first_argument,
    rule,
)
from headwater.query.duckdb.translation.terms import Refused, Term, derived, literal
from headwater.query.predicates import And, Anything, Compare, IsNull, Not, OneOf, Or, Predicate, Prefix

# --- comparisons

_COMPARED: dict[type[exp.Binary], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_SIGNS = {sign: kind for kind, sign in _COMPARED.items()}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@rule(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
def _comparison(to: Expressions, node: exp.Binary) -> Term:
    return _compared(_COMPARED[type(node)], to.term(node.this), to.term(node.expression))


def _compared(op: str, left: Term, right: Term) -> BooleanTerm:
    # Spark shows a <> b as NOT of the equality.
    name = between(left, "=" if op == "!=" else op, right)
    name = f"(NOT {name})" if op == "!=" and name is not None else name
    left, right = types.compared(left, right)
    predicate: Predicate = Anything()
    if left.origin is not None and right.is_literal:
        predicate = Compare(left.origin, op, right.value)
    elif right.origin is not None and left.is_literal:
        predicate = Compare(right.origin, _MIRRORED[op], left.value)
    return condition_of(nodes.operation(_SIGNS[op], left.node, right.node), predicate, left, right, name=name)


@rule(exp.NullSafeEQ, exp.NullSafeNEQ)
def _null_safe(to: Expressions, node: exp.Binary) -> Term:
    left, right = types.compared(to.term(node.this), to.term(node.expression))
    return condition_of(nodes.operation(type(node), left.node, right.node), Anything(), left, right)


@rule(exp.Between)
def _in_between(to: Expressions, node: exp.Between) -> Term:
    low = _compared(">=", to.term(node.this), to.term(argument(node, "low")))
    high = _compared("<=", to.term(node.this), to.term(argument(node, "high")))
    both = nodes.operation(exp.And, low.node, high.node)
    return condition_of(both, And((low.predicate, high.predicate)), low, high)


@rule(exp.In)
def _one_of(to: Expressions, node: exp.In) -> Term:
    left = to.term(node.this)
    if node.args.get("query") is not None:
        if not _stands_alone(node):
            raise Refused("IN over a query, inside another expression, has no NULL in Spark; it is left to it")
        inner = to.subquery(argument(node, "query"), to.scope)
        if len(inner.columns) != 1 or not inner.columns[0].type.equals(left.type) or not types.is_plain(left.type):
            raise Refused("IN over a query of another type is left to Spark")
        within = exp.In(this=left.node, query=exp.Subquery(this=inner.node))
        return condition_of(exp.Paren(this=within), Anything(), left)
    if node.args.get("unnest") is not None or node.args.get("field") is not None:
        raise Refused("this form of IN is left to Spark")
    items = []
    for each in node.expressions:
        same, item = types.compared(left, to.term(each))
        if not same.type.equals(left.type):
            raise Refused("IN over values of another type is left to Spark")
        items.append(item)
    predicate: Predicate = Anything()
    if left.origin is not None and all(item.is_literal for item in items):
        predicate = OneOf(left.origin, tuple(item.value for item in items if item.value is not None))
    within = exp.In(this=left.node, expressions=[item.node for item in items])
    return condition_of(exp.Paren(this=within), predicate, left, *items)


def _stands_alone(node: exp.In) -> bool:
    """Whether it is a condition of WHERE by itself, or its opposite."""
    above: exp.Expr | None = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    if isinstance(above, exp.Not):
        above = above.parent
    while isinstance(above, (exp.Paren, exp.And)):
        above = above.parent
    return isinstance(above, exp.Where)


@rule(exp.Is)
def _is(to: Expressions, node: exp.Is) -> Term:
    left = to.term(node.this)
    if isinstance(node.expression, exp.Null):
        return is_null(left)
    if isinstance(node.expression, exp.Boolean) and left.type == types.BOOLEAN:
        wanted = nodes.boolean(bool(node.expression.this))
        return condition_of(nodes.operation(exp.Is, left.node, wanted), Anything(), left)
    raise Refused("this form of IS is left to Spark")


def is_null(term: Term) -> BooleanTerm:
    predicate = IsNull(term.origin) if term.origin is not None else Anything()
    name = None if term.name is None else f"({term.name} IS NULL)"
    return condition_of(nodes.is_null(term.node), predicate, term, name=name)


@rule(exp.Like)
def _like(to: Expressions, node: exp.Like) -> Term:
    left, pattern = to.string(node.this), to.word(node.expression)
    if node.args.get("escape") is not None:
        raise Refused("LIKE with ESCAPE is left to Spark")
    predicate: Predicate = Anything()
    if left.origin is not None:
        stem = pattern.split("%", 1)[0].split("_", 1)[0]
        if stem == pattern:
            predicate = Compare(left.origin, "=", pattern)
        elif stem:
            # Rows must have the prefix; that they have it says everything only of 'prefix%'.
            begins = Prefix(left.origin, stem)
            predicate = begins if pattern == f"{stem}%" else And((begins, Anything()))
    return condition_of(nodes.operation(exp.Like, left.node, nodes.string(pattern)), predicate, left)


# --- logic


@rule(exp.And, exp.Or)
def _both(to: Expressions, node: exp.Connector) -> Term:
    """A chain of them in one go: a program may write hundreds, each inside the one before it."""
    word, kind = ("AND", And) if isinstance(node, exp.And) else ("OR", Or)
    chain, first = [node.expression], node.this
    while type(first) is type(node):
        chain.append(first.expression)
        first = first.this
    parts = [to.condition(first), *map(to.condition, reversed(chain))]
    named = parts[0]
    for part in parts[1:]:
        named = replace(named, name=between(named, word, part))
    made = nodes.joined(type(node), [part.node for part in parts])
    return condition_of(exp.Paren(this=made), kind(tuple(part.predicate for part in parts)), *parts, name=named.name)


@rule(exp.Not)
def _not(to: Expressions, node: exp.Not) -> Term:
    inner = to.condition(node.this)
    name = None if inner.name is None else f"(NOT {inner.name})"
    return condition_of(nodes.negated(inner.node), Not(inner.predicate), inner, name=name)


@rule(exp.Exists)
def _exists(to: Expressions, node: exp.Exists) -> Term:
    inner = to.subquery(node.this, to.scope)
    return condition_of(exp.Exists(this=inner.node), Anything())


@rule(exp.Subquery)
def _scalar(to: Expressions, node: exp.Subquery) -> Term:
    inner = to.subquery(node, to.scope)
    if len(inner.columns) != 1 or inner.reaches_out:
        raise Refused("this scalar subquery is left to Spark")
    return derived(exp.Subquery(this=inner.node), inner.columns[0].type)


@rule(exp.Case)
def _case(to: Expressions, node: exp.Case) -> Term:
    subject = None if node.this is None else to.term(node.this)
    tests, values = [], []
    for branch in node.args["ifs"]:
        if subject is None:
            tests.append(to.condition(branch.this))
        else:
            tests.append(_compared("=", subject, to.term(branch.this)))
        values.append(to.term(argument(branch, "true")))
    default = node.args.get("default")
    return chosen(tests, values, None if default is None else to.term(default))


def chosen(tests: list[BooleanTerm], values: list[Term], otherwise: Term | None) -> Term:
    """The first value whose test holds."""
    every = values if otherwise is None else [*values, otherwise]
    type_ = types.common(every)
    every = [types.cast(value, type_) for value in every]
    branches = [(test.node, value.node) for test, value in zip(tests, every, strict=False)]
    made = nodes.case(branches, None if otherwise is None else every[-1].node)
    return derived(made, type_, *tests, *every)


@rule(exp.If)
def _if(to: Expressions, node: exp.If) -> Term:
    other = node.args.get("false")
    test, yes = to.condition(node.this), to.term(argument(node, "true"))
    return chosen([test], [yes], literal(None, pa.null()) if other is None else to.term(other))


NAMED["isnull"] = lambda to, node: is_null(to.term(first_argument(node)))


def _isnotnull(to: Expressions, node: exp.Anonymous) -> Term:
    inner = is_null(to.term(first_argument(node)))
    return condition_of(nodes.negated(inner.node), Not(inner.predicate), inner)


NAMED["isnotnull"] = _isnotnull
