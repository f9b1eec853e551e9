"""What records bring, as far as there is room for it: a topic has so many columns at most."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from headwater.handover import first_of
from headwater.sources.decoding.base import Decoder

DEEPEST = 50
"""Structs inside of each other; Spark goes through a type on the stack."""
FEW = 20
"""So many records say which columns are the usual ones, where there is no room for all."""
TOO_MANY = "too_many_columns"
"""The reason of a record with columns that there is no room for."""


@dataclass(frozen=True)
class Detected:
    """What was found, and whether there was more."""

    schema: StructType
    cut: bool = False


class Detection:
    """Looks for the schema of records."""

    def __init__(self, decoder: Decoder, limit: int) -> None:
        self._decoder = decoder
        self._limit = limit

    def of(self, records: DataFrame, known: StructType) -> Detected:
        """The schema of these records; of what is not known, as much as there is room for."""
        found = self._decoder.detect(records)
        if bounded(known, found, self._limit) == found:
            return Detected(found)
        # A record with too many columns by itself is none that others are like.
        width = self._decoder.width
        alike = records if width is None else records.where(width <= self._limit)
        found = self._decoder.detect(alike)
        kept = bounded(known, found, self._limit)
        if kept != found:
            usual = self._decoder.detect(first_of(alike, FEW)).names
            ordered = sorted(found.fields, key=lambda f: usual.index(f.name) if f.name in usual else len(usual))
            kept = bounded(known, StructType(ordered), self._limit)
        return Detected(kept, True)


def bounded(known: StructType, found: StructType, limit: int) -> StructType:
    """What is found, without new columns for which there is no room beside those that are known."""
    return _Room(max(limit - count_columns(known), 0)).struct(known, found, 1)


def count_columns(data_type: DataType) -> int:
    """The columns of a type, those inside of structs too."""
    if isinstance(data_type, StructType):
        return sum(count_columns(f.dataType) for f in data_type.fields)
    if isinstance(data_type, ArrayType):
        return count_columns(data_type.elementType)
    return count_columns(data_type.valueType) if isinstance(data_type, MapType) else 1


@dataclass
class _Room:
    left: int

    def struct(self, known: StructType, found: StructType, depth: int) -> StructType:
        fields = []
        for f in found.fields:
            if f.name in known.names:
                fields.append(StructField(f.name, self.type(known[f.name].dataType, f.dataType, depth + 1)))
                continue
            size = count_columns(f.dataType)
            if size <= self.left and depth + _depth(f.dataType) <= DEEPEST:
                self.left -= size
                fields.append(f)
        return StructType(fields)

    def type(self, known: DataType, found: DataType, depth: int) -> DataType:
        if isinstance(known, StructType) and isinstance(found, StructType):
            return self.struct(known, found, depth)
        if isinstance(known, ArrayType) and isinstance(found, ArrayType):
            return ArrayType(self.type(known.elementType, found.elementType, depth + 1))
        return found


def _depth(data_type: DataType) -> int:
    if isinstance(data_type, StructType):
        return 1 + max((_depth(f.dataType) for f in data_type.fields), default=0)
    if isinstance(data_type, ArrayType):
        return 1 + _depth(data_type.elementType)
    return 1 + _depth(data_type.valueType) if isinstance(data_type, MapType) else 0
