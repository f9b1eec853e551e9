"""Subqueries as joins: EXISTS and IN become semi and anti joins, scalar ones a join with their one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.incremental.aggregates import Aggregate
from headwater.incremental.joins import Join, JoinKind
from headwater.incremental.keys import is_wider
from headwater.incremental.linear import Projection
from headwater.incremental.operator import Operator
from headwater.incremental.translation.expressions import (
    aggregates_in,
    conjunction,
    conjuncts,
    reference,
    resolved,
    sql,
    uniques,
)
from headwater.incremental.translation.refusal import NotIncremental
from headwater.incremental.translation.scope import Scope, parts_of
from headwater.incremental.translation.sources import sources

if TYPE_CHECKING:
    from headwater.incremental.translation.query import Translation


def with_condition(made: Translation, operator: Operator, scope: Scope, condition: exp.Expr) -> Operator:
    """The rows for which a condition holds; its subqueries become joins."""
    simple: list[exp.Expr] = []
    for part in conjuncts(condition):
        inner = part.unnest()
        negated = isinstance(inner, exp.Not)
        asked = inner.this.unnest() if isinstance(inner, exp.Not) else inner
        if isinstance(asked, exp.Exists):
            operator = _exists(made, operator, scope, asked.this, negated=negated)
        elif isinstance(asked, exp.In) and asked.args.get("query") is not None:
            operator = _in(made, operator, scope, asked, negated=negated)
        else:
            operator, [value] = with_scalars(made, operator, scope, [part])
            simple.append(resolved(value, scope))
    for one in simple:
        if one.find(exp.Query) is not None:
            raise NotIncremental(
                "a subquery inside of OR or CASE", one, "write it as a join, or as a condition of its own"
            )
    joined = conjunction(simple)
    return operator if joined is None else made.filtered(operator, joined)


def with_scalars(
    made: Translation, operator: Operator, scope: Scope, values: Sequence[exp.Expr]
) -> tuple[Operator, list[exp.Expr]]:
    """Values whose scalar subqueries are columns of a join with their one row."""
    found: list[exp.Expr] = []
    for value in values:
        holder = exp.Paren(this=value.copy())
        for subquery in list(holder.find_all(exp.Subquery)):
            if subquery.find_ancestor(exp.Query) is not None or isinstance(subquery.parent, (exp.In, exp.Exists)):
                continue
            operator, replacement = _scalar(made, operator, scope, subquery.this)
            subquery.replace(replacement)
        inner = holder.this
        assert isinstance(inner, exp.Expr)
        found.append(inner)
    return operator, found


# --- EXISTS and IN


def _exists(made: Translation, operator: Operator, scope: Scope, query: exp.Expr, *, negated: bool) -> Operator:
    inner = _decorrelated(made, query, scope, wanted=False)
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    return made.join(operator, inner.operator, kind, inner.links)


def _in(made: Translation, operator: Operator, scope: Scope, asked: exp.In, *, negated: bool) -> Operator:
    query = asked.args["query"]
    inner = _decorrelated(made, query.this if isinstance(query, exp.Subquery) else query, scope, wanted=True)
    left = asked.this.unnest()
    given = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    if len(given) != len(inner.columns):
        raise NotIncremental("IN with another number of columns", asked)
    values, inner = _of_one_type(made, operator, [resolved(one, scope) for one in given], inner)
    same = [exp.EQ(this=value, expression=reference(name)) for value, name in zip(values, inner.columns, strict=True)]
    if not negated:
        return made.join(operator, inner.operator, JoinKind.SEMI, [*same, *inner.links])
    return _not_in(made, operator, values, inner, same)


def _of_one_type(
    made: Translation, operator: Operator, values: Sequence[exp.Expr], inner: _Inner
) -> tuple[list[exp.Expr], _Inner]:
    """The values and the query's columns in the types as which they are compared."""
    types, asked, columns = made.types, [], []
    kept = {name: sql(reference(name)) for name in inner.operator.columns}
    more: dict[str, str] = {}
    for value, name in zip(values, inner.columns, strict=True):
        one, other = types.of(operator, value), types.of(inner.operator, reference(name))
        common = types.among(one, other)
        asked.append(value if one == common else types.cast(value, common))
        columns.append(name if other == common else made.names.new(name.rsplit("#", 1)[0]))
        if other != common:
            more[columns[-1]] = sql(types.cast(reference(name), common))
    if not more:
        return asked, inner
    widened = Projection(inner.operator, {**kept, **more}, {name: name for name in kept})
    return asked, replace(inner, operator=widened, columns=columns)


def _not_in(
    made: Translation,
    operator: Operator,
    values: Sequence[exp.Expr],
    inner: _Inner,
    same: Sequence[exp.Expr],
) -> Operator:
    """NOT IN keeps a row if the query gives nothing, or if the row's value is known, and so are all of the query's, and
    none is the same."""
    if len(values) > 1:
        raise NotIncremental("NOT IN with several columns", hint="write NOT EXISTS")
    value, name = values[0], inner.columns[0]
    kept = made.join(operator, inner.operator, JoinKind.ANTI, [*same, *inner.links])
    # Whether there are rows and unknown values among them changes seldom, however often the rows do.
    links = [_sides(link, set(operator.columns)) for link in inner.links]
    for one, other in links:
        outer, own = made.types.of(operator, one), made.types.of(inner.operator, reference(other))
        common = made.types.equal(outer, own)
        if own != common and not is_wider(common, own):  # two values of the query's may be the same to the one outside
            raise NotIncremental("NOT IN that is linked by columns of different types", one, "write NOT EXISTS")
    groups = list(dict.fromkeys(other for _, other in links))
    rows, known = made.names.new("rows"), made.names.new("known")
    counted = Aggregate(inner.operator, groups, {rows: "COUNT(1)", known: f"COUNT({sql(reference(name))})"})
    fresh = {group: made.names.new(group.rsplit("#", 1)[0]) for group in groups}
    some, unknown = made.names.new("some"), made.names.new("unknown")
    told = Projection(
        counted,
        {
            **{fresh[group]: sql(reference(group)) for group in groups},
            some: f"{sql(reference(rows))} > 0",
            unknown: f"{sql(reference(rows))} > {sql(reference(known))}",
        },
        {fresh[group]: group for group in groups},
    )
    on = [exp.EQ(this=one.copy(), expression=reference(fresh[other])) for one, other in links]
    linked = made.join(kept, told, JoinKind.LEFT if groups else JoinKind.INNER, on)
    condition = (
        f"NOT COALESCE({sql(reference(some))}, FALSE) OR "
        f"(NOT COALESCE({sql(reference(unknown))}, FALSE) AND ({sql(value)}) IS NOT NULL)"
    )
    parsed: exp.Expr = exp.maybe_parse(condition, dialect="spark")
    return made.filtered(linked, parsed)


def _sides(link: exp.Expr, outer: set[str]) -> tuple[exp.Expr, str]:
    """A correlation `outer = inner` as the outer expression and the inner column."""
    if isinstance(link, exp.EQ):
        for one, other in ((link.this, link.expression), (link.expression, link.this)):
            if uniques(one) <= outer and isinstance(other, exp.Column):
                return one, other.name
    raise NotIncremental("NOT IN with such a condition on the query around it", link, "write NOT EXISTS")


# --- scalars


def _scalar(made: Translation, operator: Operator, scope: Scope, query: exp.Expr) -> tuple[Operator, exp.Expr]:
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        raise NotIncremental("a scalar subquery is one SELECT of one column", query)
    value = query.expressions[0]
    value = value.this if isinstance(value, exp.Alias) else value
    if query.args.get("group") is not None or not aggregates_in(value, made.is_aggregate):
        raise NotIncremental("a scalar subquery that is no aggregate", query, "aggregate it: max(…)")
    inner = _decorrelated(made, query, scope, wanted=True, around=operator)
    [name] = inner.columns
    scope.hide(name)
    if not inner.links:
        return Join(operator, inner.operator, JoinKind.INNER, ()), reference(name)
    empty = _of_nothing(made, query, inner)
    if empty is None:
        return made.join(operator, inner.operator, JoinKind.LEFT, inner.links), reference(name)
    # Aggregates over nothing have a value of their own, such as a count's 0.
    there = made.names.new("there")
    kept = {one: sql(reference(one)) for one in inner.operator.columns}
    marked = Projection(inner.operator, {**kept, there: "TRUE"}, {one: one for one in kept})
    joined = made.join(operator, marked, JoinKind.LEFT, inner.links)
    scope.hide(there)
    chosen = f"CASE WHEN {sql(reference(there))} THEN {sql(reference(name))} ELSE {empty} END"
    return joined, exp.maybe_parse(chosen, dialect="spark")


def _of_nothing(made: Translation, query: exp.Select, inner: _Inner) -> str | None:
    """What a linked scalar subquery gives where it finds no rows, as SQL; None for NULL."""
    if isinstance(query.expressions[0].unalias(), (exp.Sum, exp.Avg, exp.Min, exp.Max)):
        return None
    assert inner.unlinked is not None
    nowhere = inner.unlinked.copy()
    nowhere.set("where", exp.Where(this=exp.false()))
    found = made.query(nowhere)
    empty = made.types.literal_of_nothing(found.operator, found.columns[0][1])
    if empty is not None and query.args.get("having") is not None:
        raise NotIncremental("HAVING in a linked subquery that has a value over nothing", query)
    return empty


@dataclass(frozen=True)
class _Inner:
    """A subquery without the conditions that link it to the query around it."""

    operator: Operator
    columns: list[str]
    links: list[exp.Expr]
    unlinked: exp.Select | None = None
    """Its text without them, where it has some."""


def _decorrelated(
    made: Translation, query: exp.Expr, scope: Scope, *, wanted: bool, around: Operator | None = None
) -> _Inner:
    """A subquery as an operator, and its links as resolved conditions over both. `around`: of a scalar one, the rows
    of the query around it."""
    if not isinstance(query, exp.Select):
        plain_ = made.query(query)
        return _Inner(plain_.operator, [unique for _, unique in plain_.columns], [])
    where = query.args.get("where")
    parts = list(conjuncts(where.this)) if where is not None else []
    rows, inside, _ = sources(made, query.copy(), scope)
    linking = [one for one in parts if _is_linked(one, inside, scope)]
    if not linking:
        found = made.query(query)
        return _Inner(found.operator, [unique for _, unique in found.columns], [])
    if query.args.get("group") is not None or (around is not None and query.args.get("distinct") is not None):
        raise NotIncremental("a subquery with GROUP BY that depends on the query around it", query)
    # What the links need of the inside is selected alongside the columns.
    own = query.copy()
    rest = conjunction([one.copy() for one in parts if one not in linking])
    own.set("where", None if rest is None else exp.Where(this=rest))
    if around is not None:
        return _grouped_by_links(made, own, linking, (rows, inside), (around, scope))
    asked = [*own.expressions, *([own.args["having"]] if own.args.get("having") else [])]
    if any(aggregates_in(one, made.is_aggregate) for one in asked):
        raise NotIncremental("an aggregate in a subquery that depends on the query around it", query)
    chosen = list(own.expressions) if wanted else []
    needed: list[exp.Column] = []
    for link in linking:
        for column in link.find_all(exp.Column):
            if (
                column.find_ancestor(exp.Query) is not None
                and column.find_ancestor(exp.Query) is not link.parent_select
            ):
                raise NotIncremental("a subquery in a condition on the query around it", link)
            if inside.find(parts_of(column)) is not None and column not in needed:
                needed.append(column)
    aliased = [exp.alias_(column.copy(), f"__link_{at}", quoted=True) for at, column in enumerate(needed)]
    own.set("expressions", [*[one.copy() for one in chosen], *aliased])
    found = made.query(own)
    names = [unique for _, unique in found.columns]
    links = []
    for link in linking:
        copy = exp.Paren(this=link.copy())
        for column in list(copy.find_all(exp.Column)):
            at = next((index for index, one in enumerate(needed) if one == column), None)
            if at is not None:
                column.replace(reference(names[len(chosen) + at]))
            else:
                column.replace(resolved(column, scope))
        links.append(copy.this)
    return _Inner(found.operator, names[: len(chosen)], links)


def _grouped_by_links(
    made: Translation,
    own: exp.Select,
    linking: Sequence[exp.Expr],
    inside: tuple[Operator, Scope],
    around: tuple[Operator, Scope],
) -> _Inner:
    """A scalar subquery without its links: a row for each value that they compare with the query around it."""
    keys: list[exp.Expr] = []
    outer: list[exp.Expr] = []
    for link in linking:
        mine, theirs = _inside_and_outside(link, inside[1])
        value = resolved(theirs, around[1])
        one, other = made.types.of(around[0], value), made.types.of(inside[0], resolved(mine, inside[1]))
        common = made.types.equal(one, other)
        keys.append(mine.copy() if other == common else made.types.cast(mine, common))
        outer.append(value if one == common else made.types.cast(value, common))
    unlinked = own.copy()
    aliased = [exp.alias_(key.copy(), f"__link_{at}", quoted=True) for at, key in enumerate(keys)]
    own.set("expressions", [*own.expressions, *aliased])
    own.set("group", exp.Group(expressions=keys))
    found = made.query(own)
    name, *names = [unique for _, unique in found.columns]
    links = [exp.EQ(this=value, expression=reference(key)) for value, key in zip(outer, names, strict=True)]
    return _Inner(found.operator, [name], list(links), unlinked)


def _inside_and_outside(link: exp.Expr, inside: Scope) -> tuple[exp.Expr, exp.Expr]:
    """The sides of an equality: the subquery's own, and that of the query around it."""
    equality = link.unnest()
    if isinstance(equality, exp.EQ) and equality.find(exp.Query) is None:
        for one, other in ((equality.this, equality.expression), (equality.expression, equality.this)):
            own, others = (
                [inside.find(parts_of(column)) is not None for column in side.find_all(exp.Column)]
                for side in (one, other)
            )
            if own and all(own) and not any(others):
                return one, other
    raise NotIncremental("a scalar subquery that is linked by more than equality", link)


def _is_linked(part: exp.Expr, inside: Scope, outside: Scope) -> bool:
    """Whether a condition names a column of the query around it."""
    for column in part.find_all(exp.Column):
        if inside.find(parts_of(column)) is None and outside.find(parts_of(column)) is not None:
            if column.find_ancestor(exp.Query) is not part.find_ancestor(exp.Query):
                raise NotIncremental("a subquery that depends on a query two levels above", part)
            return True
    return False
