"""Aggregates and window functions that were compared with Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.expressions import (
    NAMED,
    Expressions,
    Rule,
    argument,
    call,
    first_argument,
    rule,
)
from headwater.query.duckdb.translation.terms import Refused, Term, cast_node, derived, spark_name

Over = Callable[[exp.Expr], exp.Expr]
"""Puts what follows a call around it: FILTER, OVER."""


def _after(node: exp.Expr, to: Expressions) -> tuple[Over, list[Term], bool]:
    """What stands around a call: (what puts it there, terms in that, whether a window)."""
    parent = node.parent
    terms: list[Term] = []
    where: exp.Expr | None = None
    window: Over | None = None
    if isinstance(parent, exp.Filter) and parent.this is node:
        condition = to.condition(parent.expression.this)
        terms.append(condition)
        where = condition.node
        parent = parent.parent
    if isinstance(parent, exp.Window) and isinstance(parent.this, (type(node), exp.Filter)):
        window, found = _window(to, parent)
        terms += found

    def over(called: exp.Expr) -> exp.Expr:
        if where is not None:
            called = exp.Filter(this=called, expression=exp.Where(this=where))
        return called if window is None else window(called)

    return over, terms, window is not None


def _finished(to: Expressions, node: exp.Expr, term: Term, *, window: bool) -> Term:
    if window:
        return replace(term, aggregate=False, windowed=True, name=None, origin=None)
    if term.aggregate:
        raise Refused("an aggregate inside an aggregate")
    name = term.name if not isinstance(node.parent, exp.Filter) else None
    return replace(term, aggregate=True, name=name, origin=None)


def _argument(to: Expressions, node: exp.Func) -> tuple[Term, bool]:
    """The argument, and whether it is DISTINCT."""
    inner = first_argument(node)
    if isinstance(inner, exp.Distinct):
        if len(inner.expressions) != 1 or inner.args.get("on") is not None:
            raise Refused("DISTINCT over several columns is left to Spark")
        found = to.term(inner.expressions[0])
        if not types.is_grouped_alike(found.type):
            raise Refused(f"DISTINCT over a {spark_name(found.type)} is left to Spark")
        return found, True
    return to.term(inner), False


Build = Callable[[Term, bool, Over], tuple[exp.Expr, pa.DataType]]
"""The node and the type of an aggregate of a term, DISTINCT or not."""


def _called(to: Expressions, node: exp.Func, build: Build, spark: str) -> Term:
    found, distinct = _argument(to, node)
    over, terms, window = _after(node, to)
    if window and distinct:
        raise Refused("DISTINCT in a window is left to Spark")
    made, type_ = build(found, distinct, over)
    name = None if found.name is None else f"{spark}({'DISTINCT ' if distinct else ''}{found.name})"
    return _finished(to, node, derived(made, type_, found, *terms, name=name), window=window)


def _of(function: str, node: exp.Expr, distinct: bool = False) -> exp.Expr:
    """An aggregate, under DuckDB's name for it."""
    return nodes.function(function, exp.Distinct(expressions=[node]) if distinct else node)


@rule(exp.Count)
def _count(to: Expressions, node: exp.Count) -> Term:
    if node.expressions:
        raise Refused("count of several columns is left to Spark")
    if isinstance(node.this, exp.Star):
        over, terms, window = _after(node, to)
        made = over(_of("count", exp.Star()))
        return _finished(to, node, derived(made, types.LONG, *terms, name="count(1)"), window=window)
    return _called(to, node, lambda x, distinct, over: (over(_of("count", x.node, distinct)), types.LONG), "count")


@rule(exp.CountIf)
def _count_if(to: Expressions, node: exp.CountIf) -> Term:
    found = to.condition(node.this)
    over, terms, window = _after(node, to)
    counted = _of("count", nodes.case([(found.node, nodes.number(1))]))
    made = derived(over(counted), types.LONG, found, *terms)
    return _finished(to, node, replace(made, name=call("count_if", found)), window=window)


@rule(exp.Sum)
def _sum(to: Expressions, node: exp.Sum) -> Term:
    def build(x: Term, distinct: bool, over: Over) -> tuple[exp.Expr, pa.DataType]:
        if types.is_integer(x.type):
            type_ = types.LONG
        elif pa.types.is_decimal128(x.type):
            type_ = pa.decimal128(min(38, x.type.precision + 10), x.type.scale)
        elif x.type in (types.DOUBLE, types.FLOAT):
            type_ = types.DOUBLE
        else:
            raise Refused(f"the sum of {spark_name(x.type)} is left to Spark")
        inner = x.node if x.type != types.FLOAT else cast_node(x.node, types.DOUBLE)
        return cast_node(over(_of("sum", inner, distinct)), type_), type_

    return _called(to, node, build, "sum")


def _average(x: Term, distinct: bool, over: Over) -> tuple[exp.Expr, pa.DataType]:
    if types.is_integer(x.type) or x.type in (types.DOUBLE, types.FLOAT):
        return over(_of("avg", cast_node(x.node, types.DOUBLE), distinct)), types.DOUBLE
    if not pa.types.is_decimal128(x.type) or x.type.precision > 24:
        raise Refused(f"the average of {spark_name(x.type)} is left to Spark")
    # sum / count with four more digits, half up; on whole numbers, since DuckDB divides decimals as DOUBLE.
    type_ = pa.decimal128(x.type.precision + 4, x.type.scale + 4)
    total = cast_node(over(_of("sum", x.node, distinct)), types.STRING)
    digits = nodes.cast(nodes.function("replace", total, nodes.string("."), nodes.string("")), "HUGEINT")
    count = over(_of("count", x.node, distinct))
    two, shift = nodes.number(2), nodes.number(10000)
    size = exp.Mul(this=exp.Mul(this=two, expression=shift), expression=nodes.function("abs", digits))
    doubled = nodes.operation(exp.Add, size, count)
    divisor = nodes.function("nullif", exp.Mul(this=two, expression=nodes.cast(count, "HUGEINT")), nodes.number(0))
    halved = nodes.operation(exp.IntDiv, doubled, divisor)
    signed = exp.Mul(this=nodes.function("sign", digits), expression=halved)
    whole = nodes.cast(signed, f"DECIMAL({type_.precision},0)")
    unit = nodes.cast(nodes.string("0." + "0" * (type_.scale - 1) + "1"), f"DECIMAL({type_.scale},{type_.scale})")
    return cast_node(exp.Mul(this=whole, expression=unit), type_), type_


@rule(exp.Avg)
def _avg(to: Expressions, node: exp.Avg) -> Term:
    return _called(to, node, _average, "avg")


NAMED["mean"] = lambda to, node: _called(to, node, _average, "mean")


def _extreme(function: str) -> Rule:
    def build(x: Term, distinct: bool, over: Over) -> tuple[exp.Expr, pa.DataType]:
        if not types.is_plain(x.type):
            raise Refused(f"{function} of {spark_name(x.type)} is left to Spark")
        return over(_of(function, x.node)), x.type

    return lambda to, node: _called(to, node, build, function)


rule(exp.Min)(_extreme("min"))
rule(exp.Max)(_extreme("max"))


def _spread(function: str, spark: str) -> Rule:
    def build(x: Term, distinct: bool, over: Over) -> tuple[exp.Expr, pa.DataType]:
        if distinct or not (types.is_integer(x.type) or x.type == types.DOUBLE):
            raise Refused(f"{spark} of {spark_name(x.type)} is left to Spark")
        return over(_of(function, cast_node(x.node, types.DOUBLE))), types.DOUBLE

    return lambda to, node: _called(to, node, build, spark)


for _kind, _function, _spark in (
    (exp.Stddev, "stddev_samp", "stddev"),
    (exp.StddevSamp, "stddev_samp", "stddev_samp"),
    (exp.StddevPop, "stddev_pop", "stddev_pop"),
    (exp.Variance, "var_samp", "variance"),
    (exp.VariancePop, "var_pop", "var_pop"),
):
    rule(_kind)(_spread(_function, _spark))


def _every(function: str, spark: str) -> Rule:
    def build(x: Term, distinct: bool, over: Over) -> tuple[exp.Expr, pa.DataType]:
        if x.type != types.BOOLEAN:
            raise Refused(f"{spark} of {spark_name(x.type)} is left to Spark")
        return over(_of(function, x.node)), types.BOOLEAN

    return lambda to, node: _called(to, node, build, spark)


rule(exp.LogicalAnd)(_every("bool_and", "bool_and"))
rule(exp.LogicalOr)(_every("bool_or", "bool_or"))
NAMED["every"] = _every("bool_and", "every")
NAMED["some"] = _every("bool_or", "some")


@rule(exp.Filter)
def _filtered(to: Expressions, node: exp.Filter) -> Term:
    if not isinstance(node.this, exp.AggFunc):
        raise Refused("FILTER on this is left to Spark")
    return to.term(node.this)


# --- windows

_RANKS: dict[type[exp.Expr], tuple[str, pa.DataType]] = {
    exp.RowNumber: ("row_number", types.INT),
    exp.Rank: ("rank", types.INT),
    exp.DenseRank: ("dense_rank", types.INT),
    exp.PercentRank: ("percent_rank", types.DOUBLE),
    exp.CumeDist: ("cume_dist", types.DOUBLE),
}


@rule(exp.Window)
def _over(to: Expressions, node: exp.Window) -> Term:
    if set(node.args) - {"this", "partition_by", "order", "spec", "over"} and any(
        node.args.get(key) for key in ("alias", "first", "with_")
    ):
        raise Refused("a named window is left to Spark")
    inner = node.this
    if isinstance(inner, (exp.AggFunc, exp.Filter)) and type(inner) not in (
        exp.Lag,
        exp.Lead,
        exp.Ntile,
        *_FIRST,
        *_RANKS,
    ):
        return to.term(inner)
    over, terms = _window(to, node)
    if node.args.get("order") is None:
        raise Refused("a ranking without an order is left to Spark")
    if type(inner) in _RANKS:
        function, type_ = _RANKS[type(inner)]
        return _ranked(cast_node(over(nodes.function(function)), type_), type_, terms)
    if isinstance(inner, exp.Ntile):
        tiled = nodes.function("ntile", nodes.number(to.integer(inner.this)))
        return _ranked(cast_node(over(tiled), types.INT), types.INT, terms)
    if isinstance(inner, (exp.Lag, exp.Lead)):
        if inner.args.get("default") is not None or node.args.get("spec") is not None:
            raise Refused("lag and lead with a default are left to Spark")
        found = to.term(inner.this)
        by = 1 if inner.args.get("offset") is None else to.integer(argument(inner, "offset"))
        function = "lag" if isinstance(inner, exp.Lag) else "lead"
        return _ranked(over(nodes.function(function, found.node, nodes.number(by))), found.type, [found, *terms])
    if type(inner) in _FIRST:
        found = to.term(inner.this)
        return _ranked(over(nodes.function(_FIRST[type(inner)], found.node)), found.type, [found, *terms])
    raise Refused(f"{inner.sql_name().lower() if isinstance(inner, exp.Func) else 'this'} in a window is left to Spark")


_FIRST: dict[type[exp.Expr], str] = {exp.FirstValue: "first_value", exp.LastValue: "last_value"}


def _ranked(node: exp.Expr, type: pa.DataType, terms: list[Term]) -> Term:
    return replace(derived(node, type, *terms), windowed=True)


def _window(to: Expressions, node: exp.Window) -> tuple[Over, list[Term]]:
    """What puts a call over this window, and the terms in that."""
    partition = [to.term(each) for each in node.args.get("partition_by") or ()]
    if not all(types.is_plain(term.type) for term in partition):
        raise Refused("a window over nested columns is left to Spark")
    order = node.args.get("order")
    ordered = [] if order is None else [ordering(to.term(each.this), each) for each in order.expressions]
    terms = partition + [term for _, term in ordered]
    if any(term.windowed for term in terms):
        raise Refused("a window inside a window is left to Spark")
    spec = node.args.get("spec")
    frame = None if spec is None else _frame(to, spec)

    def over(called: exp.Expr) -> exp.Expr:
        return exp.Window(
            this=called,
            partition_by=[term.node for term in partition],
            order=exp.Order(expressions=[each for each, _ in ordered]) if ordered else None,
            spec=frame,
        )

    return over, terms


def _frame(to: Expressions, spec: exp.WindowSpec) -> exp.WindowSpec:
    kind = str(spec.args.get("kind") or "").upper()
    bounds: dict[str, exp.Expr | str] = {}
    for end in ("start", "end"):
        value, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
        if isinstance(value, str) and value.upper() == "UNBOUNDED":
            bounds |= {end: "UNBOUNDED", f"{end}_side": side}
        elif value is None or (isinstance(value, str) and value.upper() == "CURRENT ROW"):
            bounds[end] = "CURRENT ROW"
        elif isinstance(value, exp.Expr) and kind == "ROWS":
            bounds |= {end: nodes.number(to.integer(value)), f"{end}_side": side}
        else:
            raise Refused("this frame of a window is left to Spark")
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        raise Refused("this frame of a window is left to Spark")
    return exp.WindowSpec(kind=kind, **bounds)


def ordering(term: Term, ordered: exp.Expr) -> tuple[exp.Ordered, Term]:
    """One part of an ORDER BY; NULLs come where Spark puts them."""
    if not types.is_plain(term.type):
        raise Refused(f"an order by {spark_name(term.type)} is left to Spark")
    if ordered.args.get("with_fill") is not None:
        raise Refused("this order is left to Spark")
    # Without a word NULLs come last in DuckDB, whatever the direction: that is what the generator goes by.
    desc, nulls_first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
    return exp.Ordered(this=term.node, desc=desc, nulls_first=nulls_first), term
