"""What names mean inside a query: Spark's rules, or a refusal where they would be in doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.terms import Refused, Term, derived, spark_name


@dataclass(frozen=True)
class Source:
    """Something in FROM, with its columns in order; a term's name is the column's."""

    alias: str
    columns: tuple[Term, ...]
    hidden: frozenset[str] = frozenset()
    """Columns that a join by USING has merged into another's: found by qualified name only."""

    @cached_property
    def named(self) -> Mapping[str, list[Term]]:
        """Its columns by their names in small letters: case makes no difference to Spark."""
        found: dict[str, list[Term]] = {}
        for column in self.columns:
            found.setdefault((column.name or "").lower(), []).append(column)
        return found


@dataclass
class NameScope:
    """The sources that names are looked up in, then those of the query around."""

    sources: list[Source] = field(default_factory=list)
    outer: NameScope | None = None
    merged: list[Term] = field(default_factory=list)
    """Columns of joins by USING."""
    aliases: dict[str, Term] = field(default_factory=dict)
    """Outputs that may be named by what comes after them."""
    reached_out: bool = False
    """Whether a name was found only in the query around."""

    def column(self, column: exp.Column) -> Term:
        """The term that a column name stands for; its own name is as the query writes it, which is how Spark has it."""
        parts = [part.name for part in column.parts]
        found = self._local(parts)
        if found is not None:
            return replace(found, name=parts[-1])
        scope = self.outer
        while scope is not None:
            found = scope._local(parts)
            if found is not None:
                self.reached_out = True
                return replace(found, name=parts[-1], origin=None)
            scope = scope.outer
        raise self._unknown(column, parts)

    def star(self, qualifier: str | None = None) -> list[Term]:
        """All columns, or those of one source."""
        if qualifier is None:
            shown = [c for s in self.sources for c in s.columns if (c.name or "").lower() not in s.hidden]
            return [*self.merged, *shown]
        named = [source for source in self.sources if source.alias.lower() == qualifier.lower()]
        if len(named) != 1:
            raise Refused(f"'{qualifier}.*' is left to Spark")
        return list(named[0].columns)

    def _local(self, parts: Sequence[str]) -> Term | None:
        qualified = [source for source in self.sources if source.alias.lower() == parts[0].lower()]
        if len(parts) > 1 and qualified:
            named = [column for source in qualified for column in source.named.get(parts[1].lower(), ())]
            if len(named) > 1:
                raise Refused(f"'{'.'.join(parts)}' is not unique")
            if named:
                return _within(named[0], parts[2:])
        plain = self._plain(parts[0])
        if len(plain) > 1:
            raise Refused(f"'{parts[0]}' is not unique")
        if plain:
            return _within(plain[0], parts[1:])
        alias = self.aliases.get(parts[0].lower())
        return None if alias is None else _within(alias, parts[1:])

    def _plain(self, name: str) -> list[Term]:
        name = name.lower()
        merged = [term for term in self.merged if (term.name or "").lower() == name]
        if merged:
            return merged
        return [column for s in self.sources if name not in s.hidden for column in s.named.get(name, ())]

    def has_column(self, name: str) -> bool:
        return bool(self._plain(name))

    def _unknown(self, column: exp.Column, parts: Sequence[str]) -> UsageError:
        known = {c.name for s in self.sources for c in s.columns if c.name is not None}
        name = ".".join(parts)
        if parts[0].lower() in ("window", "session_window"):
            return Refused("windows of time are left to Spark")
        line = column.parts[0].meta.get("line")
        return UsageError(
            Code.UNKNOWN_COLUMN,
            f"there is no column '{name}'",
            where=None if line is None else Where("SQL", int(line)),
            hint=did_you_mean(parts[-1], known),
        )


def _within(term: Term, fields: Sequence[str]) -> Term:
    for name in fields:
        term = struct_field(term, name)
    return term


def struct_field(term: Term, name: str) -> Term:
    """A field of a struct, by Spark's name for it."""
    if not pa.types.is_struct(term.type):
        raise Refused(f"'{name}' of a {spark_name(term.type)} is left to Spark")
    found = [f for f in term.type if f.name.lower() == name.lower()]
    if len(found) != 1:
        raise Refused(f"the struct has {'no' if not found else 'more than one'} field '{name}'")
    field = found[0]
    return derived(
        nodes.function("struct_extract", term.node, nodes.string(field.name)), field.type, term, name=field.name
    )
