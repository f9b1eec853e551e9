"""Cells of a CSV line as values: what Spark reads of a cell, and what is made of that."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headwater.sources.decoders.checks import Checks
from headwater.sources.decoders.keys import repeated_key
from headwater.sources.decoders.text_values import finer, parse
from headwater.spark.years import is_beyond_years, is_time

_VALUE = "value"
_CORRUPT = "_headwater_corrupt"
JSON = {"columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false"}
_FLOATS = {"nanvalue": "NaN", "positiveinf": "Infinity", "negativeinf": "-Infinity"}
_FORMATS: tuple[tuple[type[DataType], str], ...] = (
    (DateType, "dateformat"),
    (TimestampType, "timestampformat"),
    (TimestampNTZType, "timestampntzformat"),
)


class Cells:
    """By the reader's options: with a format or a locale of one's own, Spark reads a cell by that, and exactly."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def read_as(self, wanted: DataType) -> DataType:
        """The type to have Spark read a cell as."""
        if isinstance(wanted, DecimalType) and "locale" in self._options:
            return finer(wanted)
        if self._has_format(wanted):
            return wanted
        return StringType() if self.makes(wanted) or isinstance(wanted, BinaryType) else wanted

    def makes(self, wanted: DataType) -> bool:
        """Whether the value is made here, of what Spark reads."""
        return isinstance(wanted, NumericType) or is_time(wanted) or is_nested(wanted)

    def _has_format(self, wanted: DataType) -> bool:
        return any(isinstance(wanted, kind) and option in self._options for kind, option in _FORMATS)

    def value(self, read: Column, wanted: DataType) -> Column:
        """NULL where the cell is not exactly a value of the type."""
        if not self.makes(wanted):
            return read
        if is_nested(wanted):
            return _of_json(read, wanted)
        if isinstance(wanted, DecimalType) and "locale" in self._options:
            return F.when(read.cast(wanted) == read, read.cast(wanted))
        if self._has_format(wanted):
            return F.when(~is_beyond_years(read, wanted), read)
        value = parse(read, wanted)
        if isinstance(wanted, (DoubleType, FloatType)):
            for option, meant in _FLOATS.items():
                if option in self._options:
                    value = F.when(read == self._options[option], F.lit(meant).cast(wanted)).otherwise(value)
        return value


def is_nested(one: DataType) -> bool:
    """Whether a cell of the type is JSON: CSV has no nested values."""
    return isinstance(one, (ArrayType, MapType, StructType))


def nested_in(schema: StructType) -> dict[str, DataType]:
    """The columns whose cells are JSON."""
    return {f.name: f.dataType for f in schema.fields if is_nested(f.dataType)}


def _of_json(text: Column, wanted: DataType) -> Column:
    checks = Checks(StructType([StructField(_VALUE, wanted)]), JSON)
    inside = F.concat(F.lit(f'{{"{_VALUE}":'), text, F.lit("\n}"))
    read = StructType([*checks.read.fields, StructField(_CORRUPT, StringType())])
    parsed = F.from_json(inside, read, JSON)
    texts = None if checks.texts is None else F.from_json(inside, checks.texts, JSON)
    found = checks.of(parsed, texts, inside)[_VALUE]
    sound = F.from_json(text, wanted.simpleString(), JSON).isNotNull() & parsed.getField(_CORRUPT).isNull()
    sound &= repeated_key(text, wanted, JSON).isNull()
    return F.when(sound if found.wrong is None else sound & ~found.wrong, found.value)
