"""A query's operators, part by part in the order in which SQL evaluates them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import DataType, StructType
from sqlglot import exp

from headwater.incremental.aggregates import Aggregate, Sessions
from headwater.incremental.joins import Join, JoinKind, Pair
from headwater.incremental.keys import is_wider
from headwater.incremental.linear import Filter, Projection, Scan, UnionAll
from headwater.incremental.operator import Operator
from headwater.incremental.sets import SetOperation
from headwater.incremental.translation.expressions import (
    SESSION,
    IsAggregate,
    aggregates_in,
    conjunction,
    conjuncts,
    plain,
    reference,
    require_no_session,
    resolved,
    sql,
    uniques,
    window_call,
    windows_in,
)
from headwater.incremental.translation.group_by import grouping_sets
from headwater.incremental.translation.inner import with_implied
from headwater.incremental.translation.refusal import NotIncremental
from headwater.incremental.translation.scope import Scope, ScopeColumn, UniqueNames, parts_of, renamed
from headwater.incremental.translation.sources import sources
from headwater.incremental.translation.terms import for_people, rewritten, with_aliases
from headwater.incremental.translation.types import Types, with_casts
from headwater.incremental.windows import Window


@dataclass(frozen=True)
class TranslatedQuery:
    """An operator, and the names that a query around it has for its columns, in their order."""

    operator: Operator
    columns: list[tuple[str, str]]
    """Name in the text → unique name."""


class Translation:
    """Translates one query; `columns_of` gives the columns of a source by the name it has in the text."""

    def __init__(self, columns_of: Callable[[str], Sequence[str]], is_aggregate: IsAggregate, types: Types) -> None:
        self.names = UniqueNames()
        self.is_aggregate = is_aggregate
        self.types = types
        self._columns_of = columns_of
        self._ctes: list[dict[str, exp.CTE]] = []

    # --- queries

    def query(self, query: exp.Expr, outer: Scope | None = None) -> TranslatedQuery:
        """A SELECT, a set operation, or one of them in brackets."""
        if isinstance(query, exp.Subquery) and not query.args.get("alias"):
            return self.query(query.this, outer)
        if not isinstance(query, exp.Query):
            raise NotIncremental("this is not a query that can be followed", query)
        self._ctes.append({cte.alias.lower(): cte for cte in query.ctes})
        try:
            if query.args.get("limit") or query.args.get("offset"):
                raise NotIncremental(
                    "LIMIT inside of a query",
                    query.args.get("limit") or query.args.get("offset"),
                    "rank the rows with row_number() and filter by it",
                )
            if isinstance(query, exp.Select):
                return self._select(query, outer)
            if isinstance(query, exp.SetOperation):
                return self._set_operation(query)
            raise NotIncremental("this is not a query that can be followed", query)
        finally:
            self._ctes.pop()

    def _set_operation(self, query: exp.SetOperation) -> TranslatedQuery:
        left, right = self.query(query.this), self.query(query.expression)
        if len(left.columns) != len(right.columns):
            raise NotIncremental("both sides of a set operation have the same number of columns", query)
        names = [name for name, _ in left.columns]
        fresh = [self.names.new(name) for name in names]
        sides = self._of_one_type([_narrowed(one) for one in (left, right)])
        keeps_all = query.args.get("distinct") is False
        if isinstance(query, exp.Union):
            operator: Operator = UnionAll(sides, fresh)
            if not keeps_all:
                operator = Aggregate(operator, fresh, {})
        else:
            intersect = isinstance(query, exp.Intersect)
            operator = SetOperation(sides[0], sides[1], fresh, intersect=intersect, all=keeps_all)
        return TranslatedQuery(operator, list(zip(names, fresh, strict=True)))

    def _of_one_type(self, sides: Sequence[Operator]) -> list[Operator]:
        """The sides of a set operation with the types that its result has: each may change without the other."""
        have, want = self.types.together(sides)
        made: list[Operator] = []
        for side, own in zip(sides, have, strict=True):
            plain_ = {name: name for name, one, other in zip(side.columns, own, want, strict=True) if one == other}
            values = with_casts(side, self.types, own, want)
            made.append(side if len(plain_) == len(values) else Projection(side, values, plain_))
        return made

    # --- SELECT

    def _select(self, select: exp.Select, outer: Scope | None) -> TranslatedQuery:
        from headwater.incremental.translation.subqueries import with_condition, with_scalars

        self._refuse(select)
        where = select.args.get("where")
        conditions = [] if where is None else with_implied(list(conjuncts(where.this)))
        operator, scope, waiting = sources(self, select, outer, conditions)
        rest = conjunction([one.copy() for one in waiting])
        if rest is not None:
            operator = with_condition(self, operator, scope, rest)
        chosen = self._chosen(select, scope, operator)
        having = select.args.get("having")
        qualify = select.args.get("qualify")
        extra = [one.this.copy() for one in (having, qualify) if one is not None]
        group = select.args.get("group")
        aliases = {name.lower(): value for name, value in chosen}
        if having is not None:
            extra[0] = with_aliases(extra[0], aliases, scope)
        values = [value for _, value in chosen]
        operator, values = with_scalars(self, operator, scope, values)
        grouped = group is not None or any(aggregates_in(one, self.is_aggregate) for one in (*values, *extra))
        if grouped:
            operator, over_groups, scope = self._grouped(operator, scope, group, [*values, *extra], aliases, values)
            values, extra = over_groups[: len(values)], over_groups[len(values) :]
        if having is not None:
            operator = with_condition(self, operator, scope, extra.pop(0))
        values, extra = list(values), list(extra)
        if qualify is not None:
            extra = [with_aliases(extra[0], {n.lower(): v for (n, _), v in zip(chosen, values, strict=True)}, scope)]
        operator, values, extra = self._windowed(operator, scope, values, extra)
        for condition in extra:
            operator = self.filtered(operator, resolved(condition, scope))
        made = self._projected(operator, scope, [(n, v) for (n, _), v in zip(chosen, values, strict=True)])
        if select.args.get("distinct") is not None:
            if select.args["distinct"].args.get("on"):
                raise NotIncremental("DISTINCT ON", select.args["distinct"])
            made = TranslatedQuery(Aggregate(made.operator, made.operator.columns, {}), made.columns)
        return made

    def _refuse(self, select: exp.Select) -> None:
        for name, what in (
            ("windows", "a named WINDOW"),
            ("match", "MATCH_RECOGNIZE"),
            ("sample", "TABLESAMPLE"),
            ("pivots", "PIVOT"),
            ("connect", "CONNECT BY"),
            ("distribute", "DISTRIBUTE BY"),
            ("cluster", "CLUSTER BY"),
            ("sort", "SORT BY"),
        ):
            if select.args.get(name):
                raise NotIncremental(what)

    def named(self, table: exp.Table) -> TranslatedQuery:
        if not table.db:
            for depth in range(len(self._ctes) - 1, -1, -1):
                found = self._ctes[depth].get(table.name.lower())
                if found is not None:
                    return self._cte(found, depth)
        columns = self._columns_of(table.name)
        names = {self.names.new(name): name for name in columns}
        return TranslatedQuery(Scan(table.name, names), [(name, unique) for unique, name in names.items()])

    def _cte(self, cte: exp.CTE, depth: int) -> TranslatedQuery:
        """A common table expression, read again at each place that names it; it sees those before it."""
        inside, self._ctes = (
            self._ctes,
            [{name: one for name, one in level.items() if one is not cte} for level in self._ctes[: depth + 1]],
        )
        try:
            made = self.query(cte.this)
        finally:
            self._ctes = inside
        return TranslatedQuery(made.operator, renamed(made.columns, cte.args.get("alias")))

    def join(self, left: Operator, right: Operator, kind: JoinKind, parts: Sequence[exp.Expr]) -> Operator:
        """A join by resolved conditions: equalities of the two sides become its keys, of one type on both."""
        left_names, right_names = set(left.columns), set(right.columns)
        pairs: list[Pair] = []
        rest: list[exp.Expr] = []
        to_left: dict[str, exp.Expr] = {}
        to_right: dict[str, exp.Expr] = {}
        widened: dict[str, tuple[str, DataType]] = {}
        for part in parts:
            inner = part.unnest()
            sides = (inner.this, inner.expression) if isinstance(inner, (exp.EQ, exp.NullSafeEQ)) else None
            if sides is not None and uniques(sides[0]) <= right_names and uniques(sides[1]) <= left_names:
                sides = (sides[1], sides[0])
            if sides is None or not (uniques(sides[0]) <= left_names and uniques(sides[1]) <= right_names):
                rest.append(part)
                continue
            if not uniques(sides[0]) or not uniques(sides[1]):
                rest.append(part)
                continue
            types = self.types.of(left, sides[0]), self.types.of(right, sides[1])
            common = self.types.equal(*types)
            given, sides = sides, (self._as(sides[0], types[0], common), self._as(sides[1], types[1], common))
            if plain(sides[0]) in {pair.left for pair in pairs} or plain(sides[1]) in {pair.right for pair in pairs}:
                rest.append(part)  # a column is part of the key once
                continue
            one, other = (self._column(side, made) for side, made in zip(sides, (to_left, to_right), strict=True))
            pairs.append(Pair(one, other, isinstance(inner, exp.NullSafeEQ)))
            for name, value, own in zip((one, other), given, types, strict=True):
                below = plain(value)
                if below is not None and is_wider(common, own):
                    widened[name] = below, own
        left, right = self._with_columns(left, to_left, widened), self._with_columns(right, to_right, widened)
        condition = conjunction(rest)
        return Join(left, right, kind, pairs, None if condition is None else sql(condition))

    def _as(self, value: exp.Expr, own: DataType, wanted: DataType) -> exp.Expr:
        """A value in the type as which it is compared."""
        return value if own == wanted else self.types.cast(value, wanted)

    def _column(self, value: exp.Expr, made: dict[str, exp.Expr]) -> str:
        found = plain(value)
        if found is not None:
            return found
        name = self.names.new("key")
        made[name] = value
        return name

    def _with_columns(
        self,
        operator: Operator,
        made: Mapping[str, exp.Expr],
        widened: Mapping[str, tuple[str, DataType]] | None = None,
    ) -> Operator:
        """The operator's columns, and some more computed of them; `widened`: see Project."""
        if not made:
            return operator
        for value in made.values():
            require_no_session(value)
        kept = {name: sql(reference(name)) for name in operator.columns}
        values = {**kept, **{name: sql(value) for name, value in made.items()}}
        wider = {name: one for name, one in (widened or {}).items() if name in made}
        return Projection(operator, values, {name: name for name in operator.columns}, wider)

    # --- parts of SELECT

    def _chosen(self, select: exp.Select, scope: Scope, operator: Operator) -> list[tuple[str, exp.Expr]]:
        """The columns of the result, stars written out."""
        chosen: list[tuple[str, exp.Expr]] = []
        for one in select.expressions:
            star = one.this if isinstance(one, exp.Column) else one
            if isinstance(star, exp.Star):
                if star.args.get("except_") or star.args.get("except") or star.args.get("replace"):
                    raise NotIncremental("a star with EXCEPT or REPLACE", one)
                of = parts_of(one)[:-1] if isinstance(one, exp.Column) else []
                if of and (len(of) > 1 or not any(scope.of(of[0]))):
                    chosen += self._fields(one, of, scope, operator)
                    continue
                for seen in scope.of(of[0] if of else None):
                    column = exp.column(seen.name, table=seen.relation or None, quoted=True)
                    chosen.append((seen.name, column))
                continue
            value = one.this if isinstance(one, exp.Alias) else one
            chosen.append((one.alias_or_name or sql(one), value))
        return chosen

    def _fields(
        self, star: exp.Expr, of: Sequence[str], scope: Scope, operator: Operator
    ) -> list[tuple[str, exp.Expr]]:
        """`s.*` of a struct: its fields."""
        struct = exp.column(*(exp.to_identifier(name, quoted=True) for name in reversed(of)))
        fields = self.types.of(operator, resolved(struct, scope))
        if not isinstance(fields, StructType):
            raise NotIncremental("a star of something else than a relation or a struct", star)
        names = [exp.to_identifier(name, quoted=True) for name in fields.names]
        return [(name.name, exp.Dot(this=struct.copy(), expression=name)) for name in names]

    def _grouped(
        self,
        operator: Operator,
        scope: Scope,
        group: exp.Group | None,
        values: Sequence[exp.Expr],
        aliases: Mapping[str, exp.Expr],
        chosen: Sequence[exp.Expr],
    ) -> tuple[Operator, list[exp.Expr], Scope]:
        """GROUP BY: the operator, the values in terms of its columns, and the scope of those."""
        sets = grouping_sets(group, aliases, chosen, scope, self.is_aggregate)
        keys = sets.keys
        made: dict[str, exp.Expr] = {}
        named: dict[str, str] = {}  # the text of a key → its column
        windows: dict[str, str] = {}  # `window` and `session_window`, as which such a key is known after it
        sessions: dict[str, str] = {}
        for key in keys:
            value = resolved(key, scope)
            text = sql(value)
            window = window_call(value)
            if text not in named and window == SESSION:
                sessions[text] = named[text] = self.names.new(window)
            elif text not in named:
                named[text] = self._column(value, made)
            if window is not None:
                windows[window] = named[text]
        operator = self._with_columns(operator, made)
        calls: dict[str, str] = {}
        for value in values:
            for call in aggregates_in(value, self.is_aggregate):
                text = sql(resolved(call, scope))
                calls.setdefault(text, self.names.new(call.key if call.key != "anonymous" else call.name))
        columns = [named[sql(resolved(key, scope))] for key in keys]
        below = list(dict.fromkeys(columns))
        if sessions:
            if not sets.plain or len(sessions) > 1:
                raise NotIncremental("several sessions, or sessions in ROLLUP, CUBE or GROUPING SETS", group)
            [(session, name)] = sessions.items()
            others = [one for one in below if one != name]
            operator = Sessions(operator, others, name, session, {name: text for text, name in calls.items()})
        elif sets.plain:
            operator = Aggregate(operator, below, {name: text for text, name in calls.items()})
        else:
            types, input = self.types, operator

            def nothing(name: str) -> str:
                return f"CAST(NULL AS {types.text(types.of(input, reference(name)))})"

            operator = sets.expanded(input, below, columns, calls, self.names, nothing)
        after = Scope([one for one in scope.columns if one.unique in below], scope.outer)
        for name in operator.columns:
            after.hide(name)
        after.columns += [ScopeColumn("", name, unique, hidden=True) for name, unique in windows.items()]
        grouping = sets.grouping([sql(resolved(key, scope)) for key in keys])
        over_groups = [rewritten(value, scope, named, calls, grouping) for value in values]
        return operator, over_groups, after

    def _windowed(
        self, operator: Operator, scope: Scope, values: list[exp.Expr], extra: list[exp.Expr]
    ) -> tuple[Operator, list[exp.Expr], list[exp.Expr]]:
        """Window functions, those with the same partitions together."""
        found = [(window, resolved(window, scope)) for one in (*values, *extra) for window in windows_in(one)]
        if not found:
            return operator, values, extra
        made: dict[str, exp.Expr] = {}
        groups: dict[tuple[str, ...], dict[str, str]] = {}
        names: dict[str, str] = {}
        for _, window in found:
            text = sql(window)
            if text in names:
                continue
            partition = tuple(self._column(one, made) for one in window.args.get("partition_by") or [])
            names[text] = self.names.new(window.this.key if isinstance(window.this, exp.Expr) else "window")
            groups.setdefault(partition, {})[names[text]] = text
        operator = self._with_columns(operator, made)
        for partition, calls in groups.items():
            operator = Window(operator, partition, calls)
        for name in names.values():
            scope.hide(name)

        def put(value: exp.Expr) -> exp.Expr:
            holder = exp.Paren(this=value.copy())
            for window in windows_in(holder):
                window.replace(reference(names[sql(resolved(window, scope))]))
            inner = holder.this
            assert isinstance(inner, exp.Expr)
            return inner

        return operator, [put(one) for one in values], [put(one) for one in extra]

    def filtered(self, operator: Operator, condition: exp.Expr) -> Operator:
        """The rows for which a resolved condition holds."""
        return Filter(operator, sql(condition), for_people(condition))

    def _projected(self, operator: Operator, scope: Scope, chosen: Sequence[tuple[str, exp.Expr]]) -> TranslatedQuery:
        values: dict[str, str] = {}
        same: dict[str, str] = {}
        columns: list[tuple[str, str]] = []
        for name, value in chosen:
            unique = self.names.new(name)
            inner = resolved(value, scope)
            if inner.find(exp.Query) is not None:
                raise NotIncremental("a subquery here", value)
            require_no_session(inner)
            values[unique] = sql(inner)
            own = plain(inner)
            if own is not None:
                same[unique] = own
            columns.append((name, unique))
        return TranslatedQuery(Projection(operator, values, same), columns)


def _narrowed(made: TranslatedQuery) -> Operator:
    """Just the columns of the result, in their order."""
    wanted = tuple(unique for _, unique in made.columns)
    if made.operator.columns == wanted:
        return made.operator
    return Projection(made.operator, {name: sql(reference(name)) for name in wanted}, {name: name for name in wanted})
