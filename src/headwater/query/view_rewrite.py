"""A query that a materialized view can answer: the same table, grouped by fewer of the view's keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec import View
from headwater.query.duckdb.relations import Catalogue, reading
from headwater.query.duckdb.translation.terms import spark_name
from headwater.query.explanation import Offer
from headwater.sql.references import parse_query, referring, resolve
from headwater.sql.rewrite import time_travel
from headwater.views.records import Notes
from headwater.warehouse import Warehouse

_PLAIN = {"expressions", "from_", "where", "group"}
_TAILED = _PLAIN | {"having", "order", "limit", "offset"}
_ROLLED = {exp.Sum: "SUM", exp.Min: "MIN", exp.Max: "MAX", exp.Count: "SUM"}


@dataclass(frozen=True)
class _Grouped:
    """A query over one relation, taken apart; expressions are written in one way, so that they can be compared."""

    relation: tuple[Kind, str]
    node: exp.Select
    keys: Mapping[str, exp.Expr]
    conditions: tuple[str, ...]
    outputs: Mapping[str, str]
    """Expression → the name of its column."""


def by_view(warehouse: Warehouse, sql: str) -> Offer | None:
    """The view that can answer a query; a fresh one first."""
    try:
        asked = _taken_apart(warehouse, sql, _TAILED)
    except HeadwaterError:
        return None  # whatever is wrong with the query is said by who answers it
    if asked is None or (asked.relation[0] is Kind.VIEW and not warehouse.names(Kind.VIEW)):
        return None
    found: Offer | None = None
    for name in warehouse.names(Kind.VIEW):
        if (Kind.VIEW, name) == asked.relation or (found is not None and found.fresh):
            continue
        offer = _offered(warehouse, asked, name)
        found = offer if offer is not None and (found is None or offer.fresh) else found
    return found


def _offered(warehouse: Warehouse, asked: _Grouped, name: str) -> Offer | None:
    record = warehouse.record(Kind.VIEW, name)
    if record is None:
        return None
    try:
        definition = warehouse.definition(Kind.VIEW, name)
        view = _taken_apart(warehouse, definition.sql, _PLAIN) if isinstance(definition, View) else None
        if view is None or view.relation != asked.relation:
            return None
        types = {
            field.name: spark_name(field.type) for field in reading(Catalogue(warehouse), Kind.VIEW, name, None).schema
        }
        rewritten = _Rewriting(asked, view, name, types).query()
    except (HeadwaterError, _NoMatch):
        return None
    fresh, why = _freshness(warehouse, name, asked.relation)
    return Offer(name, fresh, why, rewritten)


class _NoMatch(Exception):
    """The view does not hold what the query asks for."""


class _Rewriting:
    """One query over one view."""

    def __init__(self, asked: _Grouped, view: _Grouped, name: str, types: Mapping[str, str]) -> None:
        self._asked, self._view, self._name, self._types = asked, view, name, types
        self._same_groups = set(asked.keys) == set(view.keys)

    def query(self) -> str:
        asked = self._asked
        if not set(self._view.conditions) <= set(asked.conditions):
            raise _NoMatch
        made = exp.select(*(self._item(item) for item in asked.node.expressions))
        made = made.from_(exp.Table(this=exp.Anonymous(this="mv", expressions=[exp.Literal.string(self._name)])))
        for condition in _conjuncts(asked.node.args.get("where")):
            if _written(condition) not in self._view.conditions:
                made = made.where(self._over(condition, aggregates=False))
        having = asked.node.args.get("having")
        if having is not None:
            over = self._over(having.this)
            made = made.where(over) if self._same_groups else made.having(over)
        if not self._same_groups and asked.keys:
            made = made.group_by(*(self._over(key, aggregates=False) for key in asked.keys.values()))
        order = asked.node.args.get("order")
        if order is not None:
            made.set("order", exp.Order(expressions=[self._ordered(each) for each in order.expressions]))
        for key in ("limit", "offset"):
            if asked.node.args.get(key) is not None:
                made.set(key, asked.node.args[key].copy())
        return made.sql(dialect="spark")

    def _item(self, item: exp.Expr) -> exp.Expr:
        inner = item.this if isinstance(item, exp.Alias) else item
        return exp.alias_(self._over(inner), _output_name(item), quoted=True)

    def _ordered(self, ordered: exp.Expr) -> exp.Expr:
        found = ordered.copy()
        names = {_output_name(item).lower() for item in self._asked.node.expressions}
        inner = ordered.this
        plain = isinstance(inner, exp.Literal) or (isinstance(inner, exp.Column) and inner.name.lower() in names)
        if not plain:
            found.set("this", self._over(inner))
        return found

    def _over(self, node: exp.Expr, *, aggregates: bool = True) -> exp.Expr:
        """An expression of the query in terms of the view's columns."""
        written = _written(node)
        if written in self._view.keys:
            return self._column(written)
        if isinstance(node, exp.AggFunc):
            if not aggregates:
                raise _NoMatch
            return self._aggregate(node, written)
        if isinstance(node, exp.Column):
            raise _NoMatch
        if isinstance(node, (exp.Query, exp.Window, exp.Star)):
            raise _NoMatch
        found = node.copy()
        for key, value in list(found.args.items()):
            if isinstance(value, exp.Expr) and not isinstance(value, exp.DataType):
                found.set(key, self._over(value, aggregates=aggregates))
            elif isinstance(value, list):
                kept = [self._over(v, aggregates=aggregates) if isinstance(v, exp.Expr) else v for v in value]
                found.set(key, kept)
        return found

    def _aggregate(self, node: exp.AggFunc, written: str) -> exp.Expr:
        column = self._view.outputs.get(written)
        if column is None:
            raise _NoMatch
        named = exp.column(column, quoted=True)
        if self._same_groups:
            return named
        word = _ROLLED.get(type(node))
        if word is None or node.find(exp.Distinct) is not None:
            raise _NoMatch
        rolled: exp.Expr = exp.func(word, named)
        if isinstance(node, exp.Count):
            return exp.func("coalesce", rolled, exp.cast(exp.Literal.number(0), "bigint"))
        type_ = self._types.get(column, "")
        return exp.cast(rolled, type_) if type_.startswith("decimal") else rolled

    def _column(self, key: str) -> exp.Expr:
        column = self._view.outputs.get(key)
        if column is None:
            raise _NoMatch
        return exp.column(column, quoted=True)


def _taken_apart(warehouse: Warehouse, sql: str, known: set[str]) -> _Grouped | None:
    """A query over one relation that groups, or None for any other."""
    node = parse_query(sql)
    if not isinstance(node, exp.Select) or {key for key, value in node.args.items() if value} - known:
        return None
    tables = list(referring(node))
    start = node.args.get("from_")
    if len(tables) != 1 or start is None or start.this is not tables[0][0]:
        return None
    table, reference = tables[0]
    odd = reference.driving or reference.temporal or reference.changes is not None
    if odd or time_travel(table) is not None or table.args.get("joins"):
        return None
    kind = resolve(reference, {each: warehouse.names(each) for each in Kind})
    outputs: dict[str, str] = {}
    for item in node.expressions:
        if isinstance(item, exp.Star) or item.find(exp.Window, exp.Subquery) is not None:
            return None
        outputs.setdefault(_written(item.this if isinstance(item, exp.Alias) else item), _output_name(item))
    if node.args.get("group") is None and not any(item.find(exp.AggFunc) for item in node.expressions):
        return None
    columns = {column.lower() for column in reading(Catalogue(warehouse), kind, reference.name, None).schema.names}
    keys = {_written(key): key for key in _keys(node, columns)}
    conditions = tuple(map(_written, _conjuncts(node.args.get("where"))))
    return _Grouped((kind, reference.name), node, keys, conditions, outputs)


def _keys(node: exp.Select, columns: set[str]) -> Iterator[exp.Expr]:
    """What a query groups by; a number stands for one of its columns, and so does an alias that is no column's name."""
    group = node.args.get("group")
    for key in group.expressions if group is not None else ():
        if isinstance(key, exp.Literal) and not key.is_string:
            at = int(key.this) if key.this.isdecimal() else 0
            key = node.expressions[at - 1] if 1 <= at <= len(node.expressions) else key
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() not in columns:
            key = next((item for item in node.expressions if _is_alias(item, key.name)), key)
        yield key.this if isinstance(key, exp.Alias) else key


def _is_alias(item: exp.Expr, name: str) -> bool:
    return isinstance(item, exp.Alias) and item.alias.lower() == name.lower()


def _output_name(item: exp.Expr) -> str:
    if isinstance(item, (exp.Alias, exp.Column)):
        return str(item.alias_or_name)
    if isinstance(item, exp.Count) and isinstance(item.this, exp.Star):
        return "count(1)"
    return item.sql(dialect="spark").replace("`", "")


def _conjuncts(where: exp.Expr | None) -> list[exp.Expr]:
    if where is None:
        return []
    inner = where.this
    return list(inner.flatten()) if isinstance(inner, exp.And) else [inner]


def _written(node: exp.Expr) -> str:
    """An expression in one way of writing: bare names in small letters, no brackets around it."""
    found = node.copy()
    while isinstance(found, exp.Paren):
        found = found.this

    def bare(each: exp.Expr) -> exp.Expr:
        if isinstance(each, exp.Column):
            return exp.column(each.name.lower(), quoted=True)
        return each

    transform: Callable[..., exp.Expr] = found.transform
    return transform(bare).sql(dialect="spark")


def _freshness(warehouse: Warehouse, name: str, source: tuple[Kind, str]) -> tuple[bool, str]:
    """Whether a view holds what its source holds now."""
    label = f"{source[0].plural}.{source[1]}"
    refreshes = Notes(warehouse.files, f"{Kind.VIEW.plural}.{name}", 0).refreshes()
    made = next((each for each in reversed(refreshes) if each.version is not None), None)
    if made is None or label not in made.watermarks:
        return False, "it is not known what it was made from"
    try:
        version = reading(Catalogue(warehouse), *source, None).version
        current = reading(Catalogue(warehouse), Kind.VIEW, name, None).version
    except HeadwaterError as error:
        return False, f"its source can't be looked at without Spark: {error.problem.message}"
    record = warehouse.record(*source)
    after = made.watermarks[label].get("after")
    if current != made.version:
        return False, "it has been changed since its last refresh"
    if after != version:
        return False, f"it holds {label} up to version {after}, which is at {version}"
    if record is None or record.created_at >= datetime.fromisoformat(made.at):
        return False, f"{label} has been made anew since"
    return True, f"it holds {label} up to version {version}"
