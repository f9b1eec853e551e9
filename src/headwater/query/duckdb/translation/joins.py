"""FROM and its joins: their nodes, and what comes into scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.expressions import Expressions
from headwater.query.duckdb.translation.scopes import NameScope, Source
from headwater.query.duckdb.translation.terms import Refused, Term, derived
from headwater.query.predicates import Predicate

_WORDS = {
    ("", ""): "INNER JOIN",
    ("", "INNER"): "INNER JOIN",
    ("", "CROSS"): "CROSS JOIN",
    ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN",
    ("RIGHT", ""): "RIGHT JOIN",
    ("RIGHT", "OUTER"): "RIGHT JOIN",
    ("FULL", ""): "FULL JOIN",
    ("FULL", "OUTER"): "FULL JOIN",
    ("LEFT", "SEMI"): "SEMI JOIN",
    ("", "SEMI"): "SEMI JOIN",
    ("LEFT", "ANTI"): "ANTI JOIN",
    ("", "ANTI"): "ANTI JOIN",
}

_SIDES = {"LEFT JOIN": "LEFT", "RIGHT JOIN": "RIGHT", "FULL JOIN": "FULL"}
_KINDS = {"INNER JOIN": "INNER", "CROSS JOIN": "CROSS", "SEMI JOIN": "SEMI", "ANTI JOIN": "ANTI"}


def _joined(word: str, table: exp.Expr, condition: exp.Expr | None = None) -> exp.Join:
    return exp.Join(this=table, side=_SIDES.get(word), kind=_KINDS.get(word), on=condition)


class Joins:
    """Brings sources into a scope one after the other."""

    def __init__(self, scope: NameScope, to: Expressions, table: Callable[[exp.Expr], tuple[exp.Expr, Source]]) -> None:
        self._scope, self._to, self._table = scope, to, table
        self.predicates: list[Predicate] = []
        """What must hold of every joined row."""

    def start(self, node: exp.Expr) -> exp.Expr:
        table, source = self._table(node)
        self._scope.sources.append(source)
        return table

    def join(self, node: exp.Join) -> exp.Join:
        word = _WORDS.get((str(node.side or "").upper(), str(node.kind or "").upper()))
        if word is None or node.args.get("method") or node.args.get("match_condition"):
            raise Refused("this form of a join is left to Spark")
        table, source = self._table(node.this)
        if any(source.alias.lower() == other.alias.lower() for other in self._scope.sources):
            raise Refused(f"'{source.alias}' is joined twice under one name")
        using = [column.name for column in node.args.get("using") or ()]
        on = node.args.get("on")
        if word in ("SEMI JOIN", "ANTI JOIN"):
            return self._filtering(word, table, source, on, using)
        if using:
            return _joined(word, table, self._using(word, source, using))
        self._scope.sources.append(source)
        if on is None:
            if word not in ("CROSS JOIN", "INNER JOIN"):
                raise Refused("an outer join without a condition is left to Spark")
            return _joined("CROSS JOIN", table)
        condition = self._to.condition(on)
        if word == "CROSS JOIN":
            word = "INNER JOIN"
        if word == "INNER JOIN":
            self.predicates.append(condition.predicate)
        self._after(word)
        return _joined(word, table, condition.node)

    def _filtering(self, word: str, table: exp.Expr, source: Source, on: exp.Expr | None, using: list[str]) -> exp.Join:
        """A semi or anti join: the right side is seen by the condition alone."""
        if on is None or using:
            raise Refused("a semi or anti join without ON is left to Spark")
        self._scope.sources.append(source)
        condition = self._to.condition(on)
        self._scope.sources.pop()
        return _joined(word, table, condition.node)

    def _using(self, word: str, right: Source, names: list[str]) -> exp.Expr:
        if len(self._scope.sources) != 1 or self._scope.merged:
            raise Refused("USING after another join is left to Spark")
        left = self._scope.sources[0]
        tests: list[exp.Expr] = []
        for name in names:
            a, b = _one(left, name), _one(right, name)
            if not a.type.equals(b.type) or not types.is_plain(a.type):
                raise Refused(f"USING ({name}) joins two types")
            tests.append(exp.EQ(this=a.node, expression=b.node))
            if word == "RIGHT JOIN":
                merged = replace(b, name=a.name)
            elif word == "FULL JOIN":
                merged = derived(nodes.function("coalesce", a.node, b.node), a.type, name=a.name)
            else:
                merged = a
            self._scope.merged.append(merged)
        hidden = frozenset(name.lower() for name in names)
        self._scope.sources = [replace(left, hidden=hidden), replace(right, hidden=hidden)]
        if word != "INNER JOIN":
            self._scope.merged = [replace(term, origin=None) for term in self._scope.merged]
        self._after(word)
        return nodes.joined(exp.And, tests)

    def _after(self, word: str) -> None:
        """Where a join may add rows of NULLs, conditions on that side's columns no longer lead to its files."""
        *lefts, right = self._scope.sources
        if word in ("RIGHT JOIN", "FULL JOIN"):
            lefts = [_unknown(source) for source in lefts]
        if word in ("LEFT JOIN", "FULL JOIN"):
            right = _unknown(right)
        self._scope.sources = [*lefts, right]


def _unknown(source: Source) -> Source:
    return replace(source, columns=tuple(replace(column, origin=None) for column in source.columns))


def _one(source: Source, name: str) -> Term:
    found = source.named.get(name.lower(), ())
    if len(found) != 1:
        raise Refused(f"USING ({name}) is left to Spark")
    return found[0]
