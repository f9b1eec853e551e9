"""Which values of a parsed JSON text are not what stands in the text, where Spark's reader takes too much for a value.

It reads the text `5,50` as the decimal 550, rounds 5.555 to two digits, takes `2026-02-03 and more` for a date, `10:30`
for a time of today, `NaN` for a number and 200 for the tinyint -56. Only columns of such types cost anything: decimals
are read with more digits than they have, and the texts of decimals, dates and times are read alongside their values;
those of floats only where a value may have been rounded to a whole number, or to zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.sources.decoders.text_values import (
    MOST_DIGITS,
    finer,
    has_other_signs,
    is_another_number,
    is_day,
    is_local_time,
    is_moment,
    is_no_number,
    may_be_another_number,
)
from headwater.spark.years import is_beyond_years, is_time

_IN_STRINGS = r'"(?:[^"\\]|\\.)*"'
_SMALL_NUMBER = r"[0-9.]+[eE]-[0-9]+"
_SECONDS = r"^-?\d{1,12}$"
_PLAIN_DIGITS = 16
"""A number of so many characters is written by a double as it was read."""
_FINER_BY = 10


@dataclass(frozen=True)
class Checked:
    """A value of the wanted type, NULL where the text has another, and whether that is so."""

    value: Column
    wrong: Column | None
    """None where that can't be."""


class Checks:
    """The checks of one schema, under the reader's options."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._schema = schema
        given = {name.lower(): value.lower() for name, value in options.items()}
        self._takes_no_numbers = given.get("allownonnumericnumbers") == "true"
        self._own_decimals = "locale" in given
        """With a locale a text is read as people write numbers there."""
        formats = {"date": "dateformat", "timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat"}
        self._own_times = {name for name, option in formats.items() if option in given}
        read = self._read(schema)
        texts = self._texts(schema)
        assert isinstance(read, StructType) and (texts is None or isinstance(texts, StructType))
        self.read = read
        """What to read the text by."""
        self.texts = texts
        """What to read it by once more, alongside the values; None if that is not needed."""
        self.always = _any_leaf(schema, lambda one: not _is_float(one) and self._texts(one) is not None)
        """Whether that is needed for every text, and not only for those that `may_be_rounded`."""
        self._raw: Column | None = None

    def may_be_rounded(self, parsed: Column, raw: Column) -> Column:
        """Whether a float of a text may be another number than what stands there."""
        found = _may_be_rounded(parsed, self._schema, _has_small_numbers(raw))
        return F.lit(False) if found is None else F.coalesce(found, F.lit(False))

    def of(self, parsed: Column, texts: Column | None, raw: Column) -> dict[str, Checked]:
        """The top-level values of a text that was read by `read`, and by `texts`; where that was not needed it is NULL,
        or has NULL."""
        found = {}
        self._raw = raw
        for f in self._schema.fields:
            has_text = texts is not None and self.texts is not None and f.name in self.texts.names
            text = texts.getField(f.name) if has_text and texts is not None else None
            found[f.name] = self._checked(parsed.getField(f.name), text, f.dataType)
        return found

    # --- types

    def _read(self, wanted: DataType) -> DataType:
        if isinstance(wanted, StructType):
            return StructType([StructField(f.name, self._read(f.dataType)) for f in wanted.fields])
        if isinstance(wanted, ArrayType):
            return ArrayType(self._read(wanted.elementType))
        if isinstance(wanted, MapType):
            return MapType(wanted.keyType, self._read(wanted.valueType))
        if isinstance(wanted, DecimalType):
            return finer(wanted)
        return ShortType() if isinstance(wanted, ByteType) else wanted

    def _texts(self, wanted: DataType) -> DataType | None:
        if isinstance(wanted, StructType):
            found = [(f.name, self._texts(f.dataType)) for f in wanted.fields]
            fields = [StructField(name, inner) for name, inner in found if inner is not None]
            return StructType(fields) if fields else None
        if isinstance(wanted, ArrayType):
            element = self._texts(wanted.elementType)
            return None if element is None else ArrayType(element)
        if isinstance(wanted, MapType):
            value = self._texts(wanted.valueType)
            return None if value is None else MapType(wanted.keyType, value)
        if isinstance(wanted, DecimalType):
            return None if self._own_decimals else StringType()
        if _is_float(wanted):
            return StringType()
        return StringType() if is_time(wanted) and wanted.simpleString() not in self._own_times else None

    # --- values

    def _checked(self, value: Column, text: Column | None, wanted: DataType) -> Checked:
        if isinstance(wanted, StructType):
            return self._struct(value, text, wanted)
        if isinstance(wanted, ArrayType):
            return self._array(value, text, wanted)
        if isinstance(wanted, MapType):
            return self._map(value, text, wanted)
        cast, wrong = self._leaf(value, text, wanted)
        if wrong is None:
            return Checked(cast, None)
        wrong = F.coalesce(value.isNotNull() & wrong, F.lit(False))
        return Checked(F.when(~wrong, cast), wrong)

    def _struct(self, value: Column, text: Column | None, wanted: StructType) -> Checked:
        inner = {}
        texts = self._texts(wanted)
        for f in wanted.fields:
            has_text = text is not None and isinstance(texts, StructType) and f.name in texts.names
            of_field = text.getField(f.name) if has_text and text is not None else None
            inner[f.name] = self._checked(value.getField(f.name), of_field, f.dataType)
        wrong = any_of([one.wrong for one in inner.values()])
        if wrong is None:
            return Checked(value, None)
        struct = F.struct(*(one.value.alias(name) for name, one in inner.items()))
        return Checked(F.when(value.isNotNull(), struct), wrong)

    def _array(self, value: Column, text: Column | None, wanted: ArrayType) -> Checked:
        element = wanted.elementType
        if _is_float(element):
            return self._floats(value, text, element)
        probe = self._checked(F.lit(None), None if text is None else F.lit(None), element)
        if probe.wrong is None:
            return Checked(value, None)

        def checked(of: Column, with_text: Column | None) -> Checked:
            return self._checked(of, with_text, element)

        if text is None:
            wrong = F.exists(value, lambda one: _sure(checked(one, None)))
            kept = F.transform(value, lambda one: checked(one, None).value)
        else:
            text = F.coalesce(
                text, F.transform(value, lambda _: F.lit(None).cast(self._texts(element) or StringType()))
            )
            wrongs = F.zip_with(value, text, lambda one, other: _sure(checked(one, other)))
            wrong = F.exists(wrongs, lambda one: one)
            kept = F.zip_with(value, text, lambda one, other: checked(one, other).value)
        return Checked(kept, F.coalesce(wrong, F.lit(False)))

    def _floats(self, value: Column, text: Column | None, element: DataType) -> Checked:
        """Elements are looked at one by one only where their texts were read."""
        wrong = any_of([self._checked(most(value), None, element).wrong for most in (F.array_max, F.array_min)])
        if text is not None:

            def is_wrong(one: Column, written: Column) -> Column:
                return _sure(self._checked(one, written, element))

            one_by_one = F.exists(F.zip_with(value, text, is_wrong), lambda one: one)
            rounded = F.when(text.isNotNull(), F.coalesce(one_by_one, F.lit(False))).otherwise(False)
            wrong = rounded if wrong is None else wrong | rounded
        return Checked(value if wrong is None else F.when(~wrong, value), wrong)

    def _map(self, value: Column, text: Column | None, wanted: MapType) -> Checked:
        values = None if text is None else F.map_values(text)
        found = self._array(F.map_values(value), values, ArrayType(wanted.valueType))
        if found.wrong is None:
            return Checked(value, None)
        kept = F.map_from_arrays(F.map_keys(value), found.value)
        return Checked(F.when(value.isNotNull(), kept), found.wrong)

    def _leaf(self, value: Column, text: Column | None, wanted: DataType) -> tuple[Column, Column | None]:
        if isinstance(wanted, DecimalType):
            cast = value.cast(wanted)
            wrong = cast.isNull() | (cast != value)
            if text is None:
                return cast, wrong
            wrong = wrong | F.contains(text, F.lit(",")) | has_other_signs(text)
            return cast, wrong | _has_more_digits(cast, text, wanted) if wanted.precision == MOST_DIGITS else wrong
        if isinstance(wanted, (DoubleType, FloatType)):
            no_number = None if self._takes_no_numbers else is_no_number(value, wanted)
            if text is None:
                return value, no_number
            rounded = F.coalesce(is_another_number(text, value, wanted), F.lit(False))
            return value, any_of([no_number, rounded, self._is_too_small(value, text, wanted)])
        if isinstance(wanted, ByteType):
            return value.cast(wanted), value.cast(wanted) != value
        if not is_time(wanted):
            return value, None
        beyond = is_beyond_years(value, wanted)
        if text is None:
            return value, beyond
        if isinstance(wanted, DateType):
            return value, ~is_day(text) | beyond
        if isinstance(wanted, TimestampType):
            seconds = F.when(text.rlike(_SECONDS), F.timestamp_seconds(text.cast("bigint")))
            return value, ~is_moment(text) & ~F.coalesce(seconds == value, F.lit(False)) | beyond
        return value, ~is_local_time(text) | beyond

    def _is_too_small(self, value: Column, text: Column, wanted: DataType) -> Column:
        """Whether a number became zero that is none. Its own text has become zero too on the way through Spark's
        reader, so that the numbers of the whole text are looked at."""
        assert self._raw is not None
        outside = F.regexp_replace(self._raw, _IN_STRINGS, "")
        numbers = F.regexp_extract_all(outside, F.lit(_SMALL_NUMBER), F.lit(0))
        too_small = F.exists(numbers, lambda one: one.rlike("^[^eE]*[1-9]") & (one.cast(wanted) == 0))
        zero = text.isNotNull() & (value == 0) & _has_small_numbers(self._raw)
        return F.when(zero, too_small).otherwise(False)


def _is_float(data_type: DataType) -> bool:
    return isinstance(data_type, (DoubleType, FloatType))


def _any_leaf(data_type: DataType, applies: Callable[[DataType], bool]) -> bool:
    if isinstance(data_type, StructType):
        return any(_any_leaf(f.dataType, applies) for f in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _any_leaf(data_type.elementType, applies)
    return _any_leaf(data_type.valueType, applies) if isinstance(data_type, MapType) else applies(data_type)


def _has_small_numbers(raw: Column) -> Column:
    return F.contains(raw, F.lit("e-")) | F.contains(raw, F.lit("E-"))


def _may_be_rounded(value: Column, wanted: DataType, small: Column) -> Column | None:
    if isinstance(wanted, StructType):
        return any_of([_may_be_rounded(value.getField(f.name), f.dataType, small) for f in wanted.fields])
    if isinstance(wanted, MapType):
        return _may_be_rounded(F.map_values(value), ArrayType(wanted.valueType), small)
    if isinstance(wanted, ArrayType):
        element = wanted.elementType
        if not _any_leaf(element, _is_float):
            return None

        def may_be(one: Column) -> Column:
            found = _may_be_rounded(one, element, small)
            return F.lit(False) if found is None else F.coalesce(found, F.lit(False))

        return F.coalesce(F.exists(value, may_be), F.lit(False))
    if not _is_float(wanted):
        return None
    is_zero, is_large = may_be_another_number(value, wanted)
    return is_large | (is_zero & small)


def any_of(some: list[Column | None]) -> Column | None:
    """Whether one of them is true; None where none can be."""
    found = [one for one in some if one is not None]
    return balanced(found) if found else None


def balanced(some: list[Column], join: object = operator.or_) -> Column:
    """Many expressions as one that is not nested deeply: Spark goes through it on the stack."""
    assert callable(join)
    while len(some) > 1:
        pairs = [some[at : at + 2] for at in range(0, len(some), 2)]
        some = [reduce(join, pair) for pair in pairs]
    return some[0]


def _sure(checked: Checked) -> Column:
    assert checked.wrong is not None
    return checked.wrong


def _has_more_digits(rounded: Column, text: Column, wanted: DecimalType) -> Column:
    """Of a decimal with no room for more digits. The text of a number has gone through a double, so that a long one
    tells nothing if a double would write it like that."""
    exact = text.cast(DecimalType(MOST_DIGITS, min(MOST_DIGITS, wanted.scale + _FINER_BY)))
    as_read = (F.length(text) <= _PLAIN_DIGITS) | (text.cast("double").cast("string") != text)
    return F.coalesce((exact != rounded) & as_read, F.lit(False))
