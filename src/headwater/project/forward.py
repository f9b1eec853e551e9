"""Whether a changed query can go on from where the old one has come: rows that are there stay as they are.

It can where each row of the result is made of one row of a topic, before and after: nothing that is there has to be
touched again. What the text does not show, Spark says before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from headwater.errors import UsageError
from headwater.model import Kind
from headwater.project.definition import Project
from headwater.project.graph import Name
from headwater.sql.references import parse_query, referring, resolve

STAR = "*"
_CLAUSES = ("group", "having", "distinct", "limit", "offset", "order", "qualify", "with", "windows", "pivots", "sample")
_SIDES = ("", "LEFT")


def goes_on(project: Project, old: str, new: str) -> tuple[str, ...] | None:
    """The columns that the new query has more than the old one; None where it has to begin anew."""
    try:
        before, after = parse_query(old), parse_query(new)
        driving = [_driving(project, query) for query in (before, after)]
    except UsageError:
        return None
    if driving[0] is None or driving[0] != driving[1]:
        return None
    had, has = _columns(before), _columns(after)
    if had is None or has is None or not had <= has:
        return None
    return tuple(name for name in sorted(has - had) if name != STAR)


def _driving(project: Project, query: exp.Query) -> frozenset[Name] | None:
    """The topics that drive a query row by row; None where something else does, or not row by row."""
    known = {kind: project.relations(kind).keys() for kind in Kind}
    found = [(table, reference, resolve(reference, known)) for table, reference in referring(query)]
    whole = not any(reference.driving for _, reference, _ in found)
    first = {id(table) for select in _selects(query) for table in [_first(select)] if table is not None}
    drives: set[Name] = set()
    for table, reference, kind in found:
        if reference.temporal or reference.changes is not None:
            return None
        if whole or reference.driving:
            if kind is not Kind.TOPIC or id(table) not in first:
                return None
            drives.add(Name(kind, reference.name))
        elif id(table) in first:
            return None
    return frozenset(drives) if drives and _is_row_by_row(query) else None


def _is_row_by_row(query: exp.Query) -> bool:
    if isinstance(query, exp.Union):
        alone = not any(query.args.get(clause) for clause in _CLAUSES if clause != "distinct")
        return alone and query.args.get("distinct") is False and all(map(_is_row_by_row, (query.left, query.right)))
    if not isinstance(query, exp.Select) or any(query.args.get(clause) for clause in _CLAUSES):
        return False
    joins = query.args.get("joins") or []
    if any((join.side or "").upper() not in _SIDES for join in joins):
        return False
    inner = next(query.find_all(exp.AggFunc, exp.Window, exp.Subquery, exp.Exists), None)
    nested = [one for one in query.find_all(exp.Query) if one is not query]
    return inner is None and not nested


def _selects(query: exp.Query) -> Iterator[exp.Select]:
    if isinstance(query, exp.Union):
        yield from _selects(query.left)
        yield from _selects(query.right)
    elif isinstance(query, exp.Select):
        yield query


def _first(select: exp.Select) -> exp.Expr | None:
    """What stands right after FROM."""
    found = select.args.get("from_") or select.args.get("from")
    return None if found is None else found.this


def _columns(query: exp.Query) -> frozenset[str] | None:
    """The names of a query's columns, a star for those of its inputs; None where a name is Spark's to give."""
    names = set()
    for select in query.selects:
        if isinstance(select, exp.Star) or (isinstance(select, exp.Column) and isinstance(select.this, exp.Star)):
            if select.args.get("except_") or select.args.get("except"):
                return None
            names.add(STAR)
        elif select.alias_or_name:
            names.add(select.alias_or_name.lower())
        else:
            return None
    return frozenset(names)
