"""A query with the lake's relations put in for their names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from sqlglot import exp

from headwater.errors import Code, UsageError
from headwater.model import At
from headwater.sql.references import InvalidSql, Reference, referring

Placed = Callable[[Reference, "At | None"], str]
"""Gives the name under which the engine knows a relation, at a version or time."""


def with_relations(query: exp.Query, place: Placed) -> str:
    """The query's text for Spark; `place` is asked once for every relation that it reads."""
    query = query.copy()
    for table, reference in list(referring(query)):
        name = place(reference, time_travel(table))
        found = exp.to_table(name)
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(reference.name, quoted=True))
        found.set("alias", alias)
        for kept in ("joins", "laterals", "pivots", "sample"):
            if table.args.get(kept):
                found.set(kept, table.args[kept])
        table.replace(found)
    return query.sql(dialect="spark")


def time_travel(table: exp.Table) -> At | None:
    """The `VERSION AS OF 3` or `TIMESTAMP AS OF '…'` of a relation in a query."""
    version = table.args.get("version")
    if not isinstance(version, exp.Version):
        return None
    value = version.expression
    if not isinstance(value, exp.Literal):
        raise InvalidSql("a version or time to travel to is a number or a text in quotes")
    if str(version.this).upper() == "VERSION":
        try:
            return int(value.name)
        except ValueError:
            raise InvalidSql(f"'{value.name}' is not a version") from None
    return parse_time(value.name)


def parse_time(text: str) -> datetime:
    """A moment as people write it; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            Code.INVALID_VALUE, f"'{text}' is not a time", hint="write 2026-10-17 or 2026-10-17 12:30:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
