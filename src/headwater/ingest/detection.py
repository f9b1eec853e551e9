"""What records bring, as far as there is room for it: a topic has so many columns at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from headwater.sources.decoders.base import POSITION, Decoder
from headwater.spark.arrow_bridge import first_of

DEEPEST = 50
"""Structs inside of each other; Spark goes through a type on the stack."""
FEW = 20
"""So many records say which columns are the usual ones, where there is no room for all."""
MANY = 1000
"""So many rejected records are left out of a detection."""
TOO_MANY = "too_many_columns"
"""The reason of a record with columns that there is no room for."""


@dataclass(frozen=True)
class Detected:
    """What was found, whether there was more, and what to tell people of it."""

    schema: StructType
    cut: bool = False
    notes: tuple[str, ...] = ()
    rejected: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Positions of records that decided nothing, with the reason and message: what they alone bring has no column, so
    that they must not be ingested without it."""


class Detection:
    """Looks for the schema of records. `rejected` gives those that can't be ingested by a schema."""

    def __init__(
        self, decoder: Decoder, limit: int, rejected: Callable[[DataFrame, Decoder, StructType], DataFrame]
    ) -> None:
        self._decoder = decoder
        self._limit = limit
        self._rejected = rejected

    def of(
        self,
        records: DataFrame,
        known: StructType,
        payload: Callable[[StructType], StructType],
        originals: DataFrame | None = None,
    ) -> Detected:
        """The schema of these records; of what is not known, as much as there is room for.

        A record that is rejected under what was found, and is known as `payload` has it, decides nothing: without it
        they are looked at again. `originals` are the records as they came, where these have been decoded.
        """
        first = self._bounded(records, known)
        if not self._decoder.textual or payload(first.schema) == known:
            return first
        sources = records if originals is None else originals
        rows = self._rejected(sources, self._decoder, payload(first.schema)).limit(MANY).collect()
        bad = {row[0]: (row[1], row[2]) for row in rows}
        if not bad:
            return first
        again = self._bounded(records.where(~F.col(POSITION).isin(*bad)), known)
        return replace(again, cut=again.cut or first.cut, rejected=bad)

    def attempt(self, records: DataFrame, known: StructType) -> StructType:
        """What is found, whoever is rejected."""
        return self._bounded(records, known).schema

    def _bounded(self, records: DataFrame, known: StructType) -> Detected:
        detected = self._detected(records, known)
        if bounded(known, detected.schema, self._limit) == detected.schema:
            return detected
        # A record with too many columns by itself is none that others are like.
        width = self._decoder.width
        alike = records if width is None else records.where(width <= self._limit)
        detected = self._detected(alike, known)
        kept = bounded(known, detected.schema, self._limit)
        if kept != detected.schema:
            usual = self._decoder.detect(first_of(alike, FEW)).names
            order = {name: at for at, name in enumerate(usual)}
            fields = sorted(detected.schema.fields, key=lambda f: order.get(f.name, len(usual)))
            kept = bounded(known, StructType(fields), self._limit)
        return Detected(kept, True, detected.notes)

    def _detected(self, records: DataFrame, known: StructType) -> Detected:
        detected = self._decoder.detect(records)
        if not _has_new_text(known, detected):
            return Detected(detected)
        # Text is what is left where records disagree; types that are known do not change for that.
        schema, notes = self._decoder.agreed(records, detected)
        return Detected(schema, notes=notes)


def bounded(known: StructType, detected: StructType, limit: int) -> StructType:
    """What is found, without new columns for which there is no room alongside those that are known."""
    return _Room(max(limit - count_columns(known), 0)).struct(known, detected, 1)


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

    def struct(self, known: StructType, detected: StructType, depth: int) -> StructType:
        fields = []
        for f in detected.fields:
            if f.name in known.names:
                fields.append(StructField(f.name, self.type(known[f.name].dataType, f.dataType, depth + 1)))
                continue
            size = count_columns(f.dataType)
            if size <= self.left and depth + _depth(f.dataType) <= DEEPEST:
                self.left -= size
                fields.append(f)
        return StructType(fields)

    def type(self, known: DataType, detected: DataType, depth: int) -> DataType:
        if isinstance(known, StructType) and isinstance(detected, StructType):
            return self.struct(known, detected, depth)
        if isinstance(known, ArrayType) and isinstance(detected, ArrayType):
            return ArrayType(self.type(known.elementType, detected.elementType, depth + 1))
        return detected


def _has_new_text(known: DataType | None, detected: DataType) -> bool:
    if isinstance(detected, StructType):
        names = known.names if isinstance(known, StructType) else []
        inner = ((known[f.name].dataType if f.name in names else None, f.dataType) for f in detected.fields)  # type: ignore[index]
        return any(_has_new_text(one, other) for one, other in inner)
    if isinstance(detected, ArrayType):
        return _has_new_text(known.elementType if isinstance(known, ArrayType) else None, detected.elementType)
    return known is None and isinstance(detected, StringType)


def _depth(data_type: DataType) -> int:
    if isinstance(data_type, StructType):
        return 1 + max((_depth(f.dataType) for f in data_type.fields), default=0)
    if isinstance(data_type, ArrayType):
        return 1 + _depth(data_type.elementType)
    return 1 + _depth(data_type.valueType) if isinstance(data_type, MapType) else 0
