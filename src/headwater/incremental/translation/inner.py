"""Inner joins of several relations: each condition stands where it can first be asked, relations follow their links.

`FROM a, b, c WHERE …` names the relations in any order and says how they are linked only then. Joined as they stand
they would be cross joins, which no key narrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.incremental.joins import JoinKind
from headwater.incremental.operator import Operator
from headwater.incremental.translation.expressions import conjuncts, resolved, uniques
from headwater.incremental.translation.scope import Scope, parts_of

if TYPE_CHECKING:
    from headwater.incremental.translation.query import Translation


@dataclass(frozen=True)
class Member:
    """A relation of the join, with the columns that it brings."""

    operator: Operator
    scope: Scope


@dataclass(frozen=True)
class JoinCondition:
    """What has to hold; of ON it sees the relations up to its own, of WHERE all of them."""

    asked: exp.Expr
    sees: int | None = None


@dataclass(frozen=True)
class _Placed:
    """A condition over the plan's names, and the relations whose columns it needs."""

    condition: exp.Expr
    members: frozenset[int]


def joined(
    made: Translation, members: Sequence[Member], conditions: Sequence[JoinCondition]
) -> tuple[Operator, list[JoinCondition]]:
    """The relations as one, and the conditions that could not be asked of them."""
    placed: list[_Placed] = []
    rest: list[JoinCondition] = []
    for one in conditions:
        found = _placed(one.asked, members[: one.sees])
        if found is None:
            rest.append(one)
        else:
            placed.append(found)
    operators = []
    for at, member in enumerate(members):
        operator = member.operator
        for found in placed:
            if found.members == {at}:
                operator = made.filtered(operator, found.condition)
        operators.append(operator)
    waiting = [one for one in placed if len(one.members) > 1]
    operator, within, left = operators[0], {0}, list(range(1, len(members)))
    while left:
        nearest = next((at for at in left if _links(waiting, within, at)), left[0])
        left.remove(nearest)
        within.add(nearest)
        parts = [one.condition for one in waiting if one.members <= within]
        waiting = [one for one in waiting if not one.members <= within]
        operator = made.join(operator, operators[nearest], JoinKind.INNER, parts)
    return operator, rest


def with_implied(conditions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The conditions, and what all sides of an OR have in common: `(a AND x) OR (a AND y)` holds only if `a` does."""
    found = list(conditions)
    for one in conditions:
        sides = [list(conjuncts(side)) for side in _sides(one)]
        if len(sides) > 1:
            common = [part for part in sides[0] if all(part in side for side in sides[1:])]
            found += [part for part in common if part not in found]
    return found


def _sides(condition: exp.Expr) -> list[exp.Expr]:
    inner = condition.unnest()
    if isinstance(inner, exp.Or):
        return [*_sides(inner.this), *_sides(inner.expression)]
    return [inner]


def _placed(condition: exp.Expr, members: Sequence[Member]) -> _Placed | None:
    """None if a condition has to wait: it has a subquery, or names what is not among the relations."""
    if condition.find(exp.Query) is not None:
        return None
    scope = Scope([column for member in members for column in member.scope.columns])
    if any(scope.find(parts_of(column)) is None for column in condition.find_all(exp.Column)):
        return None
    value = resolved(condition, scope)
    names = uniques(value)
    needed = frozenset(at for at, member in enumerate(members) if names & set(member.operator.columns))
    return _Placed(value, needed) if needed else None


def _links(waiting: Sequence[_Placed], within: set[int], at: int) -> bool:
    """Whether an equality links a relation with those that are joined already."""
    equal = [one for one in waiting if isinstance(one.condition.unnest(), (exp.EQ, exp.NullSafeEQ))]
    return any(at in one.members and one.members <= within | {at} for one in equal)
