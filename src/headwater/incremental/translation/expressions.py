"""Expressions of a query's text, over the plan's own names for columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from headwater.incremental.translation.refusal import NotIncremental
from headwater.incremental.translation.scope import Scope, parts_of

IsAggregate = Callable[[str], bool]
"""Whether a function, by its name, is an aggregate: the engine knows."""

AROUND_A_CALL = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
"""What stands around a call of a function, and is of it."""

WINDOW, SESSION = "window", "session_window"
"""Functions that put a time into windows; a column of a group has their name."""


def resolved(expression: exp.Expr, scope: Scope) -> exp.Expr:
    """A copy in which every column stands under its unique name; refused if one is of the query around."""
    copy = expression.copy()
    holder = exp.Paren(this=copy)
    for column in list(holder.find_all(exp.Column)):
        if column.find_ancestor(exp.Query) is not None:
            continue  # a subquery's own
        found = scope.find(parts_of(column))
        if found is None:
            raise NotIncremental("a column of the query around it is used where it can't be followed", column)
        seen, fields = found
        made: exp.Expr = reference(seen.unique)
        for name in fields:
            made = exp.Dot(this=made, expression=exp.to_identifier(name, quoted=True))
        column.replace(made)
    inner = holder.this
    assert isinstance(inner, exp.Expr)
    return inner


def reference(unique: str) -> exp.Column:
    """A column by its unique name."""
    return exp.Column(this=exp.to_identifier(unique, quoted=True))


def uniques(expression: exp.Expr) -> set[str]:
    """The unique names that a resolved expression uses."""
    return {column.name for column in expression.find_all(exp.Column)}


def sql(expression: exp.Expr) -> str:
    return expression.sql(dialect="spark")


def plain(expression: exp.Expr) -> str | None:
    """The unique name, if a resolved expression is just a column."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression.name if isinstance(expression, exp.Column) else None


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that all have to hold."""
    if condition is None:
        return
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.this)
        yield from conjuncts(condition.expression)
    elif isinstance(condition, exp.Paren) and isinstance(condition.this, (exp.And, exp.Paren)):
        yield from conjuncts(condition.this)
    else:
        yield condition


def conjunction(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    return exp.and_(*parts, copy=False) if parts else None


def aggregates_in(expression: exp.Expr, is_aggregate: IsAggregate) -> list[exp.Expr]:
    """The aggregate calls of an expression, with their FILTER; window functions and subqueries are no such calls, and
    what stands inside of a window function may be one."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr, of_a_window: bool = False) -> None:
        if isinstance(node, exp.Query):
            return
        if _is_call(node, is_aggregate) and not of_a_window:
            found.append(node)
            return
        through = isinstance(node, exp.Window) or (of_a_window and isinstance(node, AROUND_A_CALL))
        for inner in node.iter_expressions():
            visit(inner, through and inner is node.this)

    visit(expression)
    return found


def has_aggregate(expression: exp.Expr, is_aggregate: IsAggregate) -> bool:
    return bool(aggregates_in(expression, is_aggregate))


def _is_call(node: exp.Expr, is_aggregate: IsAggregate) -> bool:
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        return True
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
        return _is_call(node.this, is_aggregate)
    if isinstance(node, exp.AggFunc):
        return not isinstance(node, (exp.Grouping, exp.GroupingId))
    return isinstance(node, exp.Anonymous) and is_aggregate(node.name)


def windows_in(expression: exp.Expr) -> list[exp.Window]:
    """The window functions of an expression."""
    return [one for one in expression.find_all(exp.Window) if one.find_ancestor(exp.Query, exp.Window) is None]


def window_call(expression: exp.Expr) -> str | None:
    """`window` or `session_window`, if an expression is such a call."""
    inner = expression.unnest()
    name = inner.name.lower() if isinstance(inner, exp.Anonymous) else ""
    return name if name in (WINDOW, SESSION) else None


def require_no_session(expression: exp.Expr) -> None:
    """A session is made of several rows: no row has one of its own."""
    if any(window_call(one) == SESSION for one in expression.find_all(exp.Anonymous)):
        raise NotIncremental("session_window outside of GROUP BY", expression)
