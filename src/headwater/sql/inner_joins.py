"""Inner joins of a query that may be put into another order: what they join, and what connects it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

Columns = Callable[[exp.Table], "Collection[str] | None"]
"""The names of a relation's columns; None where they are not known."""

_INNER = ("", "INNER", "CROSS")
_FIXED = (exp.Query, exp.Lambda, exp.Rand, exp.Randn, exp.Uuid)
"""What a condition may hold that keeps it where it stands."""
_FILTERING = ("SEMI", "ANTI")


@dataclass(frozen=True)
class Link:
    """A condition that speaks of several of the joined relations, by their numbers."""

    of: frozenset[int]
    equal: tuple[tuple[int, str], tuple[int, str]] | None = None
    """The two columns, each with its relation, where the condition is that they are equal."""


@dataclass(frozen=True)
class Chain:
    """Relations that one SELECT joins one after the other by inner joins, as they are written."""

    select: exp.Select
    tables: tuple[exp.Table, ...]
    names: tuple[str, ...]
    conditions: tuple[tuple[frozenset[int], exp.Expr], ...]
    """Those of ON, each with the relations that it speaks of."""
    links: tuple[Link, ...]
    """What connects them: in ON, and in WHERE."""

    def put(self, order: Sequence[int]) -> None:
        """Put the relations into this order, in the query itself; its rows and columns stay what they are."""
        _keep_columns(self.select)
        rest = self.select.args["joins"][len(self.tables) - 1 :]
        left = list(self.conditions)
        joins, seen = [], {order[0]}
        for number in order[1:]:
            seen.add(number)
            known = [condition for of, condition in left if of <= seen]
            left = [(of, condition) for of, condition in left if not of <= seen]
            join = exp.Join(this=self.tables[number], kind="INNER" if known else "CROSS")
            if known:
                join.set("on", exp.and_(*known, copy=False))
            joins.append(join)
        self.select.set("from_", exp.From(this=self.tables[order[0]]))
        self.select.set("joins", [*joins, *rest])


def chains(query: exp.Query, columns: Columns) -> Iterator[Chain]:
    """The joins of a query, and of the queries inside of it, whose order is free: three relations or more."""
    for select in list(query.find_all(exp.Select)):
        found = _chain(select, columns)
        if found is not None:
            yield found


def _chain(select: exp.Select, columns: Columns) -> Chain | None:
    start, joins = select.args.get("from_"), select.args.get("joins") or []
    if start is None or select.args.get("hint") or select.args.get("laterals") or not _can_keep_columns(select):
        return None
    inner = 0
    while inner < len(joins) and _is_inner(joins[inner]):
        inner += 1
    tables = [start.this, *(join.this for join in joins[:inner])]
    names = [_name(table) for table in (start.this, *(join.this for join in joins))]
    if len(tables) < 3 or not all(map(_is_plain, tables)) or "" in names or len(set(names)) < len(names):
        return None
    naming = _Naming(names[: len(tables)], [columns(table) for table in tables])
    conditions: list[tuple[frozenset[int], exp.Expr]] = []
    for number, join in enumerate(joins[:inner], start=1):
        for part in _parts(join.args.get("on")):
            of = naming.named(part, number + 1)
            if of is None:
                return None
            conditions.append((of, part))
    links = [link for _, part in conditions for link in naming.links(part)]
    where = select.args.get("where")
    links += [link for part in _parts(where and where.this) for link in naming.links(part)]
    return Chain(select, tuple(tables), tuple(names[: len(tables)]), tuple(conditions), tuple(links))


class _Naming:
    """Which relation each column of a condition is of."""

    def __init__(self, names: Sequence[str], columns: Sequence[Collection[str] | None]) -> None:
        self._names = names
        self._columns = [None if some is None else {one.lower() for one in some} for some in columns]

    def named(self, condition: exp.Expr, seen: int) -> frozenset[int] | None:
        """The relations that a condition speaks of, each column named in full, since others may come into its sight;
        None where one is in doubt. `seen` is how many of the relations its place sees."""
        if condition.find(*_FIXED) is not None:
            return None
        of = set()
        for column in list(condition.find_all(exp.Column)):
            number = self._of(column, seen)
            if number is None:
                return None
            if not column.table:
                column.set("table", exp.to_identifier(self._names[number], quoted=True))
            of.add(number)
        return frozenset(of)

    def links(self, condition: exp.Expr) -> Iterator[Link]:
        """What a condition connects, if it does; of one that is in doubt nothing is said."""
        if condition.find(*_FIXED) is not None:
            return
        numbers = [self._of(column, len(self._names)) for column in condition.find_all(exp.Column)]
        if None in numbers or len(set(numbers)) < 2:
            return
        of = frozenset(number for number in numbers if number is not None)
        sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
        if len(of) == 2 and sides and all(isinstance(side, exp.Column) for side in sides):
            left, right = ((number or 0, side.name) for number, side in zip(numbers, sides, strict=True))
            yield Link(of, (left, right))
        else:
            yield Link(of)

    def _of(self, column: exp.Column, seen: int) -> int | None:
        if column.args.get("db") or isinstance(column.this, exp.Star):
            return None  # a field of a struct, most likely
        if column.table:
            name = column.table.lower()
            return self._names.index(name) if name in self._names[:seen] else None
        places = [None if some is None else column.name.lower() in some for some in self._columns[:seen]]
        return places.index(True) if None not in places and places.count(True) == 1 else None


def _is_inner(join: exp.Join) -> bool:
    unknown = {key for key, value in join.args.items() if value and key not in ("this", "on", "kind")}
    return not unknown and str(join.kind or "").upper() in _INNER


def _is_plain(table: exp.Expr) -> bool:
    """A relation by its name alone, at a version or not; names for its columns would be lost on the way."""
    unknown = {key for key, value in table.args.items() if value and key not in ("this", "db", "alias", "version")}
    alias = table.args.get("alias")
    return isinstance(table, exp.Table) and not unknown and not (isinstance(alias, exp.TableAlias) and alias.columns)


def _name(table: exp.Expr) -> str:
    """What a query calls something in FROM, in small letters."""
    if table.alias:
        return table.alias.lower()
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Anonymous):
        first = next(iter(table.this.expressions), None)
        return first.name.lower() if isinstance(first, exp.Literal) and len(table.this.expressions) == 1 else ""
    return table.name.lower()


def _parts(condition: exp.Expr | None) -> list[exp.Expr]:
    if condition is None:
        return []
    condition = condition.unnest()
    return (
        [one for part in condition.flatten() for one in _parts(part)] if isinstance(condition, exp.And) else [condition]
    )


def _can_keep_columns(select: exp.Select) -> bool:
    """Whether every star can stand for the same columns in the same order afterwards."""
    for star in select.find_all(exp.Star):
        if star.parent_select is not select or isinstance(star.parent, (exp.Count, exp.Column)):
            continue
        joins = select.args.get("joins") or []
        plain = star.parent is select and not any(star.args.values())
        if not plain or any(join.args.get("using") or join.args.get("method") for join in joins):
            return False
    return True


def _keep_columns(select: exp.Select) -> None:
    """A star is written as the stars of the relations, in the order that they have had."""
    joins = [join for join in select.args["joins"] if str(join.kind or "").upper() not in _FILTERING]
    names = [_shown(table) for table in (select.args["from_"].this, *(join.this for join in joins))]
    written = []
    for item in select.expressions:
        if isinstance(item, exp.Star):
            written += [exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True)) for name in names]
        else:
            written.append(item)
    select.set("expressions", written)


def _shown(table: exp.Expr) -> str:
    return table.alias or _name(table)
