"""Expressions in other terms: over a group's columns, over the result's names, or as people wrote them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headwater.incremental.translation.expressions import AROUND_A_CALL, reference, resolved, sql
from headwater.incremental.translation.refusal import NotIncremental
from headwater.incremental.translation.scope import Scope


def rewritten(
    value: exp.Expr,
    scope: Scope,
    keys: Mapping[str, str],
    calls: Mapping[str, str],
    grouping: Mapping[tuple[str, ...], exp.Expr],
) -> exp.Expr:
    """A value over a group's columns: its aggregates and group expressions, wherever they stand in it."""
    holder = exp.Paren(this=value.copy())

    def visit(node: exp.Expr, of_a_window: bool = False) -> None:
        if isinstance(node, exp.Query):
            return  # its aggregates are its own
        text = None if of_a_window else _text(node, scope)
        if text is not None and text in calls:
            node.replace(reference(calls[text]))
            return
        if text is not None and text in keys:
            node.replace(reference(keys[text]))
            return
        if isinstance(node, (exp.Grouping, exp.GroupingId)):
            asked = (node.key, *(_text(one, scope) or sql(one) for one in node.expressions))
            if asked not in grouping:
                raise NotIncremental("this is not asked of the keys of GROUP BY as they stand there", node)
            node.replace(grouping[asked].copy())
            return
        through = isinstance(node, exp.Window) or (of_a_window and isinstance(node, AROUND_A_CALL))
        for inner in list(node.iter_expressions()):
            visit(inner, through and inner is node.this)

    visit(holder.this)
    inner = holder.this
    assert isinstance(inner, exp.Expr)
    return inner


def _text(node: exp.Expr, scope: Scope) -> str | None:
    if isinstance(node, (exp.Identifier, exp.Query, exp.Where, exp.Order)):
        return None
    try:
        return sql(resolved(node, scope))
    except NotIncremental:
        return None


def with_aliases(condition: exp.Expr, aliases: Mapping[str, exp.Expr], scope: Scope) -> exp.Expr:
    """HAVING and QUALIFY may name a column of the result; those of the sources come first."""
    holder = exp.Paren(this=condition)
    for column in list(holder.find_all(exp.Column)):
        if column.find_ancestor(exp.Query) is not None or column.table:
            continue
        found = aliases.get(column.name.lower())
        if found is not None and scope.find([column.name]) is None:
            column.replace(exp.paren(found.copy()))
    inner = holder.this
    assert isinstance(inner, exp.Expr)
    return inner


def for_people(condition: exp.Expr) -> str:
    shown = condition.copy()
    for column in shown.find_all(exp.Column):
        column.set("this", exp.to_identifier(column.name.rsplit("#", 1)[0]))
    return shown.sql(dialect="spark")
