"""`FOR SYSTEM_TIME AS OF t`: the row of a history that was valid at a time, as a condition of the join."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from headwater.sql.places import InvalidSql

VALID_FROM, VALID_TO = "valid_from", "valid_to"


def times_asked(query: exp.Query) -> Iterator[tuple[exp.Expr, exp.Query]]:
    """The time of each join as of one, and a query that has it for its only column: what its type is, is the engine's
    to say."""
    for version in query.find_all(exp.Version):
        select = version.find_ancestor(exp.Select)
        if version.find(exp.Column) is None or select is None:
            continue
        probe = exp.Select(expressions=[exp.alias_(version.expression.copy(), "t")])
        for key in ("from_", "joins", "laterals"):
            if select.args.get(key):
                probe.set(key, [one.copy() for one in select.args[key]] if key != "from_" else select.args[key].copy())
        names = [cte.copy() for around in _context(select) for cte in around.ctes]
        if names:
            probe.set("with_", exp.With(expressions=names))
        for table in list(probe.find_all(exp.Table)):
            if isinstance(table.args.get("version"), exp.Version) and table.args["version"].find(exp.Column):
                table.set("version", None)
        yield version.expression, probe


def with_validity(query: exp.Query) -> exp.Query:
    """The query with the times in its joins written out: valid_from ≤ t < valid_to."""
    query = query.copy()
    for table in list(query.find_all(exp.Table)):
        version = table.args.get("version")
        if not isinstance(version, exp.Version) or version.find(exp.Column) is None:
            continue
        join = table.parent
        if not isinstance(join, exp.Join):
            raise InvalidSql("FOR SYSTEM_TIME AS OF a column is only allowed after a JOIN", _line(table))
        alias = table.alias_or_name
        if not table.alias:
            raise InvalidSql("a table with FOR SYSTEM_TIME AS OF needs a name of its own: … AS OF t k", _line(table))
        time = version.expression
        start, end = (exp.column(name, table=alias) for name in (VALID_FROM, VALID_TO))
        open_ended = exp.Is(this=end.copy(), expression=exp.null())
        ends_later = exp.GT(this=end, expression=time.copy())
        valid = exp.and_(exp.LTE(this=start, expression=time.copy()), exp.or_(open_ended, ends_later))
        join.set("on", valid if join.args.get("on") is None else exp.and_(join.args["on"], valid))
        table.set("version", None)
    return query


def _context(select: exp.Select) -> list[exp.Query]:
    """The queries that a query stands in, the outermost first, and itself."""
    queries: list[exp.Query] = [select]
    above = select.parent
    while above is not None:
        if isinstance(above, exp.Query):
            queries.insert(0, above)
        above = above.parent
    return queries


def _line(table: exp.Table) -> int | None:
    return next((int(part.meta["line"]) for part in table.walk() if "line" in part.meta), None)
