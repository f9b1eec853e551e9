"""Nodes of DuckDB's SQL, as sqlglot has them; `generator` makes the text, once, when a query is whole.

A function is `exp.Anonymous`, under DuckDB's own name: sqlglot rewrites the functions that it knows from other
databases, and what runs has to be what was compared with Spark. Nodes are not changed once they are made, so several
terms may hold the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from sqlglot import exp


def string(value: str) -> exp.Literal:
    return exp.Literal(this=value, is_string=True)


def number(value: int) -> exp.Expr:
    plain = exp.Literal(this=str(abs(value)), is_string=False)
    return exp.Neg(this=plain) if value < 0 else plain


def boolean(value: bool) -> exp.Boolean:
    return exp.Boolean(this=value)


def identifier(name: str) -> exp.Identifier:
    """A name that people have given; our own ones (t0, c1) need no quotes."""
    return exp.Identifier(this=name, quoted=True)


def _bare(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=False)


def stored(name: str) -> exp.Column:
    """A column of a file, by its name there."""
    return exp.Column(this=identifier(name))


def output(at: int) -> exp.Column:
    """A column of a query, by the name that it has here: c0, c1, …"""
    return exp.Column(this=_bare(f"c{at}"))


def columns(table: str, count: int) -> list[exp.Column]:
    """All columns of something in FROM."""
    alias = _bare(table)
    return [exp.Column(this=_bare(f"c{at}"), table=alias) for at in range(count)]


def variable(name: str) -> exp.Column:
    """Something that DuckDB knows by a name of its own."""
    return exp.Column(this=_bare(name))


def function(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def option(name: str, value: exp.Expr) -> exp.EQ:
    """An argument of a table function that goes by its name."""
    return exp.EQ(this=variable(name), expression=value)


def operation(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Paren:
    """Two values and the sign between them, in parentheses: the generator sets none."""
    return exp.Paren(this=kind(this=left, expression=right))


def joined(kind: type[exp.Binary], parts: Sequence[exp.Expr]) -> exp.Expr:
    """a AND b AND c."""
    return reduce(lambda left, right: kind(this=left, expression=right), parts)


def cast(node: exp.Expr, type: str) -> exp.Cast:
    """`type` is DuckDB's name of it: a type stands in the tree as it is written."""
    return exp.Cast(this=node, to=exp.DataType(this=exp.DType.USERDEFINED, kind=type))


def is_null(node: exp.Expr) -> exp.Paren:
    return operation(exp.Is, node, exp.Null())


def negated(node: exp.Expr) -> exp.Paren:
    return exp.Paren(this=exp.Not(this=node))


def case(branches: Iterable[tuple[exp.Expr, exp.Expr]], otherwise: exp.Expr | None = None) -> exp.Case:
    """CASE WHEN … THEN …; the first branch whose test holds."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in branches], default=otherwise)


def array(values: Iterable[exp.Expr]) -> exp.Array:
    return exp.Array(expressions=list(values))


def struct(entries: Iterable[tuple[exp.Expr, exp.Expr]]) -> exp.Struct:
    return exp.Struct(expressions=[exp.PropertyEQ(this=key, expression=value) for key, value in entries])


def interval(count: int, unit: str) -> exp.Interval:
    return exp.Interval(this=exp.Paren(this=number(count)), unit=exp.Var(this=unit))


def select(values: Iterable[exp.Expr], source: exp.Expr | None = None, where: exp.Expr | None = None) -> exp.Select:
    """A query whose columns get our names, c0 and so on, unless they have one."""
    made = exp.Select(expressions=list(values))
    if source is not None:
        made.set("from_", exp.From(this=source))
    if where is not None:
        made.set("where", exp.Where(this=where))
    return made


def named(node: exp.Expr, at: int) -> exp.Alias:
    """An output of a query."""
    return exp.Alias(this=node, alias=_bare(f"c{at}"))


def aliased(query: exp.Expr, name: str) -> exp.Subquery:
    """A query in FROM."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=_bare(name)))


def table(name: str | exp.Anonymous) -> exp.Table:
    """Something registered, or a table function."""
    return exp.Table(this=_bare(name) if isinstance(name, str) else name)


def scan(alias: str) -> exp.Subquery:
    """The place of a scan in FROM: what it reads is known when the query is whole."""
    return aliased(exp.Placeholder(this=alias), alias)


def columns_of(query: exp.Expr, tables: Iterable[str]) -> Mapping[str, list[int]]:
    """The columns that a whole query names, of each of these tables."""
    found: dict[str, set[int]] = {alias: set() for alias in tables}
    waiting = [query]
    while waiting:
        node = waiting.pop()
        if type(node) is exp.Column:
            places = found.get(node.table)
            if places is not None:
                places.add(int(node.name[1:]))
            continue
        for value in node.args.values():
            if isinstance(value, list):
                waiting += value
            elif isinstance(value, exp.Expr):
                waiting.append(value)
    return {alias: sorted(places) for alias, places in found.items()}
