"""Which columns of its relations a query uses, as its text tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from sqlglot import exp

from headwater.project.graph import Name
from headwater.sql.conditions import Path, path_of
from headwater.sql.references import parse_query, referring

Uses = Callable[[str, Path], bool]
"""Whether a column or field of a relation, by its label, is used: itself, what it lies in, or something in it. Paths
are in lower case."""


def used_columns(sql: str, relations: Sequence[Name]) -> Uses:
    """By the names in the text: a column without a qualifier may be one of any relation. A star stands for all columns
    of what it is over, but for those of count(*) and EXISTS (SELECT * …), which look at no value."""
    query = parse_query(sql)
    labels = {
        id(table): [str(one) for one in relations if one.name == reference.name and reference.kind in (None, one.kind)]
        for table, reference in referring(query)
    }
    tables = [table for table in query.find_all(exp.Table) if id(table) in labels]
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for table in tables:
        by_name[_called(table)].update(labels[id(table)])
    for inner in query.find_all(exp.Subquery, exp.CTE):
        by_name.pop(inner.alias.lower(), None)  # the name may mean either
    anywhere: set[Path] = set()
    for join in query.find_all(exp.Join):
        anywhere.update((name.name.lower(),) for name in join.args.get("using") or ())
    of_one: defaultdict[str, set[Path]] = defaultdict(set)
    for column in query.find_all(exp.Column):
        path = _asked_for(column)
        if len(path) > 1 and path[0] in by_name:
            for label in by_name[path[0]]:
                of_one[label].add(path[1:])
            anywhere.add(path)
        else:  # what comes first may be a column, or something that the query has a name for
            anywhere.update(path[at:] for at in range(len(path)))
    whole: set[str] = set()
    for star in query.find_all(exp.Star):
        select = star.find_ancestor(exp.Select)
        if isinstance(star.parent, exp.Count) or select is None or isinstance(select.parent, exp.Exists):
            continue
        qualifier = star.parent.table.lower() if isinstance(star.parent, exp.Column) else ""
        for table in tables:
            if table.find_ancestor(exp.Select) is select and qualifier in ("", _called(table)):
                whole.update(labels[id(table)])
    return lambda label, path: label in whole or any(_overlap(path, used) for used in (*anywhere, *of_one[label]))


def _asked_for(column: exp.Column) -> Path:
    """In lower case; what is asked for by a struct's star is the struct."""
    path = tuple(name.lower() for name in path_of(column))
    return path[:-1] if column.is_star else path


def _overlap(one: Path, other: Path) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def _called(table: exp.Table) -> str:
    """The name that the query has for a relation."""
    return (table.alias or table.name).lower()
