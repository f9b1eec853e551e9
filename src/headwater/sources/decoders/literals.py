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

MOST_DIGITS = 38
_DATE = r"^[+-]?\d{4,6}-\d{1,2}-\d{1,2}$"
_MOMENT = r"^[+-]?\d{4,6}-\d{1,2}-\d{1,2}($|[T ]\d)"
_LARGEST = {"double": sys.float_info.max, "float": 3.4028234663852886e38}


def parse(text: Column, wanted: DataType) -> Column:
    """The value of a text; NULL where it is not exactly a value of the type."""
    if isinstance(wanted, StringType):
        return text
    if isinstance(wanted, IntegralType):
        return F.when(_is_bare_number(text) & ~F.contains(text, F.lit(".")), text.cast(wanted))
    if isinstance(wanted, DecimalType):
        exact, rounded = text.cast(finer(wanted)), text.cast(wanted)
        kept = exact == rounded if wanted.precision < MOST_DIGITS else _has_no_more_digits(text, rounded, wanted)
        return F.when(_is_bare_number(text) & kept, rounded)
    if isinstance(wanted, (DoubleType, FloatType)):
        value = text.cast(wanted)
        hexadecimal = F.contains(text, F.lit("x")) | F.contains(text, F.lit("X"))
        return F.when(_is_bare_number(text) & ~hexadecimal & ~is_no_number(value, wanted), value)
    if isinstance(wanted, BooleanType):
        return F.when(F.lower(text).isin("true", "false"), text.cast(wanted))
    if isinstance(wanted, DateType):
        return F.when(is_day(text), text.cast(wanted))
    if isinstance(wanted, (TimestampType, TimestampNTZType)):
        return F.when(is_moment(text), text.cast(wanted))
    return text.cast(wanted)


def finer(wanted: DecimalType) -> DecimalType:
    """With as many more digits after the point as there is room for: a text that has them is none of the type."""
    return DecimalType(MOST_DIGITS, wanted.scale + MOST_DIGITS - wanted.precision)


def is_no_number(value: Column, wanted: DataType) -> Column:
    """Whether a float is NaN or infinite: what no text of digits is, but for one that is too large."""
    largest = F.lit(_LARGEST[wanted.simpleString()])
    return (value > largest) | (value < -largest)  # NaN is larger than all others


def is_day(text: Column) -> Column:
    """Whether a text looks like a day and nothing else."""
    return text.rlike(_DATE)


def is_moment(text: Column) -> Column:
    """Whether a text begins with a whole day; Spark itself looks at what follows."""
    return text.rlike(_MOMENT)


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
