"""Which type Spark would make of two, and how a term gets there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.terms import Refused, Term, cast_node, derived, literal, spark_name

BOOLEAN, INT, LONG, FLOAT, DOUBLE = pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()
STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ = pa.string(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us")

_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""How many digits Spark's decimal for an integer type has."""

EXACT_IN_DOUBLE = 15
"""Decimals of so many digits are turned into DOUBLE without a doubt about the last bit."""

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII)


def is_integer(type: pa.DataType) -> bool:
    return type in _DIGITS


def is_number(type: pa.DataType) -> bool:
    return is_integer(type) or type in (FLOAT, DOUBLE) or pa.types.is_decimal128(type)


def is_plain(type: pa.DataType) -> bool:
    """Whether values of it are compared and ordered alike in both engines."""
    return is_number(type) or type in (BOOLEAN, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ)


def is_grouped_alike(type: pa.DataType) -> bool:
    """Whether values of it are the same, in grouping, in both engines."""
    if pa.types.is_struct(type):
        return all(is_grouped_alike(field.type) for field in type)
    if pa.types.is_list(type):
        return is_grouped_alike(type.value_type)
    return is_plain(type)


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type that both are brought to before they are compared or meet in one column."""
    if left.equals(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_null(right):
        return left
    if is_integer(left) and is_integer(right):
        return max(left, right, key=_INTEGERS.index)
    if is_number(left) and is_number(right):
        if DOUBLE in (left, right):
            return DOUBLE
        if FLOAT in (left, right):
            other = right if left == FLOAT else left
            if pa.types.is_decimal(other):
                return DOUBLE
            raise Refused("FLOAT alongside whole numbers is left to Spark")
        return _wider_decimal(as_decimal(left), as_decimal(right))
    if {left, right} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    raise Refused(f"{spark_name(left)} and {spark_name(right)} have no type in common without a cast")


def as_decimal(type: pa.DataType) -> pa.Decimal128Type:
    """The decimal that holds every value of an exact type."""
    if pa.types.is_decimal128(type):
        return type
    return pa.decimal128(_DIGITS[type], 0)


def _wider_decimal(left: pa.Decimal128Type, right: pa.Decimal128Type) -> pa.DataType:
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale)
    if digits + scale > 38:
        raise Refused("decimals of more than 38 digits are left to Spark")
    return pa.decimal128(digits + scale, scale)


def common(terms: list[Term]) -> pa.DataType:
    """The one type of several terms."""
    found = pa.null()
    for term in terms:
        found = wider(found, term.type)
    return found


def cast(term: Term, type: pa.DataType) -> Term:
    """A term brought to a type that can hold it, as Spark does by itself."""
    if term.type.equals(type):
        return term
    if term.is_literal:
        found = _cast_literal(term, type)
        if found is not None:
            return found
    if not is_widening(term.type, type):
        raise Refused(f"{spark_name(term.type)} is not turned into {spark_name(type)} here")
    return replace(derived(cast_node(term.node, type), type, term), name=term.name)


def is_widening(source: pa.DataType, target: pa.DataType) -> bool:
    if source.equals(target) or pa.types.is_null(source):
        return True
    if is_integer(source):
        if is_integer(target):
            return _INTEGERS.index(source) <= _INTEGERS.index(target)
        return target == DOUBLE or (pa.types.is_decimal128(target) and _fits(as_decimal(source), target))
    if pa.types.is_decimal128(source):
        if target == DOUBLE:
            return bool(source.precision <= EXACT_IN_DOUBLE)
        return pa.types.is_decimal128(target) and _fits(source, target)
    return (source, target) in ((FLOAT, DOUBLE), (DATE, TIMESTAMP))


def _fits(source: pa.Decimal128Type, target: pa.Decimal128Type) -> bool:
    return bool(target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale)


def _cast_literal(term: Term, type: pa.DataType) -> Term | None:
    value = term.value
    if value is None:
        return literal(None, type, term.name)
    if isinstance(value, bool):
        return None
    if type == DOUBLE and isinstance(value, (int, float, Decimal)):
        return literal(float(value), type, term.name)
    if pa.types.is_decimal128(type) and isinstance(value, (int, Decimal)):
        digits = Decimal(value).adjusted() + 1
        exponent = Decimal(value).as_tuple().exponent
        if isinstance(exponent, int) and -exponent <= type.scale and digits <= type.precision - type.scale:
            return literal(Decimal(value), type, term.name)
        return None
    if is_integer(type) and isinstance(value, int) and _holds(type, value):
        return literal(value, type, term.name)
    if type == TIMESTAMP and isinstance(value, date) and not isinstance(value, datetime):
        return literal(datetime(value.year, value.month, value.day, tzinfo=timezone.utc), type, term.name)
    return None


def _holds(type: pa.DataType, value: int) -> bool:
    bits = type.bit_width - 1
    return bool(-(1 << bits) <= value < (1 << bits))


def compared(left: Term, right: Term) -> tuple[Term, Term]:
    """Both sides of a comparison, in one type; a text alongside a date or a moment is read as one."""
    for one, other in ((left, right), (right, left)):
        if other.is_literal and isinstance(other.value, str) and one.type in (DATE, TIMESTAMP):
            read = moment(other.value, one.type)
            return (one, read) if one is left else (read, one)
    for one, other in ((left, right), (right, left)):
        # A whole literal keeps the column bare, so that the storage's statistics can be used.
        if one.is_literal and is_integer(one.type) and is_integer(other.type) and _holds(other.type, one.value):
            one = literal(one.value, other.type, one.name)
            return (one, other) if other is right else (other, one)
    type = wider(left.type, right.type)
    if not is_plain(type) and type != pa.null():
        raise Refused(f"{spark_name(type)} is not compared here")
    return cast(left, type), cast(right, type)


def within_four_digits(moment: Term, written: exp.Expr) -> exp.Expr:
    """The text of a date or moment; one whose year has not four digits, which Spark writes with a sign, is Spark's."""
    midnight = "" if moment.type == DATE else " 00:00:00+00" if moment.type == TIMESTAMP else " 00:00:00"
    low, high = (cast_node(nodes.string(f"{day}{midnight}"), moment.type) for day in ("0001-01-01", "10000-01-01"))
    alike = nodes.operation(
        exp.And, exp.GTE(this=moment.node, expression=low), exp.LT(this=moment.node, expression=high)
    )
    test = exp.Or(this=exp.Is(this=moment.node, expression=exp.Null()), expression=alike)
    beyond = nodes.function("error", nodes.string("a year beyond 9999"))
    return exp.Paren(this=nodes.case([(test, written)], beyond))


def moment(value: str, type: pa.DataType) -> Term:
    """A text as a date or a moment, in the forms that need no thought."""
    found = _MOMENT.fullmatch(value.strip())
    if found is None or (type == DATE and _DATE.fullmatch(value.strip()) is None):
        raise Refused(f"'{value}' as a {spark_name(type)} is left to Spark")
    try:
        if type == DATE:
            return literal(date.fromisoformat(value.strip()), DATE, value)
        zone = found[4]
        fraction = (found[3] or "").ljust(6, "0")
        stamp = datetime.fromisoformat(f"{found[1]} {found[2] or '00:00:00'}.{fraction}")
        offset = timezone.utc if zone in (None, "Z") else _zone(zone)
        if type == TIMESTAMP_NTZ:
            if zone is not None:
                raise Refused(f"'{value}' as a {spark_name(type)} is left to Spark")
            return literal(stamp, type, value)
        return literal(stamp.replace(tzinfo=offset).astimezone(timezone.utc), type, value)
    except (ValueError, OverflowError):
        raise Refused(f"'{value}' as a {spark_name(type)} is left to Spark") from None


def _zone(text: str) -> timezone:
    hours, minutes = int(text[1:3]), int(text[4:6])
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)
