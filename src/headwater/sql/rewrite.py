"""A query with the lake's relations put in for their names."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headwater.core.errors import Code, UsageError
from headwater.core.model import At
from headwater.sql.dialect import Headwater
from headwater.sql.moments import moment_of, parse_time
from headwater.sql.names import Moment, Reference
from headwater.sql.places import InvalidSql, span_of
from headwater.sql.references import referring

__all__ = ["Placed", "only_at", "parse_time", "time_travel", "with_limit", "with_relations", "with_versions"]

MOST_ROWS = 2**31 - 1
"""The largest LIMIT that both engines have."""

Placed = Callable[[Reference, "At | None"], str]
"""Gives the name under which the engine knows a relation, at a version or time."""


def with_relations(query: exp.Query, place: Placed) -> str:
    """The query's text for Spark; `place` is asked once for every relation that it reads."""
    query = query.copy()
    shadowing = {cte.alias.lower(): cte for cte in query.find_all(exp.CTE)}
    for table, reference in list(referring(query)):
        name = place(reference, time_travel(table))
        if name.lower() in shadowing:
            cte = shadowing[name.lower()]
            raise InvalidSql(
                f"'{cte.alias}' is Headwater's own name for {reference}",
                span=span_of(cte.args["alias"]),
                hint="give the query in WITH another name",
            )
        relation = exp.to_table(name)
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(reference.name, quoted=True))
        relation.set("alias", alias)
        for kept in ("joins", "laterals", "pivots", "sample"):
            if table.args.get(kept):
                relation.set(kept, table.args[kept])
        table.replace(relation)
    return query.sql(dialect=Headwater, comments=False)


def with_versions(query: exp.Query, version: Callable[[Reference, str], int]) -> exp.Query:
    """The query with versions put in for the labels of named snapshots, which `version` is asked for."""
    query = query.copy()
    for table, reference in list(referring(query)):
        label = moment_of(table)
        if isinstance(label, str):
            number = exp.Literal.number(version(reference, label))
            table.set("version", exp.Version(this="VERSION", expression=number, kind="AS OF"))
        if reference.changes is not None:
            ends = (reference.changes.start, reference.changes.end)
            what, *_ = table.this.expressions
            numbers = [_end(version(reference, one) if isinstance(one, str) else one) for one in ends]
            table.this.set("expressions", [what, *numbers])
    return query


def with_limit(query: exp.Query, rows: int) -> exp.Query:
    """The query's first rows, in its order."""
    if not 0 <= rows <= MOST_ROWS:
        message = f"a limit of {rows} rows is not between 0 and {MOST_ROWS}"
        raise UsageError(Code.INVALID_VALUE, message, hint="leave it out to have all rows")
    limit = query.args.get("limit")
    if limit is None and query.args.get("offset") is None:
        return query.limit(rows)
    value = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(value, exp.Literal) and value.name.isdecimal() and len(value.name) < 11 and int(value.name) <= rows:
        return query
    return exp.select("*").from_(query.subquery("limited")).limit(rows)


def time_travel(table: exp.Table) -> At | None:
    """The `VERSION AS OF 3` or `TIMESTAMP AS OF '…'` of a relation in a query."""
    return only_at(moment_of(table))


def only_at(moment: Moment | None) -> At | None:
    """A version or time; labels are put in by `with_versions` before a query reaches an engine."""
    if isinstance(moment, str):
        raise InvalidSql(f"there is no version '{moment}'", code=Code.NO_SUCH_VERSION)
    return moment


def _end(moment: Moment | None) -> exp.Expr:
    if moment is None:
        return exp.Null()
    return exp.Literal.number(moment) if isinstance(moment, int) else exp.Literal.string(str(moment))
