"""Whole queries: SELECT, joins, grouping, set operations. Every output has a made-up name: c0, c1, …"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.scans import DuckScan
from headwater.query.duckdb.translation import aggregates as _aggregates  # noqa: F401  (registers its rules)
from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import conditions as _conditions  # noqa: F401
from headwater.query.duckdb.translation import dates as _dates  # noqa: F401
from headwater.query.duckdb.translation import functions as _functions  # noqa: F401
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation import numbers as _numbers  # noqa: F401
from headwater.query.duckdb.translation.aggregates import ordering
from headwater.query.duckdb.translation.expressions import BooleanTerm, Clock, Expressions
from headwater.query.duckdb.translation.joins import Joins
from headwater.query.duckdb.translation.scopes import NameScope, Source
from headwater.query.duckdb.translation.terms import Origin, Refused, Term, spark_name
from headwater.query.predicates import And, Predicate, columns

_KNOWN = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_",
          "hint", "kind"}  # fmt: skip
_OPERATIONS = (exp.Union, exp.Except, exp.Intersect)


@dataclass(frozen=True)
class DuckQuery:
    """A query in DuckDB's words; each column's `node` is its made-up name."""

    node: exp.Query
    columns: tuple[Term, ...]
    reaches_out: bool = False


@dataclass(frozen=True)
class Named:
    """A query that a WITH has given a name, and what it may name itself."""

    query: exp.Expr
    columns: tuple[str, ...]
    within: Mapping[str, Named]


Found = Callable[[exp.Table], "DuckScan | tuple[exp.Query, DuckScan]"]
"""The relation that a table in FROM names: a scan, or a query over what stands for one."""


@dataclass
class Queries:
    """Translates one statement."""

    find: Found
    clock: Clock
    scans: list[DuckScan] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def alias(self) -> str:
        return f"t{next(self._numbers)}"

    def query(self, node: exp.Expr, named: Mapping[str, Named], outer: NameScope | None = None) -> DuckQuery:
        while isinstance(node, (exp.Subquery, exp.Paren)):
            if _extras(node, {"this", "alias", "with_"}):
                raise Refused("this form of a subquery is left to Spark")
            named = _with(node, named)
            node = node.this
        if isinstance(node, exp.SetOperation):
            return self._set(node, _with(node, named), outer)
        if isinstance(node, exp.Select):
            return _Select(self, node, _with(node, named), outer).made()
        raise Refused(f"{type(node).__name__.lower()} is left to Spark")

    def table(self, node: exp.Expr, named: Mapping[str, Named], outer: NameScope | None) -> tuple[exp.Expr, Source]:
        """Something in FROM: its node and what it brings into scope."""
        if isinstance(node, exp.Subquery):
            if _extras(node, {"this", "alias", "with_"}):
                raise Refused("this form of a subquery is left to Spark")
            made = self.query(node.this, _with(node, named), outer)
            return self._placed(made, node.alias, _column_aliases(node))
        if not isinstance(node, exp.Table) or _extras(node, {"this", "db", "catalog", "alias", "version"}):
            raise Refused(f"{type(node).__name__.lower()} in FROM is left to Spark")
        if isinstance(node.this, exp.Identifier) and not node.db and node.name.lower() in named:
            found = named[node.name.lower()]
            made = self.query(found.query, found.within, None)
            return self._placed(_renamed(made, found.columns), node.alias or node.name, _column_aliases(node))
        relation = self.find(node)
        name = node.alias or _name_of(node)
        if isinstance(relation, DuckScan):
            return self._scanned(relation, name, _column_aliases(node))
        shown, scan = relation
        inner = Queries(lambda _: scan, self.clock, self.scans, self._numbers)
        return self._placed(inner.query(shown, {}), name, _column_aliases(node))

    def _scanned(self, scan: DuckScan, name: str, aliases: tuple[str, ...]) -> tuple[exp.Expr, Source]:
        scan.alias = self.alias()
        self.scans.append(scan)
        schema = scan.reading.schema
        terms = tuple(
            Term(node, field.type, field.name, origin=Origin(scan, field.name))
            for node, field in zip(nodes.columns(scan.alias, len(schema)), schema, strict=True)
        )
        return nodes.scan(scan.alias), Source(name, _with_names(terms, aliases))

    def _placed(self, made: DuckQuery, name: str, aliases: tuple[str, ...]) -> tuple[exp.Expr, Source]:
        alias = self.alias()
        terms = tuple(
            replace(column, node=node, aggregate=False, windowed=False)
            for node, column in zip(nodes.columns(alias, len(made.columns)), made.columns, strict=True)
        )
        return nodes.aliased(made.node, alias), Source(name, _with_names(terms, aliases))

    def _set(self, node: exp.SetOperation, named: Mapping[str, Named], outer: NameScope | None) -> DuckQuery:
        if _extras(node, {"this", "expression", "distinct", "order", "limit", "offset", "with_"}):
            raise Refused("this form of a set operation is left to Spark")
        left, right = self.query(node.this, named, outer), self.query(node.expression, named, outer)
        if len(left.columns) != len(right.columns):
            raise Refused("the sides of a set operation have different numbers of columns")
        kinds = [types.wider(a.type, b.type) for a, b in zip(left.columns, right.columns, strict=True)]
        every = not node.args.get("distinct")
        plain = (every and type(node) is exp.Union) or all(types.is_grouped_alike(kind) for kind in kinds)
        if type(node) not in _OPERATIONS or not plain:
            raise Refused("a set operation over these types is left to Spark")
        made = type(node)(this=_aligned(left, kinds), expression=_aligned(right, kinds), distinct=not every)
        outputs = tuple(
            Term(nodes.output(at), kind, column.name)
            for at, (kind, column) in enumerate(zip(kinds, left.columns, strict=True))
        )
        scope = NameScope([Source("", outputs)])
        to = Expressions(scope, self.clock, lambda inner, around: self.query(inner, named, around))
        _add_tail(made, node, to, outputs)
        return DuckQuery(made, outputs, left.reaches_out or right.reaches_out)


class _Select:
    """One SELECT."""

    def __init__(self, queries: Queries, node: exp.Select, named: Mapping[str, Named], outer: NameScope | None) -> None:
        if _extras(node, _KNOWN) or node.args.get("kind"):
            unsupported = sorted(key for key in _extras(node, _KNOWN) or {"kind"})
            raise Refused(f"{', '.join(unsupported).rstrip('_')} in a SELECT is left to Spark")
        self._queries, self._node, self._named = queries, node, named
        self._scope = NameScope(outer=outer)
        self._to = Expressions(self._scope, queries.clock, self._subquery)
        self._reaches_out = False

    def _subquery(self, node: exp.Expr, around: NameScope) -> DuckQuery:
        made = self._queries.query(node, self._named, around)
        self._reaches_out = self._reaches_out or made.reaches_out
        return made

    def made(self) -> DuckQuery:
        node, scope = self._node, self._scope
        tables = self._tables()
        condition = self._condition("where")
        items = self._items()
        keys = self._keys(items)
        having = self._having(items)
        distinct = node.args.get("distinct")
        if distinct is not None and (distinct.args.get("on") or not all(types.is_grouped_alike(i.type) for i in items)):
            raise Refused("DISTINCT over these columns is left to Spark")
        made = exp.Select(
            expressions=[nodes.named(item.node, at) for at, item in enumerate(items)],
            distinct=None if distinct is None else exp.Distinct(),
            from_=None if tables is None else exp.From(this=tables[0]),
            joins=None if tables is None else tables[1:],
            where=None if condition is None else exp.Where(this=condition),
            group=exp.Group(expressions=[key.node for key in keys]) if keys else None,
            having=None if having is None else exp.Having(this=having.node),
        )
        _add_tail(made, node, self._to, tuple(items), positional=distinct is not None)
        grouped = keys is not None or any(item.aggregate for item in items) or having is not None
        if grouped and any(item.windowed for item in items):
            raise Refused("windows over aggregates are left to Spark")
        outputs = self._outputs(items, None if not grouped else keys or [])
        return DuckQuery(made, outputs, scope.reached_out or self._reaches_out)

    def _tables(self) -> list[exp.Expr] | None:
        """What stands in FROM: the first table, then its joins."""
        start = self._node.args.get("from_")
        if start is None:
            if self._node.args.get("joins"):
                raise Refused("a join without FROM is left to Spark")
            return None
        joins = Joins(self._scope, self._to, lambda each: self._queries.table(each, self._named, self._scope.outer))
        tables = [joins.start(start.this)]
        for join in self._node.args.get("joins") or ():
            tables.append(joins.join(join))
        for predicate in joins.predicates:
            _prune(predicate)
        return tables

    def _condition(self, key: str) -> exp.Expr | None:
        """A clause part by part: where one is refused, what the others say of the tables is still known."""
        clause = self._node.args.get(key)
        if clause is None:
            return None
        found: list[exp.Expr] = []
        refused: Refused | None = None
        for part in clause.this.flatten() if isinstance(clause.this, exp.And) else [clause.this]:
            try:
                condition = self._to.condition(part)
                if condition.aggregate or condition.windowed:
                    raise Refused(f"an aggregate in {key.upper()} is left to Spark")
                _prune(condition.predicate)
                found.append(condition.node)
            except Refused as error:
                refused = refused or error
        if refused is not None:
            raise refused
        return nodes.joined(exp.And, found)

    def _items(self) -> list[Term]:
        items: list[Term] = []
        for node in self._node.expressions:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                items += self._starred(node)
                continue
            alias = node.alias if isinstance(node, exp.Alias) else None
            term = self._to.term(node.this if isinstance(node, exp.Alias) else node)
            if pa.types.is_null(term.type):
                raise Refused("a column of nothing but NULL is left to Spark")
            name = alias if alias is not None else term.name
            if name is None:
                raise Refused(f"column {len(items) + 1} has no name that is known without Spark; give it one with AS")
            items.append(term.named(name))
            if alias is not None:
                if alias.lower() in self._scope.aliases:
                    raise Refused(f"'{alias}' names two columns")
                self._scope.aliases[alias.lower()] = items[-1]
        return items

    def _starred(self, node: exp.Expr) -> list[Term]:
        star = node if isinstance(node, exp.Star) else node.this
        if _extras(star, set()):
            raise Refused("this form of a star is left to Spark")
        return self._scope.star(node.table if isinstance(node, exp.Column) else None)

    def _keys(self, items: list[Term]) -> list[Term] | None:
        group = self._node.args.get("group")
        if group is None:
            return None
        if _extras(group, {"expressions"}):
            raise Refused("this form of GROUP BY is left to Spark")
        keys = []
        for node in group.expressions:
            if isinstance(node, exp.Literal) and not node.is_string:
                key = _at(items, node)
            else:
                key = self._to.term(node)
            if key.aggregate or key.windowed or key.is_literal or not types.is_grouped_alike(key.type):
                raise Refused(f"grouping by this {spark_name(key.type)} is left to Spark")
            keys.append(key)
        return keys

    def _having(self, items: list[Term]) -> BooleanTerm | None:
        clause = self._node.args.get("having")
        if clause is None:
            return None
        for column in clause.find_all(exp.Column):
            alias = None if column.table else self._scope.aliases.get(column.name.lower())
            doubtful = alias is not None and self._scope.has_column(column.name)
            if alias is not None and doubtful and self._to.term(column).node != alias.node:
                raise Refused(f"'{column.name}' in HAVING is a column and an alias")
        return self._to.condition(clause.this)

    def _outputs(self, items: list[Term], keys: list[Term] | None) -> tuple[Term, ...]:
        """What is seen from outside; a column stays a stored one where a filter outside may go below this query."""
        cut = any(self._node.args.get(key) for key in ("limit", "offset")) or any(item.windowed for item in items)
        grouped = None if keys is None else {key.node for key in keys}
        return tuple(
            Term(
                nodes.output(at), item.type, item.name,
                origin=None if cut or (grouped is not None and item.node not in grouped) else item.origin,
            )
            for at, item in enumerate(items)
        )  # fmt: skip


def _prune(predicate: Predicate) -> None:
    for part in predicate.parts if isinstance(predicate, And) else (predicate,):
        if isinstance(part, And):
            _prune(part)
            continue
        for scan in {id(origin.scan): origin.scan for origin in columns(part)}.values():
            scan.predicates.append(part)


def _add_tail(
    made: exp.Query, node: exp.Expr, to: Expressions, outputs: tuple[Term, ...], *, positional: bool = False
) -> None:
    """ORDER BY, LIMIT and OFFSET."""
    order = node.args.get("order")
    if order is not None:
        if _extras(order, {"expressions"}):
            raise Refused("this form of ORDER BY is left to Spark")
        made.set(
            "order", exp.Order(expressions=[_ordered(each, to, outputs, positional) for each in order.expressions])
        )
    for kind in (exp.Limit, exp.Offset):
        clause = node.args.get(kind.key)
        if clause is not None:
            if not isinstance(clause, (exp.Limit, exp.Offset)) or clause.args.get("expressions"):
                raise Refused(f"this form of {kind.key.upper()} is left to Spark")
            made.set(kind.key, kind(expression=nodes.number(to.integer(clause.expression))))


def _ordered(node: exp.Ordered, to: Expressions, outputs: tuple[Term, ...], positional: bool) -> exp.Ordered:
    """Spark looks a name up among the outputs first, then in what the query reads."""
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        found = _at(list(outputs), inner)
        return ordering(replace(found, node=nodes.output(outputs.index(found))), node)[0]
    if isinstance(inner, exp.Column) and not inner.table:
        named = [at for at, output in enumerate(outputs) if (output.name or "").lower() == inner.name.lower()]
        if len(named) == 1:
            return ordering(replace(outputs[named[0]], node=nodes.output(named[0])), node)[0]
        if named:
            raise Refused(f"'{inner.name}' in ORDER BY is not unique")
    if positional:
        raise Refused("an order by what is not selected is left to Spark")
    for column in inner.find_all(exp.Column):
        output = [o for o in outputs if not column.table and (o.name or "").lower() == column.name.lower()]
        if output and to.scope.has_column(column.name) and output[0].node != to.term(column).node:
            raise Refused(f"'{column.name}' in ORDER BY is a column and an output")
    return ordering(to.term(inner), node)[0]


def _at(items: list[Term], node: exp.Literal) -> Term:
    if not node.this.isdecimal():
        raise Refused("a constant that is no column's number is left to Spark")
    at = int(node.this)
    if not 1 <= at <= len(items):
        raise Refused(f"there is no column {at}")
    return items[at - 1]


def _aligned(made: DuckQuery, kinds: list[pa.DataType]) -> exp.Subquery:
    if all(column.type.equals(kind) for column, kind in zip(made.columns, kinds, strict=True)):
        return exp.Subquery(this=made.node)
    casts = (types.cast(column, kind).node for column, kind in zip(made.columns, kinds, strict=True))
    picked = [nodes.named(node, at) for at, node in enumerate(casts)]
    return exp.Subquery(this=nodes.select(picked, exp.Subquery(this=made.node)))


def _with(node: exp.Expr, named: Mapping[str, Named]) -> Mapping[str, Named]:
    clause = node.args.get("with_")
    if clause is None:
        return named
    if clause.args.get("recursive"):
        raise Refused("a recursive WITH is left to Spark")
    found = dict(named)
    for cte in clause.expressions:
        found[cte.alias.lower()] = Named(cte.this, _column_aliases(cte), dict(found))
    return found


def _column_aliases(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(column.name for column in alias.columns) if isinstance(alias, exp.TableAlias) else ()


def _with_names(terms: tuple[Term, ...], aliases: tuple[str, ...]) -> tuple[Term, ...]:
    if not aliases:
        return terms
    if len(aliases) != len(terms):
        raise Refused("an alias names another number of columns")
    return tuple(term.named(name) for term, name in zip(terms, aliases, strict=True))


def _renamed(made: DuckQuery, names: tuple[str, ...]) -> DuckQuery:
    return replace(made, columns=_with_names(made.columns, names))


def _name_of(table: exp.Table) -> str:
    called = table.this
    if isinstance(called, exp.Anonymous):
        return str(called.expressions[0].name)
    return table.name


def _extras(node: exp.Expr, known: set[str]) -> set[str]:
    return {key for key, value in node.args.items() if key not in known and value not in (None, [], False)}
