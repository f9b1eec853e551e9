"""What of a view's query is applied when it is read: ORDER BY and LIMIT at its top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.core.quotes import backticked
from headwater.core.state import STORED
from headwater.incremental.state.base import HIDDEN, SHOWN
from headwater.sql.places import InvalidSql, span_of

_HIDDEN_ORDER = f"{HIDDEN}order_"


@dataclass(frozen=True)
class Presented:
    """A query without its top ORDER BY and LIMIT, which are kept for the reader."""

    query: exp.Query
    order: tuple[exp.Ordered, ...] = ()
    """Over the stored columns; a number stands for the column of the result at that place."""
    limit: str | None = None
    offset: str | None = None
    hidden: int = 0
    """So many columns at the end of the query are there for the order alone."""

    def shown(self, columns: Sequence[str], *, filtered: bool, plain: bool) -> str | None:
        """How the stored rows are shown; `plain`: nothing is stored alongside these columns."""
        if plain and not (self.order or self.limit or self.offset or self.hidden or filtered):
            return None
        return " ".join([self.rows(columns, filtered=filtered), *self._tail(columns)])

    def rows(self, columns: Sequence[str], *, filtered: bool) -> str:
        """The same without order and limit."""
        names = ", ".join(map(backticked, columns))
        return f"SELECT {names} FROM {STORED}" + (f" WHERE {backticked(SHOWN)}" if filtered else "")

    def require_places(self, count: int, text: str) -> None:
        """Refuse an order by the place of a column that the result, of so many, has not."""
        for one in self.order:
            place = _place(one.this)
            if place is not None and not 1 <= place <= count:
                raise _no_such_place(one.this, count, text)

    def _tail(self, columns: Sequence[str]) -> list[str]:
        tail = [f"ORDER BY {', '.join(_written(one, columns) for one in self.order)}"] if self.order else []
        tail += [f"LIMIT {self.limit}"] if self.limit is not None else []
        return [*tail, *([f"OFFSET {self.offset}"] if self.offset is not None else [])]


def presented(query: exp.Query, text: str) -> Presented:
    """Take a query apart; `text` is what it was parsed from."""
    query = query.copy()
    order, limit, offset = (query.args.get(name) for name in ("order", "limit", "offset"))
    for name in ("order", "limit", "offset"):
        query.set(name, None)
    if limit is not None and order is None:
        message = "a view with LIMIT needs an ORDER BY: without one any rows would do"
        raise InvalidSql(message, text=text, span=span_of(limit), hint="say which rows come first")
    ordered = list(order.expressions) if order is not None else []
    names = [one.alias_or_name for one in query.selects]
    parts: list[exp.Ordered] = []
    hidden = 0
    for one in ordered:
        assert isinstance(one, exp.Ordered)
        value = one.this
        if _place(value) is not None:
            if not query.is_star and not 1 <= int(value.name) <= len(names):
                raise _no_such_place(value, len(names), text)
            parts.append(one)  # which column that is, a star leaves to the engine
            continue
        if isinstance(value, exp.Column) and not value.table and value.name in names:
            name = value.name
        elif _is_selected(query, value) is not None:
            name = str(_is_selected(query, value))
        else:
            name = f"{_HIDDEN_ORDER}{hidden}"
            _also_select(query, value, name, text)
            hidden += 1
        parts.append(_ordered(one, name))
    return Presented(query, tuple(parts), _number(limit), _number(offset), hidden)


def _ordered(one: exp.Ordered, name: str) -> exp.Ordered:
    copy = one.copy()
    copy.set("this", exp.column(name, quoted=True))
    return copy


def _written(one: exp.Ordered, columns: Sequence[str]) -> str:
    place = _place(one.this)
    return (one if place is None else _ordered(one, columns[place - 1])).sql(dialect="spark")


def _place(value: exp.Expr) -> int | None:
    """The number of a column, where that is what stands there."""
    return int(value.name) if isinstance(value, exp.Literal) and not value.is_string and value.is_int else None


def _no_such_place(value: exp.Expr, count: int, text: str) -> InvalidSql:
    message = f"ORDER BY {value.name}: there is no column {value.name}, the result has {count}"
    return InvalidSql(message, text=text, span=span_of(value), hint="name the column")


def _is_selected(query: exp.Query, value: exp.Expr) -> str | None:
    """The name of the result's column that is this very expression."""
    for one in query.selects:
        inner = one.this if isinstance(one, exp.Alias) else one
        if inner == value and one.alias_or_name:
            return str(one.alias_or_name)
    return None


def _also_select(query: exp.Query, value: exp.Expr, name: str, text: str) -> None:
    if not isinstance(query, exp.Select) or query.args.get("distinct") is not None:
        message = f"ORDER BY {value.sql(dialect='spark')}: order by the result's own columns here"
        raise InvalidSql(message, text=text, span=span_of(value))
    names = {one.alias_or_name for one in query.selects if isinstance(one, exp.Alias)}
    value = value.copy()
    for column in list(value.find_all(exp.Column)):
        if not column.table and column.name in names:  # an alias inside of an expression
            item = next(one for one in query.selects if isinstance(one, exp.Alias) and one.alias == column.name)
            column.replace(exp.paren(item.this.copy()))
    query.select(exp.alias_(value, name, quoted=True), copy=False)


def _number(limit: exp.Expr | None) -> str | None:
    if limit is None:
        return None
    value = limit.expression
    return str(value.sql(dialect="spark"))
