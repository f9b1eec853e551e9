"""Dates and moments; the zone is UTC in both engines."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb import coercion as types
from headwater.query.duckdb.expressions import NAMED, Expressions, Rule, argument, call, rule
from headwater.query.duckdb.terms import Refused, Term, derived, literal, spark_name, text

_UNITS = {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}
_TRUNC = {"YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MM": "month",
          "MON": "month", "WEEK": "week"}  # fmt: skip
_DAYS = {"DAY": 1, "WEEK": 7}
_FORMATS = {"%Y": "%Y", "%mstrict": "%m", "%dstrict": "%d", "%Hstrict": "%H", "%Mstrict": "%M", "%Sstrict": "%S"}
_BETWEEN = "-/:. _"


def _moment(to: Expressions, node: exp.Expr) -> Term:
    """A date or moment, without what sqlglot wraps around it."""
    while isinstance(node, (exp.TsOrDsToDate, exp.TimeStrToTime)):
        node = node.this
    return to.of(node, types.TIMESTAMP, types.DATE)


def _as_date(term: Term) -> Term:
    return term if term.type == types.DATE else derived(f"CAST({term.sql} AS DATE)", types.DATE, term)


@rule(exp.TimestampTrunc)
def _date_trunc(to: Expressions, node: exp.TimestampTrunc) -> Term:
    unit = argument(node, "unit").name.upper()
    if unit not in _UNITS:
        raise Refused(f"date_trunc to {unit.lower()} is left to Spark")
    found = types.cast(_moment(to, node.this), types.TIMESTAMP)
    name = None if found.name is None else f"date_trunc({unit}, {found.name})"
    return derived(f"date_trunc({text(unit.lower())}, {found.sql})", types.TIMESTAMP, found, name=name)


@rule(exp.DateTrunc)
def _trunc(to: Expressions, node: exp.DateTrunc) -> Term:
    unit = _TRUNC.get(to.word(argument(node, "unit")).upper())
    if unit is None:
        raise Refused("trunc to this unit is left to Spark")
    found = _as_date(_moment(to, node.this))
    return derived(f"CAST(date_trunc('{unit}', {found.sql}) AS DATE)", types.DATE, found)


def _part(function: str, spark: str, extra: str = "", *, timed: bool = False) -> Rule:
    def part(to: Expressions, node: exp.Func) -> Term:
        found = _moment(to, node.this if not isinstance(node, exp.Anonymous) else node.expressions[0])
        if timed:
            found = types.cast(found, types.TIMESTAMP)
        return derived(f"CAST({function}({found.sql}){extra} AS INTEGER)", types.INT, found, name=call(spark, found))

    return part


_PARTS: dict[type[exp.Expr], tuple[str, str, str, bool]] = {
    exp.Year: ("year", "year", "", False),
    exp.Quarter: ("quarter", "quarter", "", False),
    exp.Month: ("month", "month", "", False),
    exp.Day: ("day", "day", "", False),
    exp.DayOfMonth: ("day", "dayofmonth", "", False),
    exp.DayOfYear: ("dayofyear", "dayofyear", "", False),
    exp.DayOfWeek: ("dayofweek", "dayofweek", " + 1", False),
    exp.WeekOfYear: ("week", "weekofyear", "", False),
    exp.Hour: ("hour", "hour", "", True),
    exp.Minute: ("minute", "minute", "", True),
    exp.Second: ("second", "second", "", True),
}
for _kind, (_function, _spark, _extra, _timed) in _PARTS.items():
    rule(_kind)(_part(_function, _spark, _extra, timed=_timed))
NAMED["weekday"] = _part("isodow", "weekday", " - 1")


@rule(exp.Extract)
def _extract(to: Expressions, node: exp.Extract) -> Term:
    unit = node.name.upper()
    kinds = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "HOUR": "hour", "MINUTE": "minute"}
    if unit not in kinds:
        raise Refused(f"extract({unit.lower()}) is left to Spark")
    found = _moment(to, node.expression)
    if unit in ("HOUR", "MINUTE"):
        found = types.cast(found, types.TIMESTAMP)
    return derived(f"CAST({kinds[unit]}({found.sql}) AS INTEGER)", types.INT, found)


@rule(exp.TsOrDsToDate)
def _to_date(to: Expressions, node: exp.TsOrDsToDate) -> Term:
    if node.args.get("format") is not None:
        raise Refused("to_date with a format is left to Spark")
    return _as_date(_moment(to, node.this))


@rule(exp.TsOrDsAdd)
def _date_add(to: Expressions, node: exp.TsOrDsAdd) -> Term:
    if argument(node, "unit").name.upper() != "DAY":
        raise Refused("this form of date_add is left to Spark")
    day, days = _as_date(_moment(to, node.this)), to.of(node.expression, pa.int32(), pa.int16(), pa.int8())
    if day.is_literal and days.is_literal:
        return literal(day.value + timedelta(days=days.value), types.DATE)
    return derived(f"CAST(({day.sql} + {days.sql}) AS DATE)", types.DATE, day, days)


@rule(exp.AddMonths)
def _add_months(to: Expressions, node: exp.AddMonths) -> Term:
    day, months = _as_date(_moment(to, node.this)), to.integer(node.expression)
    return derived(f"CAST(({day.sql} + INTERVAL ({months}) MONTH) AS DATE)", types.DATE, day)


@rule(exp.LastDay)
def _last_day(to: Expressions, node: exp.LastDay) -> Term:
    day = _as_date(_moment(to, node.this))
    return derived(f"last_day({day.sql})", types.DATE, day)


@rule(exp.DateDiff)
def _date_diff(to: Expressions, node: exp.DateDiff) -> Term:
    if node.args.get("unit") is not None:
        raise Refused("datediff by a unit is left to Spark")
    end, start = _as_date(_moment(to, node.this)), _as_date(_moment(to, node.expression))
    return derived(f"CAST(date_diff('day', {start.sql}, {end.sql}) AS INTEGER)", types.INT, end, start)


@rule(exp.TimeToStr)
def _date_format(to: Expressions, node: exp.TimeToStr) -> Term:
    found = types.cast(_moment(to, node.this), types.TIMESTAMP)
    rest, made = to.word(argument(node, "format")), ""
    while rest:
        known = next((code for code in _FORMATS if rest.startswith(code)), None)
        if known is None and rest[0] not in _BETWEEN:
            raise Refused("this format of a date is left to Spark")
        made += _FORMATS[known] if known else rest[0]
        rest = rest[len(known) if known else 1 :]
    return derived(f"strftime({found.sql}, {text(made)})", types.STRING, found)


def moved(to: Expressions, node: exp.Binary) -> Term:
    """A date or moment and an interval."""
    sign = "-" if isinstance(node, exp.Sub) else "+"
    term, interval = node.this, node.expression
    if isinstance(term, exp.Interval):
        term, interval = interval, term
        if sign == "-":
            raise Refused("an interval less a date is left to Spark")
    if isinstance(node, exp.Mul) or isinstance(term, exp.Interval):
        raise Refused("arithmetic of intervals is left to Spark")
    found = to.of(term, types.TIMESTAMP, types.DATE)
    count, unit = _interval(to, interval)
    by_day = unit in ("DAY", "WEEK", "MONTH", "YEAR")
    if found.is_literal and unit not in ("MONTH", "YEAR"):
        return _moved_literal(found, count if sign == "+" else -count, unit)
    if found.type == types.DATE and by_day:
        return derived(f"CAST(({found.sql} {sign} INTERVAL ({count}) {unit}) AS DATE)", types.DATE, found)
    found = types.cast(found, types.TIMESTAMP)
    return derived(f"({found.sql} {sign} INTERVAL ({count}) {unit})", types.TIMESTAMP, found)


def _interval(to: Expressions, node: exp.Interval) -> tuple[int, str]:
    unit = node.args.get("unit")
    name = unit.name.upper().rstrip("S") if isinstance(unit, exp.Var) else ""
    written = "" if node.this is None else node.this.name
    if isinstance(node.this, exp.Neg):
        written = "-" + node.this.this.name
    if name not in _UNITS - {"QUARTER"} or not written.lstrip("-").isdigit():
        raise Refused("this interval is left to Spark")
    return int(written), name


def _moved_literal(term: Term, count: int, unit: str) -> Term:
    """Reckoned here, so that files can be left out by it."""
    try:
        if unit in _DAYS:
            return literal(term.value + timedelta(days=count * _DAYS[unit]), term.type)
        moment = types.cast(term, types.TIMESTAMP)
        return literal(moment.value + timedelta(**{f"{unit.lower()}s": count}), types.TIMESTAMP)
    except OverflowError:
        raise Refused(f"a {spark_name(term.type)} so far away is left to Spark") from None
