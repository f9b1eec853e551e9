"""Records that come with types: Parquet, ORC, Avro files, tables. The reader gives the event itself."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headwater.schema.types import fits
from headwater.sources.decoders.base import CAST_FAILURES, EVENT, PROBLEM, SCHEMA, Decoder
from headwater.sources.decoders.cast_failures import texts_of, unless_none
from headwater.sources.decoders.keys import has_keys_beyond
from headwater.sources.decoders.text_values import parse
from headwater.spark.years import is_beyond_years, is_time

PROBLEM_TYPE = StructType([StructField("reason", StringType()), StructField("message", StringType())])


class TypedDecoder(Decoder):
    """`read` gives EVENT, and PROBLEM where something could not be read (or leaves it out)."""

    def __init__(self) -> None:
        self._given = StructType()

    def detect(self, records: DataFrame) -> StructType:
        """The event's own type; of records that have been decoded, the type of what they were decoded from."""
        if EVENT not in records.columns:
            return self._given
        found = records.schema[EVENT].dataType
        assert isinstance(found, StructType)
        return found

    def unknown(self, schema: StructType) -> Column | None:
        """A column has a type even where it has no value: it is new for all records or for none."""
        return F.lit(True) if _has_more(self._given, schema) else None

    def beyond(self, schema: StructType, raw: Column) -> Column | None:
        """The bytes of such a record are its values that are there, as JSON."""
        return has_keys_beyond(raw.cast(StringType()), schema, {})

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        given = self._given = self.detect(records)
        event = F.col(EVENT)
        known = F.col(PROBLEM) if PROBLEM in records.columns else F.lit(None).cast(PROBLEM_TYPE)
        fields, problems, texts = [], [known], {}
        for f in schema.fields:
            value: Column = F.lit(None)
            if f.name in given.names:
                cast_failures: list[Column] = []
                found, found_type = event.getField(f.name), given[f.name].dataType
                value = conform(found, found_type, f.dataType, f.name, cast_failures)
                if cast_failures:
                    problems += cast_failures
                    texts[f.name] = F.when(F.coalesce(*cast_failures).isNotNull(), _text(found, found_type))
            fields.append(value.cast(f.dataType).alias(f.name))
        conformed = F.when(event.isNotNull(), F.struct(*fields) if fields else F.lit(None)).cast(schema)
        decoded = records.withColumn(PROBLEM, F.coalesce(*problems))
        if texts:
            decoded = decoded.withColumn(CAST_FAILURES, unless_none(texts_of(texts)))
        return decoded.withColumn(EVENT, conformed)


def _text(value: Column, given: DataType) -> Column:
    return F.to_json(value) if isinstance(given, (StructType, ArrayType, MapType)) else value.cast(StringType())


def problem(reason: str, message: str | Column) -> Column:
    """A value of PROBLEM."""
    told = F.lit(message) if isinstance(message, str) else message
    return F.struct(F.lit(reason).alias("reason"), told.alias("message")).cast(PROBLEM_TYPE)


def conform(value: Column, given: DataType, wanted: DataType, at: str, cast_failures: list[Column]) -> Column:
    """A value under another type: missing fields are NULL; what can't be cast without loss is a cast failure."""
    if given.simpleString() == wanted.simpleString() and not _has_times(wanted):
        return value
    if is_time(given) and given.simpleString() == wanted.simpleString():
        return _unless_lost(value, is_beyond_years(value, wanted), given, wanted, at, cast_failures)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        fields = []
        for f in wanted.fields:
            path = f"{at}.{f.name}" if at else f.name
            if f.name in given.names:
                inner = conform(value.getField(f.name), given[f.name].dataType, f.dataType, path, cast_failures)
            else:
                inner = F.lit(None)
            fields.append(inner.cast(f.dataType).alias(f.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        before, after = given.elementType, wanted.elementType
        lost = None if _is_safe(given, wanted) else F.exists(value, lambda one: _is_lost(one, before, after))
        conformed = F.transform(value, lambda one: conform(one, before, after, at, []).cast(after))
        return _unless_lost(conformed, lost, given, wanted, at, cast_failures)
    if isinstance(given, MapType) and isinstance(wanted, MapType) and given.keyType == wanted.keyType:
        old, new = given.valueType, wanted.valueType
        lost = None if _is_safe(given, wanted) else F.exists(F.map_values(value), lambda one: _is_lost(one, old, new))
        conformed = F.transform_values(value, lambda _, one: conform(one, old, new, at, []).cast(new))
        return _unless_lost(conformed, lost, given, wanted, at, cast_failures)
    if isinstance(given, StringType):
        cast = parse(value, wanted)
        return _unless_lost(cast, value.isNotNull() & cast.isNull(), given, wanted, at, cast_failures)
    cast = value.cast(wanted)
    if _is_safe(given, wanted):
        return cast
    lost = cast.isNull() | (cast.cast(given) != value)
    if is_time(wanted):
        lost |= is_beyond_years(cast, wanted)
    if isinstance(given, IntegralType) and isinstance(wanted, FractionalType):
        lost |= cast >= F.lit(_beyond(given)).cast(wanted)  # cast back, it would be the largest integer again
    elif isinstance(given, (DoubleType, FloatType)) and isinstance(wanted, IntegralType):
        lost |= value >= F.lit(_beyond(wanted)).cast(given)
    return _unless_lost(cast, value.isNotNull() & lost, given, wanted, at, cast_failures)


def _is_lost(value: Column, given: DataType, wanted: DataType) -> Column:
    """Whether something in a value does not fit."""
    cast_failures: list[Column] = []
    conform(value, given, wanted, "", cast_failures)
    return F.coalesce(*cast_failures).isNotNull() if cast_failures else F.lit(False)


def _unless_lost(
    conformed: Column, lost: Column | None, given: DataType, wanted: DataType, at: str, cast_failures: list[Column]
) -> Column:
    if lost is None:
        return conformed
    message = f"{at} is {given.simpleString()} and does not fit {wanted.simpleString()}"
    if given == wanted:
        message = f"{at} is a {given.simpleString()} whose year is not 1 to 9999"
    cast_failures.append(F.when(lost, problem(SCHEMA, message)))
    return F.when(F.coalesce(~lost, F.lit(True)), conformed)


def _beyond(integers: DataType) -> float:
    """The first number that is too large."""
    bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
    return float(2 ** bits[integers.simpleString()])


def _is_safe(given: DataType, wanted: DataType) -> bool:
    """Whether nothing can be lost: a day or time may be one of a year that no column is to have."""
    return fits(given, wanted) and not _has_times(wanted)


def _has_times(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_has_times(f.dataType) for f in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _has_times(data_type.elementType)
    return _has_times(data_type.valueType) if isinstance(data_type, MapType) else is_time(data_type)


def _has_more(given: DataType, known: DataType) -> bool:
    """Whether one type has a field, at any depth, that the other lacks."""
    if isinstance(given, StructType) and isinstance(known, StructType):
        return any(f.name not in known.names or _has_more(f.dataType, known[f.name].dataType) for f in given.fields)
    if isinstance(given, ArrayType) and isinstance(known, ArrayType):
        return _has_more(given.elementType, known.elementType)
    if isinstance(given, MapType) and isinstance(known, MapType):
        return _has_more(given.valueType, known.valueType)
    return False
