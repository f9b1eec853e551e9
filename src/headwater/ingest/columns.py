"""The columns of a topic: the standard ones, the payload's, and where each record came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.formats.frames import quoted
from headwater.sources.base import EventColumns
from headwater.sources.reading import POSITION, RAW

STANDARD: dict[str, tuple[str, DataType]] = {
    "event_id": ("id", StringType()),
    "event_type": ("type", StringType()),
    "event_timestamp": ("timestamp", TimestampType()),
    "aggregate_id": ("stream", StringType()),
    "tenant_id": ("tenant", StringType()),
    "event_version": ("version", LongType()),
}
"""Standard column → the key of the source's `columns:` that maps it, and its type."""

EVENT_DATE = "event_date"
SOURCE = "_source"
INGESTED_AT = "_ingested_at"
RESERVED = (EVENT_DATE, SOURCE, POSITION, INGESTED_AT, RAW)
PREFIX = "payload_"
_NUMBER = r"^-?\d+(\.\d+)?$"
_MILLISECONDS_FROM = 100_000_000_000


@dataclass(frozen=True)
class TopicColumn:
    """One column of a topic; `path` leads to its value in the payload."""

    name: str
    type: DataType
    path: tuple[str, ...]

    @property
    def is_standard(self) -> bool:
        return self.name in STANDARD

    def value(self, payload: str) -> Column:
        """Its value in the payload struct; NULL too where a standard column's text can't be read as its type."""
        found = F.col(".".join([payload, *map(quoted, self.path)]))
        if not self.is_standard:
            return found
        text = found.cast(StringType())
        return _instant(text) if isinstance(self.type, TimestampType) else text.cast(self.type)

    def is_unreadable(self, payload: str) -> Column:
        """Whether the payload has a value that can't be read as the column's type."""
        found = F.col(".".join([payload, *map(quoted, self.path)]))
        return found.isNotNull() & self.value(payload).isNull()


def topic_columns(payload: StructType, mapped: EventColumns) -> list[TopicColumn]:
    """The standard columns that the source maps or the payload has, then every other top-level key of the payload."""
    standard: dict[str, TopicColumn] = {}
    for name, (key, data_type) in STANDARD.items():
        told = getattr(mapped, key)
        path = tuple(told.split(".")) if told else (name,)
        if _has(payload, path):
            standard[name] = TopicColumn(name, data_type, path)
    taken_as_is = {column.name for column in standard.values() if column.path == (column.name,)}
    columns = list(standard.values())
    used = {*RESERVED, *standard}
    for f in payload.fields:
        if f.name not in taken_as_is:
            name = f"{PREFIX}{f.name}" if f.name in used else f.name
            columns.append(TopicColumn(name, f.dataType, (f.name,)))
    return columns


def topic_schema(columns: Sequence[TopicColumn], keep_raw: bool) -> StructType:
    """The whole schema of a topic."""
    fields = [StructField(column.name, column.type) for column in columns]
    fields.append(StructField(EVENT_DATE, DateType()))
    fields += [StructField(SOURCE, StringType()), StructField(POSITION, StringType())]
    fields.append(StructField(INGESTED_AT, TimestampType()))
    if keep_raw:
        fields.append(StructField(RAW, BinaryType()))
    return StructType(fields)


def known_payload(topic: StructType) -> StructType:
    """What a topic's schema tells of its payload's: all but the types of standard columns, which are read as text."""
    used = {*RESERVED, *STANDARD}
    fields: list[StructField] = []
    for f in topic.fields:
        if f.name in used:
            continue
        bare = f.name.removeprefix(PREFIX)
        fields.append(StructField(bare if bare in used else f.name, f.dataType))
    return StructType(fields)


def with_standard_as_text(payload: StructType) -> StructType:
    """The schema to decode by: standard columns come as text, whatever they are in JSON."""
    return StructType([StructField(f.name, _text_if_standard(f)) for f in payload.fields])


def _text_if_standard(field: StructField) -> DataType:
    return StringType() if field.name in STANDARD else field.dataType


def _instant(text: Column) -> Column:
    """ISO 8601, or seconds or milliseconds since 1970."""
    number = text.cast("double")
    seconds = F.when(F.abs(number) >= _MILLISECONDS_FROM, number / 1000).otherwise(number)
    return F.when(text.rlike(_NUMBER), F.timestamp_seconds(seconds)).otherwise(text.cast("timestamp"))


def _has(payload: StructType, path: tuple[str, ...]) -> bool:
    at: DataType = payload
    for part in path:
        if not isinstance(at, StructType) or part not in at.names:
            return False
        at = at[part].dataType
    return True
