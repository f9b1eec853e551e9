"""The columns that a part of a query sees, by the names that its text has for them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.incremental.translation.refusal import NotIncremental


@dataclass(frozen=True)
class ScopeColumn:
    """A column: the alias of its relation, its name there, and its own unique name in the plan."""

    relation: str
    name: str
    unique: str
    hidden: bool = False
    """Made for the plan: no star means it."""
    merged: bool = False
    """What USING made of both sides' columns: no relation's own star means it."""
    behind: bool = False
    """One of those that USING made one of: only with its relation's name is it meant."""


@dataclass
class Scope:
    """What FROM and the joins of one SELECT bring; `outer` is the scope of the query around a subquery."""

    columns: list[ScopeColumn] = field(default_factory=list)
    outer: Scope | None = None

    def add(self, relation: str, columns: Mapping[str, str]) -> None:
        self.columns += [ScopeColumn(relation, name, unique) for name, unique in columns.items()]

    def hide(self, unique: str) -> None:
        """Know a column that the text has no name for."""
        self.columns.append(ScopeColumn("", unique, unique, hidden=True))

    def find(self, parts: list[str]) -> tuple[ScopeColumn, list[str]] | None:
        """The column that a dotted name means, and the fields of it that follow."""
        if len(parts) > 1:
            qualified = [one for one in self.columns if _same(one.relation, parts[0]) and _same(one.name, parts[1])]
            if qualified:
                return qualified[0], parts[2:]
        plain = [one for one in self.columns if _same(one.name, parts[0]) and not one.behind]
        if not plain:
            return None
        if len({one.unique for one in plain}) > 1:
            raise NotIncremental(f"'{parts[0]}' could be one of several columns")
        return plain[0], parts[1:]

    def of(self, relation: str | None) -> Iterator[ScopeColumn]:
        """The columns of one relation, or of all: what a star means."""
        for one in self.columns:
            if one.hidden or (one.behind if relation is None else one.merged or not _same(one.relation, relation)):
                continue
            yield one


class UniqueNames:
    """Unique names, each with the one that people know before its number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self, name: str) -> str:
        return f"{name}#{next(self._numbers)}"


def parts_of(column: exp.Column) -> list[str]:
    """A dotted name's parts, from the left."""
    return [part.name for part in column.parts]


def renamed(columns: list[tuple[str, str]], alias: exp.Expr | None) -> list[tuple[str, str]]:
    """The columns by the names that an alias gives them: `t (a, b)`."""
    given = [one.name for one in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not given:
        return columns
    return [(name, unique) for name, (_, unique) in zip(given, columns, strict=True)]


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
