"""Which values of a parsed JSON text are not what stands in the text, where Spark's reader takes too much for a value.

It reads the text `5,50` as the decimal 550, rounds 5.555 to two digits, takes `2026-02-03 and more` for a date, `10:30`
for a time of today, `NaN` for a number and 200 for the tinyint -56. Only columns of such types cost anything: decimals
are read with more digits than they have, and the texts of decimals, dates and times are read beside their values.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
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
    TimestampNTZType,
    TimestampType,
)

from headwater.sources.decoders.literals import MOST_DIGITS, finer, is_day, is_moment, is_no_number

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
        """What to read it by once more, beside the values; None if that is not needed."""

    def of(self, parsed: Column, texts: Column | None) -> dict[str, Checked]:
        """The top-level values of a text that was read by `read`, and by `texts`."""
        found = {}
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
        is_time = isinstance(wanted, (DateType, TimestampType, TimestampNTZType))
        return StringType() if is_time and wanted.simpleString() not in self._own_times else None

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
        if isinstance(element, (DoubleType, FloatType)):  # without a look at each element
            wrong = any_of([self._checked(most(value), None, element).wrong for most in (F.array_max, F.array_min)])
            return Checked(value if wrong is None else F.when(~wrong, value), wrong)
        probe = self._checked(F.lit(None), None if text is None else F.lit(None), element)
        if probe.wrong is None:
            return Checked(value, None)

        def checked(of: Column, with_text: Column | None) -> Checked:
            return self._checked(of, with_text, element)

        if text is None:
            wrong = F.exists(value, lambda one: _sure(checked(one, None)))
            kept = F.transform(value, lambda one: checked(one, None).value)
        else:
            wrongs = F.zip_with(value, text, lambda one, other: _sure(checked(one, other)))
            wrong = F.exists(wrongs, lambda one: one)
            kept = F.zip_with(value, text, lambda one, other: checked(one, other).value)
        return Checked(kept, F.coalesce(wrong, F.lit(False)))

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
            wrong = wrong | F.contains(text, F.lit(","))
            return cast, wrong | _has_more_digits(cast, text, wanted) if wanted.precision == MOST_DIGITS else wrong
        if isinstance(wanted, (DoubleType, FloatType)):
            return value, None if self._takes_no_numbers else is_no_number(value, wanted)
        if isinstance(wanted, ByteType):
            return value.cast(wanted), value.cast(wanted) != value
        if text is None:
            return value, None
        if isinstance(wanted, DateType):
            return value, ~is_day(text)
        if isinstance(wanted, TimestampType):
            seconds = F.when(text.rlike(_SECONDS), F.timestamp_seconds(text.cast("bigint")))
            return value, ~is_moment(text) & ~F.coalesce(seconds == value, F.lit(False))
        return value, ~is_moment(text)


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
