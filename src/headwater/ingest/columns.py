"""The columns of a topic: the standard ones, the payload's, and where each record came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.core.quotes import backticked
from headwater.sources.base import EventColumns
from headwater.sources.column_names import CONTEXT as CONTEXT
from headwater.sources.column_names import EVENT_DATE as EVENT_DATE
from headwater.sources.column_names import INGESTED_AT as INGESTED_AT
from headwater.sources.column_names import MAPPED, PREFIX, RESERVED, column_names, is_of_a_format, unused_name
from headwater.sources.column_names import RESCUED as RESCUED
from headwater.sources.column_names import ROW as ROW
from headwater.sources.column_names import SOURCE as SOURCE
from headwater.sources.decoders.base import EVENT, POSITION, RAW
from headwater.sources.decoders.text_values import is_moment, parse
from headwater.spark.frames import column
from headwater.spark.years import is_beyond_years

_TYPES = {"event_timestamp": TimestampType(), "event_version": LongType()}
STANDARD: dict[str, tuple[str, DataType]] = {
    name: (key, _TYPES.get(name, StringType())) for name, key in MAPPED.items()
}
"""Standard column → the key of the source's `columns:` that maps it, and its type."""

_NUMBER = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?\z"
_MILLISECONDS_FROM = 100_000_000_000
_MOST_SECONDS = 253_402_300_800
"""The year 10000 begins there."""


@dataclass(frozen=True)
class StandardColumn:
    """A standard column that is there: the path leads to its value in the payload, or names a column of the source."""

    name: str
    type: DataType
    path: tuple[str, ...]
    from_source: bool = False

    @property
    def found(self) -> Column:
        root = () if self.from_source else (EVENT,)
        return F.col(".".join(map(backticked, (*root, *self.path))))

    @property
    def value(self) -> Column:
        """NULL too where it can't be read as the column's type."""
        text = self.found.cast(StringType())
        if isinstance(self.type, TimestampType):
            return _instant(text)
        if isinstance(self.type, LongType):  # 5.0 is the whole number 5, and 5.7 is none
            text = F.when(F.endswith(text, F.lit(".0")), F.substring_index(text, ".", 1)).otherwise(text)
        return parse(text, self.type)

    @property
    def is_unreadable(self) -> Column:
        """Whether there is a value that can't be read as the column's type."""
        return self.found.isNotNull() & column(self.name).isNull()


@dataclass(frozen=True)
class PayloadColumn:
    """A top-level key of the payload and the column that it becomes."""

    name: str
    type: DataType
    key: str
    key_type: DataType

    @property
    def value(self) -> Column:
        mapped = F.col(f"{EVENT}.{backticked(self.key)}")
        return mapped if self.key_type == self.type else _renamed(mapped, self.key_type)


def standard_columns(payload: StructType, metadata_columns: StructType, mapped: EventColumns) -> list[StandardColumn]:
    """The standard columns that the source maps or the payload has."""
    columns = []
    for name, (key, data_type) in STANDARD.items():
        mapped_to = getattr(mapped, key, None)
        path = tuple(mapped_to.split(".")) if mapped_to else (name,)
        if _has(payload, path):
            columns.append(StandardColumn(name, data_type, path))
        elif mapped_to and _has(metadata_columns, path):
            columns.append(StandardColumn(name, data_type, path, from_source=True))
    return columns


def payload_columns(
    payload: StructType, standard: Sequence[StandardColumn], metadata_columns: Iterable[str]
) -> list[PayloadColumn]:
    """Every top-level key that is not a standard column already; one that collides gets a prefix."""
    as_is = {column.name for column in standard if column.path == (column.name,) and not column.from_source}
    used = (*RESERVED, *metadata_columns, *(one.name for one in standard))
    fields = [f for f in payload.fields if f.name not in as_is]
    names = column_names((f.name for f in fields), used)
    return [
        PayloadColumn(name, unambiguous(f.dataType), key, f.dataType)
        for f, (key, name) in zip(fields, names, strict=True)
    ]


def system_fields(metadata_columns: StructType, *, rescued: bool, keep_raw: bool) -> list[StructField]:
    """The columns that every topic of a source has, after those of its events."""
    fields = [
        StructField(EVENT_DATE, DateType()),
        StructField(SOURCE, StringType()),
        StructField(POSITION, StringType()),
    ]
    fields += [StructField(f.name, f.dataType) for f in metadata_columns.fields]
    fields.append(StructField(INGESTED_AT, TimestampType()))
    if rescued:
        fields.append(StructField(RESCUED, StringType()))
    if keep_raw:
        from pyspark.sql.types import BinaryType

        fields.append(StructField(RAW, BinaryType()))
    return fields


def known_payload(topic: StructType, metadata_columns: Iterable[str]) -> StructType:
    """What a topic's own columns tell of its payload, where nothing else does."""
    used = {*RESERVED, *STANDARD, *metadata_columns}
    fields: list[StructField] = []
    for f in topic.fields:
        if f.name in used:
            continue
        bare = f.name.removeprefix(PREFIX)
        fields.append(StructField(bare if bare in used or is_of_a_format(bare) else f.name, f.dataType))
    return StructType(fields)


def with_standard_as_text(payload: StructType) -> StructType:
    """The schema to decode text by: standard columns come as text, whatever they look like."""
    return StructType([StructField(f.name, StringType() if f.name in STANDARD else f.dataType) for f in payload.fields])


# --- keys that differ only in case


def has_twins(data_type: DataType) -> bool:
    """Whether a struct in it has two fields whose names differ only in case."""
    if isinstance(data_type, ArrayType):
        return has_twins(data_type.elementType)
    if not isinstance(data_type, StructType):
        return False
    names = [f.name.lower() for f in data_type.fields]
    return len(set(names)) < len(names) or any(has_twins(f.dataType) for f in data_type.fields)


def unambiguous(data_type: DataType) -> DataType:
    """The type with a prefix before the names that differ from an earlier one only in case."""
    if isinstance(data_type, ArrayType):
        return ArrayType(unambiguous(data_type.elementType))
    if not isinstance(data_type, StructType):
        return data_type
    fields: list[StructField] = []
    used: set[str] = set()
    for f in data_type.fields:
        name = unused_name(f.name, used)
        used.add(name.lower())
        fields.append(StructField(name, unambiguous(f.dataType)))
    return StructType(fields)


def _renamed(value: Column, have: DataType) -> Column:
    """The value under its unambiguous type."""
    wanted = unambiguous(have)
    if have == wanted:
        return value
    if isinstance(have, ArrayType):
        element = have.elementType
        return F.transform(value, lambda one: _renamed(one, element))
    assert isinstance(have, StructType) and isinstance(wanted, StructType)
    pairs = zip(have.fields, wanted.fields, strict=True)
    fields = [_renamed(value.getField(old.name), old.dataType).alias(new.name) for old, new in pairs]
    return F.when(value.isNotNull(), F.struct(*fields))


def _instant(text: Column) -> Column:
    """ISO 8601, or seconds or milliseconds since 1970."""
    number = text.cast("double")
    seconds = F.when(F.abs(number) >= _MILLISECONDS_FROM, number / 1000).otherwise(number)
    is_number = (F.abs(seconds) < _MOST_SECONDS) & text.rlike(_NUMBER)
    of_number = F.when(is_number, F.timestamp_seconds(seconds)).when(is_moment(text), text.cast("timestamp"))
    # Nearly all have a colon, and it is soon found.
    moment = F.when(F.contains(text, F.lit(":")), F.when(is_moment(text), text.cast("timestamp"))).otherwise(of_number)
    return F.when(~is_beyond_years(moment, TimestampType()), moment)


def _has(struct: StructType, path: tuple[str, ...]) -> bool:
    at: DataType = struct
    for part in path:
        if not isinstance(at, StructType) or part not in at.names:
            return False
        at = at[part].dataType
    return True
