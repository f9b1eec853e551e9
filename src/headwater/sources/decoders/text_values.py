"""Texts as values: exactly, or not at all.

Spark reads `5,50` as 550, `5.7` as the integer 5, `2026-02-03 and more` as a date, `10:30` as a time of today and `5d`
as a number. Whoever turns a text into a value does it here, where such a text has none.
"""

from __future__ import annotations

import sys

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from headwater.spark.years import is_beyond_years

MOST_DIGITS = 38
_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r" ?(Z|UTC|GMT|[+-]\d{2}(:?\d{2})?)"
_DATE = rf"^{_DAY}\z"
_LOCAL = rf"^{_DAY}({_TIME})?\z"
_MOMENT = rf"^{_DAY}({_TIME}({_ZONE})?)?\z"
_WHOLE = r"^[+-]?\d+\z"
_NOT_ZERO = "^[^eE]*[1-9]"
_LARGEST = {"double": sys.float_info.max, "float": 3.4028234663852886e38}
LARGEST_WHOLE = {"double": 2.0**53, "float": 2.0**24}
"""Up to here a float has room for every whole number."""


def parse(text: Column, wanted: DataType) -> Column:
    """The value of a text; NULL where it is not exactly a value of the type."""
    if isinstance(wanted, StringType):
        return text
    if isinstance(wanted, IntegralType):
        return F.when(_is_bare_number(text) & ~F.contains(text, F.lit(".")), text.cast(wanted))
    if isinstance(wanted, DecimalType):
        exact, rounded = text.cast(finer(wanted)), text.cast(wanted)
        kept = exact == rounded if wanted.precision < MOST_DIGITS else _has_no_more_digits(text, rounded, wanted)
        return F.when(_is_bare_number(text) & ~has_other_signs(text) & kept, rounded)
    if isinstance(wanted, (DoubleType, FloatType)):
        value = text.cast(wanted)
        hexadecimal = F.contains(text, F.lit("x")) | F.contains(text, F.lit("X"))
        other = hexadecimal | is_no_number(value, wanted) | is_another_number(text, value, wanted)
        return F.when(_is_bare_number(text) & ~other, value)
    if isinstance(wanted, BooleanType):
        return F.when(F.lower(text).isin("true", "false"), text.cast(wanted))
    if isinstance(wanted, DateType):
        return _within_years(F.when(is_day(text), text.cast(wanted)), wanted)
    if isinstance(wanted, TimestampType):
        return _within_years(F.when(is_moment(text), text.cast(wanted)), wanted)
    if isinstance(wanted, TimestampNTZType):
        return _within_years(F.when(is_local_time(text), text.cast(wanted)), wanted)
    return text.cast(wanted)


def finer(wanted: DecimalType) -> DecimalType:
    """With as many more digits after the point as there is room for: a text that has them is none of the type."""
    return DecimalType(MOST_DIGITS, wanted.scale + MOST_DIGITS - wanted.precision)


def is_no_number(value: Column, wanted: DataType) -> Column:
    """Whether a float is NaN or infinite: what no text of digits is, but for one that is too large."""
    largest = F.lit(_LARGEST[wanted.simpleString()])
    return (value > largest) | (value < -largest)  # NaN is larger than all others


def is_another_number(text: Column, value: Column, wanted: DataType) -> Column:
    """Whether a float stands for a whole number that it has no room for, or is zero for a text that is not.

    Fractions become the float next to them. A whole number may also be written as floats are: with the few digits
    that tell it from the floats alongside it, and zeros.
    """
    is_zero, is_large = may_be_another_number(value, wanted)
    written = value.cast(StringType()).cast(DecimalType(MOST_DIGITS, 0)) == text.cast(DecimalType(MOST_DIGITS, 0))
    same = (value.cast("bigint") == text.cast("bigint")) | F.coalesce(written, F.lit(False))
    rounded = text.rlike(_WHOLE) & ~F.coalesce(same, F.lit(False))
    return F.when(is_zero, text.rlike(_NOT_ZERO)).when(is_large, rounded).otherwise(False)


def may_be_another_number(value: Column, wanted: DataType) -> tuple[Column, Column]:
    """Of a float alone: whether it may be one that was too small, and whether it may have been rounded to."""
    return value == 0, F.abs(value) >= LARGEST_WHOLE[wanted.simpleString()]


def has_other_signs(text: Column) -> Column:
    """Whether there is more in it than ASCII: Java takes the digits of all scripts for digits."""
    return F.octet_length(text) != F.length(text)


def is_day(text: Column) -> Column:
    """Whether a text looks like a day and nothing else."""
    return text.rlike(_DATE)


def is_moment(text: Column) -> Column:
    """Whether a text looks like a day or time, with or without a zone that says how far it is from UTC."""
    return text.rlike(_MOMENT)


def is_local_time(text: Column) -> Column:
    """Whether a text looks like a day or time without a zone."""
    return text.rlike(_LOCAL)


def _within_years(value: Column, wanted: DataType) -> Column:
    return F.when(~is_beyond_years(value, wanted), value)


def _has_no_more_digits(text: Column, rounded: Column, wanted: DecimalType) -> Column:
    """Of a decimal with no room for more digits: they are counted where the number is too large for a finer one."""
    exact = text.cast(DecimalType(MOST_DIGITS, min(MOST_DIGITS, wanted.scale + 10)))
    fraction = F.regexp_replace(F.regexp_extract(text, r"^[^.eE]*\.?(\d*)$", 1), "0+$", "")
    plain = ~F.contains(F.lower(text), F.lit("e")) & (F.length(fraction) <= wanted.scale)
    return F.coalesce(exact == rounded, plain)


def _is_bare_number(text: Column) -> Column:
    """Whether nothing stands before or behind it: Spark trims blanks, and takes `5d` and `NaN` for numbers."""
    last = F.substring(text, -1, 1)
    return (text >= F.lit("+")) & (last >= F.lit("0")) & (last <= F.lit("9"))
