"""Arithmetic: the results of Spark, of its types and with its scales."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.dates import moved
from headwater.query.duckdb.translation.expressions import Expressions, between, rule, typed
from headwater.query.duckdb.translation.terms import Refused, Term, derived, literal, spark_name

_SIGNS: dict[type[exp.Binary], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


@rule(exp.Add, exp.Sub, exp.Mul)
def _arithmetic(to: Expressions, node: exp.Binary) -> Term:
    sign = _SIGNS[type(node)]
    if isinstance(node.expression, exp.Interval) or isinstance(node.this, exp.Interval):
        return moved(to, node)
    left, right = to.term(node.this), to.term(node.expression)
    name = between(left, sign, right)
    if not types.is_number(left.type) or not types.is_number(right.type):
        raise Refused(f"{spark_name(left.type)} {sign} {spark_name(right.type)} is left to Spark")
    if left.is_literal and right.is_literal and isinstance(left.value, int) and isinstance(right.value, int):
        value = {"+": left.value + right.value, "-": left.value - right.value, "*": left.value * right.value}[sign]
        type_ = types.wider(left.type, right.type)
        if -(1 << type_.bit_width - 1) <= value < 1 << type_.bit_width - 1:
            return literal(value, type_, name)
    exact = types.DOUBLE not in (left.type, right.type) and types.FLOAT not in (left.type, right.type)
    if exact and (pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type)):
        return _decimals(type(node), left, right, name)
    type_ = types.wider(left.type, right.type)
    left, right = types.cast(left, type_), types.cast(right, type_)
    return typed(nodes.operation(type(node), left.node, right.node), type_, left, right, name=name)


def _decimals(kind: type[exp.Binary], left: Term, right: Term, name: str | None) -> Term:
    a, b = _as_decimal(left), _as_decimal(right)
    if kind is exp.Mul:
        precision, scale = a.precision + b.precision + 1, a.scale + b.scale
        parts = types.cast(left, a), types.cast(right, b)
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
        parts = left, right
    if precision > 38:
        raise Refused("decimals of more than 38 digits are left to Spark")
    result = pa.decimal128(precision, scale)
    if kind is not exp.Mul:
        parts = types.cast(left, result), types.cast(right, result)
    return typed(nodes.operation(kind, parts[0].node, parts[1].node), result, *parts, name=name)


def _as_decimal(term: Term) -> pa.Decimal128Type:
    """A whole literal has as many digits as are written."""
    if term.is_literal and isinstance(term.value, int):
        return pa.decimal128(len(str(abs(term.value))), 0)
    return types.as_decimal(term.type)


@rule(exp.Div)
def _divided(to: Expressions, node: exp.Div) -> Term:
    left, right = to.term(node.this), to.term(node.expression)
    floats = types.DOUBLE in (left.type, right.type) or types.FLOAT in (left.type, right.type)
    if not floats and (pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type)):
        raise Refused("division of decimals is left to Spark")
    name = between(left, "/", right)
    left, right = types.cast(left, types.DOUBLE), types.cast(right, types.DOUBLE)
    return derived(nodes.operation(exp.Div, left.node, _not_zero(right)), types.DOUBLE, left, right, name=name)


@rule(exp.Mod, exp.IntDiv)
def _remainder(to: Expressions, node: exp.Binary) -> Term:
    left, right = to.term(node.this), to.term(node.expression)
    whole = isinstance(node, exp.IntDiv)
    integers = types.is_integer(left.type) and types.is_integer(right.type)
    doubles = left.type == right.type == types.DOUBLE
    if not integers and (whole or not doubles):
        raise Refused("a remainder of other than whole numbers is left to Spark")
    type_ = types.LONG if whole else types.wider(left.type, right.type)
    name = between(left, "div" if whole else "%", right)
    left, right = types.cast(left, type_), types.cast(right, type_)
    return typed(nodes.operation(type(node), left.node, _not_zero(right)), type_, left, right, name=name)


def _not_zero(term: Term) -> exp.Expr:
    """NULL in the place of zero: what is divided by it is NULL in Spark."""
    return nodes.function("nullif", term.node, nodes.number(0))
