"""Versions, times and labels in a query: `VERSION AS OF 3`, `VERSION AS OF 'audit'`, `TIMESTAMP AS OF '2026-10-17'`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from sqlglot import exp

from headwater.core.errors import Code, UsageError
from headwater.sql.names import Between, Moment
from headwater.sql.places import InvalidSql


def moment_of(table: exp.Table) -> Moment | None:
    """The `VERSION AS OF` or `TIMESTAMP AS OF` of a relation in a query."""
    version = table.args.get("version")
    if not isinstance(version, exp.Version) or is_present(version):
        return None
    value = _literal(version.expression)
    if str(version.this).upper() == "VERSION":
        return _number(value.name) if value.name.isdecimal() else value.name
    return parse_time(value.name)


def is_present(version: exp.Expr | None) -> bool:
    """`FOR SYSTEM_TIME AS OF PROCTIME()`: the state that is there when it is read."""
    time = version.expression if isinstance(version, exp.Version) else None
    return isinstance(time, exp.Anonymous) and time.name.lower() == "proctime" and not time.expressions


def between(ends: Sequence[exp.Expr]) -> Between:
    """The second and third argument of `changes(…)`."""
    start, end = (*ends, None)[:2]
    return Between(_end(start), _end(end))


def _end(value: exp.Expr | None) -> Moment | None:
    if value is None or isinstance(value, exp.Null):
        return None
    literal = _literal(value)
    return parse_moment(literal.name) if literal.is_string else _number(literal.name)


def _literal(value: exp.Expr | None) -> exp.Literal:
    inner = value.this if isinstance(value, exp.Cast) else value  # TIMESTAMP '2026-10-17'
    if not isinstance(inner, exp.Literal) or not (inner.is_string or inner.name.isdecimal()):
        raise InvalidSql("a version or time to travel to is a number or a text in quotes")
    return inner


def parse_moment(text: str) -> Moment:
    """A version, a time or a label, as a command or `changes('x', '…')` names it."""
    if text.isdecimal():
        return _number(text)
    try:
        return parse_time(text)
    except UsageError:
        if text[:1].isalpha():
            return text
        raise


def parse_time(text: str) -> datetime:
    """A moment as people write it; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        moment.astimezone(timezone.utc)  # a moment of the first or last day may lie beyond
        return moment
    except (ValueError, OverflowError):
        raise UsageError(
            Code.INVALID_VALUE, f"'{text}' is not a time", hint="write 2026-10-17 or 2026-10-17 12:30:00"
        ) from None


def _number(digits: str) -> int:
    """A version; those of all formats fit into 64 bits."""
    if len(digits) > 19 or int(digits) >= 1 << 63:
        raise UsageError(Code.NO_SUCH_VERSION, f"there is no version {digits[:20]}…")
    return int(digits)
