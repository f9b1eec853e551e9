"""What an engine says is wrong with a query, at its place in the text that the user wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from headwater.core.errors import Code, nearest
from headwater.sql.places import InvalidSql, Span, span_of
from headwater.sql.references import referring

_QUOTED = re.compile(r"`((?:[^`]|``)*)`")


def blame(error_class: str, parameters: Mapping[str, str], text: str, query: exp.Query) -> InvalidSql | None:
    """An error of Spark's analysis by its class and parameters; None for one that names nothing of the text."""
    kind = error_class.split(".", 1)[0]
    if kind in ("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD", "FIELD_NOT_FOUND", "UNRESOLVED_USING_COLUMN_FOR_JOIN"):
        return _column(parameters, text, query)
    if kind in ("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
        return _function(parameters, text, query)
    return None


def asked_moment(query: exp.Query) -> Span | None:
    """The only version or time that a query asks for."""
    asked = [
        span_of(table.args.get("version")) or reference.span
        for table, reference in referring(query)
        if table.args.get("version") is not None or reference.changes is not None
    ]
    return asked[0] if len(asked) == 1 else None


def fragment(piece: str, text: str) -> Span | None:
    """Where a piece of a rewritten query stands in the text that was written, if it does and just once."""
    words = [re.escape(word) for word in piece.split()]
    matches = list(re.finditer(r"\s+".join(words), text, re.IGNORECASE)) if words else []
    return (matches[0].start(), matches[0].end() - 1) if len(matches) == 1 else None


def _column(parameters: Mapping[str, str], text: str, query: exp.Query) -> InvalidSql:
    name = next((parameters[key] for key in ("objectName", "fieldName", "colName") if key in parameters), "")
    parts = _parts(name)
    proposal = parameters.get("proposal") or parameters.get("fields") or parameters.get("suggestion") or ""
    # Only some of the columns are told: the nearest of them is of use, a list of them is not.
    meant = nearest(parts[-1], [_parts(one)[-1] for one in proposal.split(", ") if one.strip()])
    hint = f"did you mean '{meant}'?" if meant else None
    message = f"there is no column '{'.'.join(parts)}'"
    return InvalidSql(message, text=text, span=place_of(parts, query), hint=hint, code=Code.UNKNOWN_COLUMN)


def _function(parameters: Mapping[str, str], text: str, query: exp.Query) -> InvalidSql:
    name = _parts(parameters.get("routineName") or parameters.get("name") or "")[-1]
    meant = nearest(name.lower(), [known.lower() for known in exp.FUNCTION_BY_NAME])
    called = next((call for call in query.find_all(exp.Anonymous) if call.name.lower() == name.lower()), None)
    hint = f"did you mean '{meant}'?" if meant else None
    message = f"there is no function '{name if called is None else called.name}'"
    return InvalidSql(message, text=text, span=span_of(called), hint=hint, code=Code.UNKNOWN_FUNCTION)


def _parts(name: str) -> list[str]:
    return [part.replace("``", "`") for part in _QUOTED.findall(name)] or name.strip().split(".")


def place_of(parts: list[str], query: exp.Query) -> Span | None:
    """The column of these parts, or of the last of them."""
    wanted = [part.lower() for part in parts]
    columns = list(query.find_all(exp.Column, bfs=False))
    for column in columns:
        if [part.name.lower() for part in column.parts] == wanted:
            return span_of(column)
    for identifier in query.find_all(exp.Identifier, bfs=False):
        if identifier.name.lower() == wanted[-1]:
            return span_of(identifier)
    return None
