"""GROUP BY with its shorthands: ordinals, aliases, ALL, ROLLUP, CUBE, GROUPING SETS."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.incremental.aggregates import Aggregate
from headwater.incremental.linear import Projection, UnionAll
from headwater.incremental.operator import Operator
from headwater.incremental.translation.expressions import IsAggregate, has_aggregate, reference, resolved, sql
from headwater.incremental.translation.refusal import NotIncremental
from headwater.incremental.translation.scope import Scope, UniqueNames, parts_of

GROUPING = "grouping_id"


@dataclass(frozen=True)
class GroupingSets:
    """The keys of a GROUP BY, and which of them make each set."""

    keys: list[exp.Expr]
    sets: list[frozenset[int]]
    several: bool = False
    """Written with ROLLUP, CUBE or GROUPING SETS, so that one can ask which set a row is of."""

    @property
    def plain(self) -> bool:
        return not self.several

    def grouping(self, keys: Sequence[str]) -> dict[tuple[str, ...], exp.Expr]:
        """`grouping(x)` and `grouping_id(…)`, by their names and the keys that they are asked of, over the column
        GROUPING. `keys`: the resolved text of each."""
        return {} if self.plain else _grouping(keys)

    def expanded(
        self,
        input: Operator,
        below: Sequence[str],
        columns: Sequence[str],
        calls: Mapping[str, str],
        names: UniqueNames,
        nothing: Callable[[str], str],
    ) -> Operator:
        """One aggregate over a copy of the rows for each set; keys that are not in a set are NULL in its copy.

        `nothing`: NULL of a column's type, as SQL.
        """
        at = {name: index for index, name in reversed(list(enumerate(columns)))}
        copies = {name: names.new(name.rsplit("#", 1)[0]) for name in below}
        number, place = names.new(GROUPING), names.new("set")
        kept = {name: sql(reference(name)) for name in input.columns}
        parts: list[Operator] = []
        for at_, one in enumerate(self.sets):
            own = [name for name in below if at[name] in one]
            keys = {copy: kept[name] if name in own else nothing(name) for name, copy in copies.items()}
            which = sum(1 << (len(columns) - 1 - index) for index in range(len(columns)) if index not in one)
            plain = {name: name for name in input.columns} | {copies[name]: name for name in own}
            # A set that is named twice gives its groups twice.
            told = {number: f"CAST({which} AS BIGINT)", place: str(self.sets[:at_].count(one))}
            parts.append(Projection(input, {**kept, **keys, **told}, plain))
        rows = UnionAll(parts, [*input.columns, *copies.values(), number, place])
        groups = Aggregate(rows, [*copies.values(), number, place], {name: text for text, name in calls.items()})
        named = {**copies, **{name: name for name in calls.values()}, GROUPING: number}
        return Projection(groups, {name: sql(reference(one)) for name, one in named.items()}, named)


def grouping_sets(
    group: exp.Group | None,
    aliases: Mapping[str, exp.Expr],
    chosen: Sequence[exp.Expr],
    scope: Scope,
    is_aggregate: IsAggregate,
) -> GroupingSets:
    """What a GROUP BY means."""
    if group is None:
        return GroupingSets([], [frozenset()])
    if group.args.get("all"):
        others = [one for one in chosen if not has_aggregate(one, is_aggregate)]
        return GroupingSets(others, [frozenset(range(len(others)))])
    keys: list[exp.Expr] = []
    texts: list[str] = []
    choices: list[list[frozenset[int]]] = []

    def at(one: exp.Expr) -> int:
        found = _meant(one, aliases, chosen, scope)
        text = sql(resolved(found, scope))
        if text not in texts:
            texts.append(text)
            keys.append(found)
        return texts.index(text)

    for one in group.expressions:
        if isinstance(one, (exp.Rollup, exp.Cube)):
            choices.append(_of_rollup(one, at))
        elif isinstance(one, exp.GroupingSets):
            choices.append(_of_sets(one, at))
        else:
            choices.append([frozenset({at(one)})])
    for name in ("rollup", "cube"):
        for one in group.args.get(name) or []:
            if one.expressions:
                choices.append(_of_rollup(one, at))
            else:  # GROUP BY a, b WITH ROLLUP: of all that stands before it
                choices = [_of_rollup(type(one)(expressions=group.expressions), at)]
    given = group.args.get("grouping_sets") or []
    if given:  # GROUP BY a, b GROUPING SETS (…): the keys are just listed
        choices = [_of_sets(one, at) for one in given]
    sets = [frozenset().union(*combination) for combination in itertools.product(*choices)]
    written = any(isinstance(one, (exp.Rollup, exp.Cube, exp.GroupingSets)) for one in group.expressions)
    several = written or any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets"))
    return GroupingSets(keys, sets, several)


def _meant(one: exp.Expr, aliases: Mapping[str, exp.Expr], chosen: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
    """An ordinal or an alias stands for a column of the result; a column of the sources comes first."""
    if isinstance(one, exp.Literal) and not one.is_string:
        if not one.name.isdecimal() or not 0 < int(one.name) <= len(chosen):
            raise NotIncremental("this is not the number of a column of the result", one)
        return chosen[int(one.name) - 1]
    if isinstance(one, exp.Column) and scope.find(parts_of(one)) is None:
        found = aliases.get(one.name.lower())
        if found is not None and not one.table:
            return found
    return one


def _members(one: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(one, exp.Tuple):
        yield from one.expressions
    elif isinstance(one, exp.Paren):
        yield one.this
    else:
        yield one


def _of_rollup(one: exp.Expr, at: Callable[[exp.Expr], int]) -> list[frozenset[int]]:
    parts = [frozenset(at(member) for member in _members(part)) for part in one.expressions]
    if isinstance(one, exp.Rollup):
        return [frozenset().union(*parts[:length]) for length in range(len(parts), -1, -1)]
    found = []
    for length in range(len(parts), -1, -1):
        found += [frozenset().union(*some) for some in itertools.combinations(parts, length)]
    return found


def _of_sets(one: exp.Expr, at: Callable[[exp.Expr], int]) -> list[frozenset[int]]:
    found: list[frozenset[int]] = []
    for part in one.expressions:
        if isinstance(part, (exp.Rollup, exp.Cube)):
            found += _of_rollup(part, at)
        else:
            found.append(frozenset(at(member) for member in _members(part)))
    return found


def _grouping(keys: Sequence[str]) -> dict[tuple[str, ...], exp.Expr]:
    whole = reference(GROUPING)
    found: dict[tuple[str, ...], exp.Expr] = {("groupingid",): whole, ("groupingid", *keys): whole}
    for index, key in enumerate(keys):
        shift = len(keys) - 1 - index
        bit = f"CAST(SHIFTRIGHT({sql(whole)}, {shift}) & 1 AS TINYINT)"
        parsed: exp.Expr = exp.maybe_parse(bit, dialect="spark")
        found["grouping", key] = parsed
    return found
