"""Which columns of its relations a query uses, as its text tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from sqlglot import exp

from headwater.project.graph import Name
from headwater.sql.references import parse_query, referring

Uses = Callable[[str, str], bool]
"""Whether a column, in lower case, of a relation, by its label, is used."""


def used_columns(sql: str, relations: Sequence[Name]) -> Uses:
    """By the names in the text: a column without a qualifier may be one of any relation. A star stands for all columns
    of what it is over, but for those of count(*) and EXISTS (SELECT * …), which look at no value."""
    query = parse_query(sql)
    labels = {
        id(table): [str(one) for one in relations if one.name == found.name and found.kind in (None, one.kind)]
        for table, found in referring(query)
    }
    tables = [table for table in query.find_all(exp.Table) if id(table) in labels]
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for table in tables:
        by_name[_called(table)].update(labels[id(table)])
    for inner in query.find_all(exp.Subquery, exp.CTE):
        by_name.pop(inner.alias.lower(), None)  # the name may mean either
    anywhere: set[str] = {one.name.lower() for one in query.find_all(exp.Dot)}
    of_one: defaultdict[str, set[str]] = defaultdict(set)
    for column in query.find_all(exp.Column):
        qualifier = column.table.lower()
        if len(column.parts) == 2 and qualifier in by_name:
            for label in by_name[qualifier]:
                of_one[label].add(column.name.lower())
        else:
            anywhere.add(column.name.lower())
    whole: set[str] = set()
    for star in query.find_all(exp.Star):
        select = star.find_ancestor(exp.Select)
        if isinstance(star.parent, exp.Count) or select is None or isinstance(select.parent, exp.Exists):
            continue
        qualifier = star.parent.table.lower() if isinstance(star.parent, exp.Column) else ""
        for table in tables:
            if table.find_ancestor(exp.Select) is select and qualifier in ("", _called(table)):
                whole.update(labels[id(table)])
    return lambda label, name: label in whole or name in anywhere or name in of_one[label]


def _called(table: exp.Table) -> str:
    """The name that the query has for a relation."""
    return (table.alias or table.name).lower()
