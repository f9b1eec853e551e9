"""FROM: relations, joins and lateral views."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.incremental.joins import JoinKind
from headwater.incremental.linear import Generate
from headwater.incremental.operator import Operator
from headwater.incremental.translation.expressions import conjuncts, reference, resolved, sql
from headwater.incremental.translation.inner import JoinCondition, Member, joined, with_implied
from headwater.incremental.translation.refusal import NotIncremental
from headwater.incremental.translation.scope import Scope, ScopeColumn, renamed

if TYPE_CHECKING:
    from headwater.incremental.translation.query import Translation

_SIDES = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT,
    ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
    ("", "ANTI"): JoinKind.ANTI,
}


def sources(
    made: Translation, select: exp.Select, outer: Scope | None, conditions: Sequence[exp.Expr] = ()
) -> tuple[Operator, Scope, list[exp.Expr]]:
    """FROM with its joins and lateral views, and those of the conditions that are still to be asked."""
    from_ = select.args.get("from_") or select.args.get("from")
    if from_ is None:
        raise NotIncremental("a query without FROM")
    joins: list[exp.Join] = select.args.get("joins") or []
    inner = list(itertools.takewhile(_is_plain_inner, joins))
    after = joins[len(inner) :]
    linked: list[JoinCondition] = []
    members = [_member(made, from_.this, outer)]
    for join in inner:
        condition = join.args.get("on")
        _require_no_query(condition)
        members.append(_member(made, join.this, outer))
        linked += [JoinCondition(one, len(members)) for one in with_implied(list(conjuncts(condition)))]
    # What a later RIGHT or FULL join fills up with NULL is asked after it.
    late = any(_kind(join) in (JoinKind.RIGHT, JoinKind.FULL) for join in after)
    operator, rest = joined(made, members, [*linked, *(JoinCondition(one) for one in conditions if not late)])
    scope = Scope([column for member in members for column in member.scope.columns], outer)
    for one in rest:
        if one.sees is not None:
            operator = made.filtered(operator, resolved(one.asked, scope))
    for join in after:
        operator = _joined(made, operator, scope, join)
    for lateral in select.args.get("laterals") or []:
        operator = _lateral(made, operator, scope, lateral)
    return operator, scope, list(conditions) if late else [one.asked for one in rest if one.sees is None]


def _member(made: Translation, relation: exp.Expr, outer: Scope | None) -> Member:
    scope = Scope(outer=outer)
    return Member(_relation(made, relation, scope), scope)


def _relation(made: Translation, relation: exp.Expr, scope: Scope) -> Operator:
    """One relation of FROM; its columns are added to the scope."""
    if relation.args.get("sample") or relation.args.get("pivots"):
        raise NotIncremental("TABLESAMPLE and PIVOT", relation)
    if isinstance(relation, exp.Table) and isinstance(relation.this, exp.Identifier):
        found = made.named(relation)
        alias = relation.alias_or_name
    elif isinstance(relation, exp.Subquery):
        found = made.query(relation.this)
        alias = relation.alias
    else:
        raise NotIncremental("this relation can't be followed", relation)
    operator = found.operator
    for name, unique in renamed(found.columns, relation.args.get("alias")):
        scope.columns.append(ScopeColumn(alias, name, unique))
    for join in relation.args.get("joins") or []:
        operator = _joined(made, operator, scope, join)
    for lateral in relation.args.get("laterals") or []:
        operator = _lateral(made, operator, scope, lateral)
    return operator


def _joined(made: Translation, left: Operator, scope: Scope, join: exp.Join) -> Operator:
    kind = _kind(join)
    if kind is None or str(join.args.get("method") or ""):
        raise NotIncremental("this kind of join", join)
    if isinstance(join.this, exp.Lateral):
        return _lateral(made, left, scope, join.this)
    theirs = Scope(outer=scope.outer)
    right = _relation(made, join.this, theirs)
    using = [one.name for one in join.args.get("using") or []]
    if using:
        return _using(made, left, right, scope, theirs, kind, using)
    both = Scope([*scope.columns, *theirs.columns], scope.outer)
    condition = join.args.get("on")
    _require_no_query(condition)
    parts = [resolved(one, both) for one in conjuncts(condition)]
    operator = made.join(left, right, kind, parts)
    if kind not in (JoinKind.SEMI, JoinKind.ANTI):
        scope.columns += theirs.columns
    return operator


def _using(
    made: Translation,
    left: Operator,
    right: Operator,
    scope: Scope,
    theirs: Scope,
    kind: JoinKind,
    using: Sequence[str],
) -> Operator:
    if kind is JoinKind.FULL:
        raise NotIncremental("FULL JOIN … USING", hint="write the condition with ON, and coalesce the columns")
    only_left = kind in (JoinKind.SEMI, JoinKind.ANTI)
    parts: list[exp.Expr] = []
    mine: list[ScopeColumn] = []
    behind: set[ScopeColumn] = set()
    for name in using:
        one, other = scope.find([name]), theirs.find([name])
        if one is None or other is None:
            raise NotIncremental(f"USING ({name}): both sides need the column")
        parts.append(exp.EQ(this=reference(one[0].unique), expression=reference(other[0].unique)))
        mine.append(replace(other[0] if kind is JoinKind.RIGHT else one[0], merged=True))
        behind |= {one[0], other[0]}
    operator = made.join(left, right, kind, parts)
    # Left's column that RIGHT fills up with NULL, and right's, are still there by the names of their relations.
    rest = [*scope.columns, *([] if only_left else theirs.columns)]
    rest = [one for one in rest if not (one.merged and one in behind)]
    scope.columns[:] = [*mine, *(replace(one, behind=True) if one in behind else one for one in rest)]
    return operator


def _lateral(made: Translation, operator: Operator, scope: Scope, lateral: exp.Lateral) -> Operator:
    alias = lateral.args.get("alias")
    if not lateral.args.get("view") or not isinstance(alias, exp.TableAlias):
        raise NotIncremental("LATERAL with a subquery", lateral)
    given = [one.name for one in alias.columns]
    if not given:
        raise NotIncremental("LATERAL VIEW without column names", lateral, "name them: … AS value")
    fresh = [made.names.new(name) for name in given]
    call = sql(resolved(lateral.this, scope))
    generated = Generate(operator, call, fresh, outer=bool(lateral.args.get("outer")))
    scope.add(alias.name, dict(zip(given, fresh, strict=True)))
    return generated


def _require_no_query(condition: exp.Expr | None) -> None:
    if condition is not None and condition.find(exp.Query) is not None:
        raise NotIncremental("a subquery in ON", condition)


def _kind(join: exp.Join) -> JoinKind | None:
    return _SIDES.get((str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()))


def _is_plain_inner(join: exp.Join) -> bool:
    """Whether a join is an inner one by its condition alone."""
    if isinstance(join.this, exp.Lateral) or join.args.get("using") or join.args.get("method"):
        return False
    return _kind(join) is JoinKind.INNER
