"""Aggregates and window functions that were compared with Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb import coercion as types
from headwater.query.duckdb.expressions import NAMED, Expressions, Rule, argument, call, rule
from headwater.query.duckdb.terms import Refused, Term, derived, duckdb_type, spark_name

Over = Callable[[str], str]
"""Puts what follows a call after it: FILTER, OVER."""


def _after(node: exp.Expr, to: Expressions) -> tuple[Over, list[Term], bool, str | None]:
    """What stands around a call: (text after it, terms in that, whether a window, the filter's name)."""
    parent = node.parent
    terms: list[Term] = []
    suffix = ""
    if isinstance(parent, exp.Filter) and parent.this is node:
        condition = to.condition(parent.expression.this)
        terms.append(condition)
        suffix += f" FILTER (WHERE {condition.sql})"
        parent = parent.parent
    if isinstance(parent, exp.Window) and isinstance(parent.this, (type(node), exp.Filter)):
        over, found = _window(to, parent)
        terms += found
        suffix += f" OVER ({over})"
        return (lambda sql: sql + suffix), terms, True, None
    return (lambda sql: sql + suffix), terms, False, None


def _finished(to: Expressions, node: exp.Expr, term: Term, *, window: bool) -> Term:
    if window:
        return replace(term, aggregate=False, windowed=True, name=None, origin=None)
    if term.aggregate:
        raise Refused("an aggregate inside an aggregate")
    name = term.name if not isinstance(node.parent, exp.Filter) else None
    return replace(term, aggregate=True, name=name, origin=None)


def _argument(to: Expressions, node: exp.Func) -> tuple[Term, str, str]:
    """(argument, DISTINCT or nothing, the same in Spark's name)."""
    inner = node.this if not isinstance(node, exp.Anonymous) else node.expressions[0]
    if isinstance(inner, exp.Distinct):
        if len(inner.expressions) != 1 or inner.args.get("on") is not None:
            raise Refused("DISTINCT over several columns is left to Spark")
        found = to.term(inner.expressions[0])
        if not types.is_grouped_alike(found.type):
            raise Refused(f"DISTINCT over a {spark_name(found.type)} is left to Spark")
        return found, "DISTINCT ", "DISTINCT "
    return to.term(inner), "", ""


def _called(
    to: Expressions, node: exp.Func, build: Callable[[Term, str, Over], tuple[str, pa.DataType]], spark: str
) -> Term:
    found, distinct, shown = _argument(to, node)
    over, terms, window, _ = _after(node, to)
    if window and distinct:
        raise Refused("DISTINCT in a window is left to Spark")
    sql, type_ = build(found, distinct, over)
    name = None if found.name is None else f"{spark}({shown}{found.name})"
    return _finished(to, node, derived(sql, type_, found, *terms, name=name), window=window)


@rule(exp.Count)
def _count(to: Expressions, node: exp.Count) -> Term:
    if node.expressions:
        raise Refused("count of several columns is left to Spark")
    if isinstance(node.this, exp.Star):
        over, terms, window, _ = _after(node, to)
        return _finished(to, node, derived(over("count(*)"), types.LONG, *terms, name="count(1)"), window=window)
    return _called(to, node, lambda x, distinct, over: (over(f"count({distinct}{x.sql})"), types.LONG), "count")


@rule(exp.CountIf)
def _count_if(to: Expressions, node: exp.CountIf) -> Term:
    found = to.condition(node.this)
    over, terms, window, _ = _after(node, to)
    made = derived(over(f"count(CASE WHEN {found.sql} THEN 1 END)"), types.LONG, found, *terms)
    return _finished(to, node, replace(made, name=call("count_if", found)), window=window)


@rule(exp.Sum)
def _sum(to: Expressions, node: exp.Sum) -> Term:
    def build(x: Term, distinct: str, over: Over) -> tuple[str, pa.DataType]:
        if types.is_integer(x.type):
            type_ = types.LONG
        elif pa.types.is_decimal128(x.type):
            type_ = pa.decimal128(min(38, x.type.precision + 10), x.type.scale)
        elif x.type in (types.DOUBLE, types.FLOAT):
            type_ = types.DOUBLE
        else:
            raise Refused(f"the sum of {spark_name(x.type)} is left to Spark")
        inner = x.sql if x.type != types.FLOAT else f"CAST({x.sql} AS DOUBLE)"
        return f"CAST({over(f'sum({distinct}{inner})')} AS {duckdb_type(type_)})", type_

    return _called(to, node, build, "sum")


def _average(x: Term, distinct: str, over: Over) -> tuple[str, pa.DataType]:
    if types.is_integer(x.type) or x.type in (types.DOUBLE, types.FLOAT):
        return over(f"avg({distinct}CAST({x.sql} AS DOUBLE))"), types.DOUBLE
    if not pa.types.is_decimal128(x.type) or x.type.precision > 24:
        raise Refused(f"the average of {spark_name(x.type)} is left to Spark")
    # sum / count with four more digits, half up; on whole numbers, since DuckDB divides decimals as DOUBLE.
    precision, scale = x.type.precision + 4, x.type.scale + 4
    digits = f"CAST(replace(CAST({over(f'sum({distinct}{x.sql})')} AS VARCHAR), '.', '') AS HUGEINT)"
    count = over(f"count({distinct}{x.sql})")
    doubled = f"(2 * 10000 * abs({digits}) + {count}) // NULLIF(2 * CAST({count} AS HUGEINT), 0)"
    unit = f"CAST('{'0.' + '0' * (scale - 1) + '1'}' AS DECIMAL({scale},{scale}))"
    type_ = pa.decimal128(precision, scale)
    sql = f"CAST(CAST(sign({digits}) * ({doubled}) AS DECIMAL({precision},0)) * {unit} AS {duckdb_type(type_)})"
    return sql, type_


@rule(exp.Avg)
def _avg(to: Expressions, node: exp.Avg) -> Term:
    return _called(to, node, _average, "avg")


NAMED["mean"] = lambda to, node: _called(to, node, _average, "mean")


def _extreme(function: str) -> Rule:
    def build(x: Term, distinct: str, over: Over) -> tuple[str, pa.DataType]:
        if not types.is_plain(x.type):
            raise Refused(f"{function} of {spark_name(x.type)} is left to Spark")
        return over(f"{function}({x.sql})"), x.type

    return lambda to, node: _called(to, node, build, function)


rule(exp.Min)(_extreme("min"))
rule(exp.Max)(_extreme("max"))


def _spread(function: str, spark: str) -> Rule:
    def build(x: Term, distinct: str, over: Over) -> tuple[str, pa.DataType]:
        if distinct or not (types.is_integer(x.type) or x.type == types.DOUBLE):
            raise Refused(f"{spark} of {spark_name(x.type)} is left to Spark")
        return over(f"{function}(CAST({x.sql} AS DOUBLE))"), types.DOUBLE

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
    def build(x: Term, distinct: str, over: Over) -> tuple[str, pa.DataType]:
        if x.type != types.BOOLEAN:
            raise Refused(f"{spark} of {spark_name(x.type)} is left to Spark")
        return over(f"{function}({x.sql})"), types.BOOLEAN

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
    exp.RowNumber: ("row_number()", types.INT),
    exp.Rank: ("rank()", types.INT),
    exp.DenseRank: ("dense_rank()", types.INT),
    exp.PercentRank: ("percent_rank()", types.DOUBLE),
    exp.CumeDist: ("cume_dist()", types.DOUBLE),
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
        sql, type_ = _RANKS[type(inner)]
        return _ranked(f"CAST({sql} OVER ({over}) AS {duckdb_type(type_)})", type_, terms)
    if isinstance(inner, exp.Ntile):
        return _ranked(f"CAST(ntile({to.integer(inner.this)}) OVER ({over}) AS INTEGER)", types.INT, terms)
    if isinstance(inner, (exp.Lag, exp.Lead)):
        if inner.args.get("default") is not None or node.args.get("spec") is not None:
            raise Refused("lag and lead with a default are left to Spark")
        found = to.term(inner.this)
        by = 1 if inner.args.get("offset") is None else to.integer(argument(inner, "offset"))
        function = "lag" if isinstance(inner, exp.Lag) else "lead"
        return _ranked(f"{function}({found.sql}, {by}) OVER ({over})", found.type, [found, *terms])
    if type(inner) in _FIRST:
        found = to.term(inner.this)
        return _ranked(f"{_FIRST[type(inner)]}({found.sql}) OVER ({over})", found.type, [found, *terms])
    raise Refused(f"{inner.sql_name().lower() if isinstance(inner, exp.Func) else 'this'} in a window is left to Spark")


_FIRST: dict[type[exp.Expr], str] = {exp.FirstValue: "first_value", exp.LastValue: "last_value"}


def _ranked(sql: str, type: pa.DataType, terms: list[Term]) -> Term:
    return replace(derived(sql, type, *terms), windowed=True)


def _window(to: Expressions, node: exp.Window) -> tuple[str, list[Term]]:
    partition = [to.term(each) for each in node.args.get("partition_by") or ()]
    if not all(types.is_plain(term.type) for term in partition):
        raise Refused("a window over nested columns is left to Spark")
    order = node.args.get("order")
    ordered = [] if order is None else [ordering(to.term(each.this), each) for each in order.expressions]
    terms = partition + [term for _, term in ordered]
    if any(term.windowed for term in terms):
        raise Refused("a window inside a window is left to Spark")
    parts = []
    if partition:
        parts.append("PARTITION BY " + ", ".join(term.sql for term in partition))
    if ordered:
        parts.append("ORDER BY " + ", ".join(sql for sql, _ in ordered))
    spec = node.args.get("spec")
    if spec is not None:
        parts.append(_frame(to, spec))
    return " ".join(parts), terms


def _frame(to: Expressions, spec: exp.WindowSpec) -> str:
    kind = str(spec.args.get("kind") or "").upper()
    bounds = []
    for end in ("start", "end"):
        value, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
        if isinstance(value, str) and value.upper() == "UNBOUNDED":
            bounds.append(f"UNBOUNDED {side}")
        elif value is None or (isinstance(value, str) and value.upper() == "CURRENT ROW"):
            bounds.append("CURRENT ROW")
        elif isinstance(value, exp.Expr) and kind == "ROWS":
            bounds.append(f"{to.integer(value)} {side}")
        else:
            raise Refused("this frame of a window is left to Spark")
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        raise Refused("this frame of a window is left to Spark")
    return f"{kind} BETWEEN {bounds[0]} AND {bounds[1]}"


def ordering(term: Term, ordered: exp.Expr) -> tuple[str, Term]:
    """One part of an ORDER BY; NULLs come where Spark puts them."""
    if not types.is_plain(term.type):
        raise Refused(f"an order by {spark_name(term.type)} is left to Spark")
    if ordered.args.get("with_fill") is not None:
        raise Refused("this order is left to Spark")
    way = "DESC" if ordered.args.get("desc") else "ASC"
    nulls = "NULLS FIRST" if ordered.args.get("nulls_first") else "NULLS LAST"
    return f"{term.sql} {way} {nulls}", term
