"""Whether a changed query can go on from where the old one has come: rows that are there stay as they are.

It can where each row of the result is made of one row of a topic, before and after: nothing that is there has to be
touched again. What the text does not show, Spark says before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from headwater.core.errors import UsageError
from headwater.core.model import Kind
from headwater.project.definition import ProjectDefinition
from headwater.project.graph import Name
from headwater.sql.references import parse_query, referring, resolve

STAR = "*"
_CLAUSES = ("group", "having", "distinct", "limit", "offset", "order", "qualify", "with", "windows", "pivots", "sample")
_SIDES = ("", "LEFT")
_SEVERAL = "a row of it is made of several rows"
_TOLD = {"distinct": "it leaves out rows that are there twice", "limit": "it is cut off by LIMIT"}


@dataclass(frozen=True)
class Continuation:
    """Whether a changed query goes on, and with what."""

    added: tuple[str, ...] = ()
    """The columns that the new query has more than the old one."""
    why_not: str | None = None
    """Why it has to start over; None where it goes on."""


class _NeedsRebuild(Exception):
    """It has to start over; says why."""


def goes_on(project: ProjectDefinition, old: str, new: str) -> Continuation:
    """Whether the new query can take over from the old one."""
    try:
        before, after = parse_query(old), parse_query(new)
        driving = [_driving(project, query) for query in (before, after)]
        if driving[0] != driving[1]:
            raise _NeedsRebuild(f"it was driven by {_described(driving[0])} and is by {_described(driving[1])} now")
        had, has = _columns(before), _columns(after)
    except UsageError:
        return Continuation(why_not="it names what is not there")
    except _NeedsRebuild as refused:
        return Continuation(why_not=str(refused))
    gone = sorted(had - has)
    if gone:
        return Continuation(why_not="the columns of its inputs go" if gone[0] == STAR else f"column '{gone[0]}' goes")
    return Continuation(tuple(name for name in sorted(has - had) if name != STAR))


def _driving(project: ProjectDefinition, query: exp.Query) -> frozenset[Name]:
    """The topics that drive a query row by row."""
    _require_row_by_row(query)
    known = {kind: project.relations(kind).keys() for kind in Kind}
    found = [(table, reference, resolve(reference, known)) for table, reference in referring(query)]
    whole = not any(reference.driving for _, reference, _ in found)
    first = {id(table) for select in _selects(query) for table in [_first(select)] if table is not None}
    drives: set[Name] = set()
    for table, reference, kind in found:
        name = Name(kind, reference.name)
        if reference.temporal:
            raise _NeedsRebuild(f"late states of {name} correct rows that are there")
        if reference.changes is not None:
            raise _NeedsRebuild(f"it reads the changes of {name}")
        if reference.driving or (whole and not reference.latest):
            if kind is not Kind.TOPIC:
                raise _NeedsRebuild(f"rows of {name} may be changed or deleted")
            if id(table) not in first:
                raise _NeedsRebuild(f"rows of {name} meet rows that are there")
            drives.add(name)
        elif id(table) in first:
            raise _NeedsRebuild(f"{name} is only looked up, and stands first")
    if not drives:
        raise _NeedsRebuild("no topic drives it")
    return frozenset(drives)


def _require_row_by_row(query: exp.Query) -> None:
    """Refuse a query whose rows are made of more than one row."""
    if isinstance(query, exp.Union):
        if query.args.get("distinct") is not False:
            raise _NeedsRebuild("it leaves out rows that are there twice")
        _require_plain(query, "distinct")
        _require_row_by_row(query.left)
        _require_row_by_row(query.right)
        return
    if not isinstance(query, exp.Select):
        raise _NeedsRebuild(_SEVERAL)
    _require_plain(query)
    joins = query.args.get("joins") or []
    if any((join.side or "").upper() not in _SIDES for join in joins):
        raise _NeedsRebuild("its join has rows of the other side alone")
    inner = next(query.find_all(exp.AggFunc, exp.Window, exp.Subquery, exp.Exists), None)
    if inner is not None or any(one is not query for one in query.find_all(exp.Query)):
        raise _NeedsRebuild(_SEVERAL)


def _require_plain(query: exp.Query, *but: str) -> None:
    clause = next((clause for clause in _CLAUSES if clause not in but and query.args.get(clause)), None)
    if clause is not None:
        raise _NeedsRebuild(_TOLD.get(clause, _SEVERAL))


def _described(names: frozenset[Name]) -> str:
    return " and ".join(sorted(map(str, names)))


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


def _columns(query: exp.Query) -> frozenset[str]:
    """The names of a query's columns, a star for those of its inputs."""
    names = set()
    for select in query.selects:
        if isinstance(select, exp.Star) or (isinstance(select, exp.Column) and isinstance(select.this, exp.Star)):
            if select.args.get("except_") or select.args.get("except"):
                raise _NeedsRebuild("which columns it has is not in its text")
            names.add(STAR)
        elif select.alias_or_name:
            names.add(select.alias_or_name.lower())
        else:
            raise _NeedsRebuild(f"'{select.sql(dialect='spark')}' has no name of its own")
    return frozenset(names)
