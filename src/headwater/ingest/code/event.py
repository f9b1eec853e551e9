"""What mappers, upcasters and filters that work by Column expressions are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from headwater.core.errors import did_you_mean
from headwater.ingest.columns import RESCUED, ROW, STANDARD
from headwater.sources.decoders.base import CAST_FAILURES, EVENT, PROBLEM, UNKNOWN
from headwater.spark.frames import column
from headwater.spark.internals import java_column

HIDDEN = frozenset({EVENT, PROBLEM, CAST_FAILURES, UNKNOWN, RESCUED, ROW})
"""Columns of the pipeline's own, which no function is shown."""


class Field(Column):
    """A value of the payload; a field that no record has had yet is NULL instead of an error, at any depth."""

    def __init__(self, value: Column, data_type: DataType | None) -> None:
        super().__init__(java_column(value))
        self._data_type = data_type

    def __getitem__(self, key: Any) -> Column:
        inner = self._data_type
        if isinstance(key, str) and inner is None:
            return Field(F.lit(None), None)
        if isinstance(key, str) and isinstance(inner, StructType):
            if key not in inner.names:
                return Field(F.lit(None), None)
            return Field(super().__getitem__(key), inner[key].dataType)
        return super().__getitem__(key)


class Event(Mapping[str, Column]):
    """An event, as Column expressions: what they make of it runs in the JVM, without Python.

    `event["amount"]` is a standard column or a key of the payload, NULL where no record has had it yet;
    `event["customer"]["id"]` goes into an object. `event.event_type`, `event.tenant_id` and the other standard columns
    can be written as attributes, and so can what the source gives alongside the payload, without its underscore:
    `event.position`, `event.headers`. `event.payload` is the whole payload, `**event` all its keys but the standard
    ones.
    """

    def __init__(self, payload: StructType, columns: Mapping[str, DataType]) -> None:
        self._payload = payload
        self._columns = {name: data_type for name, data_type in columns.items() if name not in HIDDEN}

    @property
    def payload(self) -> Column:
        """The payload alone: a key of it that has a standard column's name too is found here."""
        return Field(F.col(EVENT), self._payload)

    def __getitem__(self, key: str) -> Column:
        if key in STANDARD:
            return column(key) if key in self._columns else F.lit(None).cast(STANDARD[key][1])
        if key in self._payload.names or key not in self._columns:
            return self.payload[key]
        return column(key)

    def __getattr__(self, name: str) -> Column:
        if name in STANDARD:
            return self[name]
        if f"_{name}" in self._columns:
            return column(f"_{name}")
        if name.startswith("_"):
            raise AttributeError(name)
        known = [*STANDARD, *(key.removeprefix("_") for key in self._columns)]
        hint = f'a key of the payload is event["{name}"]; {did_you_mean(name, known)}'
        raise AttributeError(f"an event has no '{name}': {hint}")

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` where it is NULL."""
        return self[key] if default is None else F.coalesce(self[key], _column(default))

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._payload.names if name not in STANDARD)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return key in self._payload.names or key in self._columns


def event_of(schema: StructType) -> Event:
    """The event in the frames of a schema."""
    payload = schema[EVENT].dataType
    assert isinstance(payload, StructType)
    return Event(payload, {f.name: f.dataType for f in schema.fields})


def _column(value: Any) -> Column:
    return value if isinstance(value, Column) else F.lit(value)
