"""Dates and moments; the zone is UTC in both engines."""

from __future__ import annotations

import re
from datetime import timedelta

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.expressions import (
    NAMED,
    Expressions,
    Rule,
    argument,
    call,
    first_argument,
    rule,
)
from headwater.query.duckdb.translation.terms import Refused, Term, cast_node, derived, literal, spark_name

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
    return term if term.type == types.DATE else derived(cast_node(term.node, types.DATE), types.DATE, term)


@rule(exp.TimestampTrunc)
def _date_trunc(to: Expressions, node: exp.TimestampTrunc) -> Term:
    unit = argument(node, "unit").name.upper()
    if unit not in _UNITS:
        raise Refused(f"date_trunc to {unit.lower()} is left to Spark")
    found = types.cast(_moment(to, node.this), types.TIMESTAMP)
    name = None if found.name is None else f"date_trunc({unit}, {found.name})"
    made = nodes.function("date_trunc", nodes.string(unit.lower()), found.node)
    return derived(made, types.TIMESTAMP, found, name=name)


@rule(exp.DateTrunc)
def _trunc(to: Expressions, node: exp.DateTrunc) -> Term:
    unit = _TRUNC.get(to.word(argument(node, "unit")).upper())
    if unit is None:
        raise Refused("trunc to this unit is left to Spark")
    found = _as_date(_moment(to, node.this))
    made = nodes.function("date_trunc", nodes.string(unit), found.node)
    return derived(cast_node(made, types.DATE), types.DATE, found)


def _part(function: str, spark: str, extra: int = 0, *, timed: bool = False) -> Rule:
    def part(to: Expressions, node: exp.Func) -> Term:
        found = _moment(to, first_argument(node))
        if timed:
            found = types.cast(found, types.TIMESTAMP)
        return derived(_whole_part(function, found, extra), types.INT, found, name=call(spark, found))

    return part


def _whole_part(function: str, moment: Term, extra: int = 0) -> exp.Expr:
    """A part of a moment, and what Spark counts it higher or lower."""
    made: exp.Expr = nodes.function(function, moment.node)
    if extra:
        made = (exp.Add if extra > 0 else exp.Sub)(this=made, expression=nodes.number(abs(extra)))
    return cast_node(made, types.INT)


_PARTS: dict[type[exp.Expr], tuple[str, str, int, bool]] = {
    exp.Year: ("year", "year", 0, False),
    exp.Quarter: ("quarter", "quarter", 0, False),
    exp.Month: ("month", "month", 0, False),
    exp.Day: ("day", "day", 0, False),
    exp.DayOfMonth: ("day", "dayofmonth", 0, False),
    exp.DayOfYear: ("dayofyear", "dayofyear", 0, False),
    exp.DayOfWeek: ("dayofweek", "dayofweek", 1, False),
    exp.WeekOfYear: ("week", "weekofyear", 0, False),
    exp.Hour: ("hour", "hour", 0, True),
    exp.Minute: ("minute", "minute", 0, True),
    exp.Second: ("second", "second", 0, True),
}
for _kind, (_function, _spark, _extra, _timed) in _PARTS.items():
    rule(_kind)(_part(_function, _spark, _extra, timed=_timed))
NAMED["weekday"] = _part("isodow", "weekday", -1)


@rule(exp.Extract)
def _extract(to: Expressions, node: exp.Extract) -> Term:
    unit = node.name.upper()
    kinds = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "HOUR": "hour", "MINUTE": "minute"}
    if unit not in kinds:
        raise Refused(f"extract({unit.lower()}) is left to Spark")
    found = _moment(to, node.expression)
    if unit in ("HOUR", "MINUTE"):
        found = types.cast(found, types.TIMESTAMP)
    return derived(_whole_part(kinds[unit], found), types.INT, found)


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
        return _moved_literal(day, days.value, "DAY")
    return derived(cast_node(nodes.operation(exp.Add, day.node, days.node), types.DATE), types.DATE, day, days)


@rule(exp.AddMonths)
def _add_months(to: Expressions, node: exp.AddMonths) -> Term:
    day, months = _as_date(_moment(to, node.this)), to.integer(node.expression)
    made = nodes.operation(exp.Add, day.node, nodes.interval(months, "MONTH"))
    return derived(cast_node(made, types.DATE), types.DATE, day)


@rule(exp.LastDay)
def _last_day(to: Expressions, node: exp.LastDay) -> Term:
    day = _as_date(_moment(to, node.this))
    return derived(nodes.function("last_day", day.node), types.DATE, day)


@rule(exp.DateDiff)
def _date_diff(to: Expressions, node: exp.DateDiff) -> Term:
    if node.args.get("unit") is not None:
        raise Refused("datediff by a unit is left to Spark")
    end, start = _as_date(_moment(to, node.this)), _as_date(_moment(to, node.expression))
    made = nodes.function("date_diff", nodes.string("day"), start.node, end.node)
    return derived(cast_node(made, types.INT), types.INT, end, start)


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
    written = nodes.function("strftime", found.node, nodes.string(made))
    return derived(types.within_four_digits(found, written), types.STRING, found)


def moved(to: Expressions, node: exp.Binary) -> Term:
    """A date or moment and an interval."""
    less = isinstance(node, exp.Sub)
    term, interval = node.this, node.expression
    if isinstance(term, exp.Interval):
        term, interval = interval, term
        if less:
            raise Refused("an interval less a date is left to Spark")
    if isinstance(node, exp.Mul) or isinstance(term, exp.Interval):
        raise Refused("arithmetic of intervals is left to Spark")
    found = to.of(term, types.TIMESTAMP, types.DATE)
    count, unit = _interval(to, interval)
    by_day = unit in ("DAY", "WEEK", "MONTH", "YEAR")
    if found.is_literal and unit not in ("MONTH", "YEAR"):
        return _moved_literal(found, -count if less else count, unit)
    kind, by = exp.Sub if less else exp.Add, nodes.interval(count, unit)
    if found.type == types.DATE and by_day:
        return derived(cast_node(nodes.operation(kind, found.node, by), types.DATE), types.DATE, found)
    found = types.cast(found, types.TIMESTAMP)
    return derived(nodes.operation(kind, found.node, by), types.TIMESTAMP, found)


def _interval(to: Expressions, node: exp.Interval) -> tuple[int, str]:
    unit = node.args.get("unit")
    name = unit.name.upper().rstrip("S") if isinstance(unit, exp.Var) else ""
    written = "" if node.this is None else node.this.name
    if isinstance(node.this, exp.Neg):
        written = "-" + node.this.this.name
    if name not in _UNITS - {"QUARTER"} or not re.fullmatch("-?[0-9]{1,9}", written):
        raise Refused("this interval is left to Spark")
    return int(written), name


def _moved_literal(term: Term, count: int | None, unit: str) -> Term:
    """Reckoned here, so that files can be left out by it."""
    if term.value is None or count is None:
        return literal(None, term.type if unit in _DAYS else types.TIMESTAMP)
    try:
        if unit in _DAYS:
            return literal(term.value + timedelta(days=count * _DAYS[unit]), term.type)
        moment = types.cast(term, types.TIMESTAMP)
        return literal(moment.value + timedelta(**{f"{unit.lower()}s": count}), types.TIMESTAMP)
    except OverflowError:
        raise Refused(f"a {spark_name(term.type)} so far away is left to Spark") from None
