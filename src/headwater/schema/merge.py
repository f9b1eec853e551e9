"""Schemas put together and taken apart, by the names of their fields.

One walk (`merged`) for all who put types together; they differ in what becomes of two types that are not nested.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from headwater.schema.types import fits

Choice = Callable[[DataType, DataType], "DataType | None"]
"""Which of two types it is to be; None: they don't go together."""
_INTEGERS: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
_MOST_DIGITS = 38


def merged(known: DataType, other: DataType, choose: Choice, *, maps: bool = True) -> DataType | None:
    """One type for the values of both: all fields, the known ones first. Where they are not both structs, arrays or
    maps, `choose` says; without `maps` of maps too. None if that knows no type."""
    if isinstance(known, StructType) and isinstance(other, StructType):
        return merged_structs(known, other, choose, maps=maps)
    if isinstance(known, ArrayType) and isinstance(other, ArrayType):
        element = merged(known.elementType, other.elementType, choose, maps=maps)
        return None if element is None else ArrayType(element)
    if maps and isinstance(known, MapType) and isinstance(other, MapType) and known.keyType == other.keyType:
        value = merged(known.valueType, other.valueType, choose)
        return None if value is None else MapType(known.keyType, value)
    return choose(known, other)


def merged_structs(known: StructType, other: StructType, choose: Choice, *, maps: bool = True) -> StructType | None:
    """The fields of both, by name."""
    more = {f.name: f.dataType for f in other.fields}
    fields = []
    for f in known.fields:
        both = merged(f.dataType, more.pop(f.name), choose, maps=maps) if f.name in more else f.dataType
        if both is None:
            return None
        fields.append(StructField(f.name, both))
    return StructType(fields + [StructField(name, data_type) for name, data_type in more.items()])


def widened(one: DataType, other: DataType) -> DataType:
    """A type for the values of both; where they contradict each other, the first one's."""
    both = merged(one, other, lambda known, new: new if fits(known, new) else known)
    assert both is not None
    return both


def retyped(known: StructType, newer: StructType) -> StructType:
    """The fields of both, the known ones first; where both have one, it has the newer type."""
    both = merged_structs(known, newer, lambda _, new: new)
    assert both is not None
    return both


def exact_type(one: DataType, other: DataType) -> DataType | None:
    """The type that holds every value of both, exactly; None if there is none."""
    return merged(one, other, _exact)


def _exact(one: DataType, other: DataType) -> DataType | None:
    if isinstance(one, _INTEGERS) and isinstance(other, _INTEGERS):
        return max(one, other, key=lambda t: _INTEGERS.index(type(t)))
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale
        return DecimalType(precision, scale) if precision <= _MOST_DIGITS else None
    if {type(one), type(other)} == {FloatType, DoubleType}:
        return DoubleType()
    return one if one.simpleString() == other.simpleString() else None


def beyond(payload: DataType, adopted: DataType) -> DataType | None:
    """What of the payload was not adopted, as a type of its own; None if all was."""
    if isinstance(payload, StructType) and isinstance(adopted, StructType):
        fields = []
        for f in payload.fields:
            if f.name not in adopted.names:
                fields.append(f)
            elif (rest := beyond(f.dataType, adopted[f.name].dataType)) is not None:
                fields.append(StructField(f.name, rest))
        return StructType(fields) if fields else None
    if isinstance(payload, ArrayType) and isinstance(adopted, ArrayType):
        rest = beyond(payload.elementType, adopted.elementType)
        return None if rest is None else ArrayType(rest)
    return None


def within(other: StructType, known: StructType) -> StructType:
    """What a schema has of what is known, at any depth, in its own types."""
    kept = [f for f in other.fields if f.name in known.names]
    return StructType([StructField(f.name, _within(f.dataType, known[f.name].dataType)) for f in kept])


def _within(other: DataType, known: DataType) -> DataType:
    if isinstance(other, StructType) and isinstance(known, StructType):
        return within(other, known)
    if isinstance(other, ArrayType) and isinstance(known, ArrayType):
        return ArrayType(_within(other.elementType, known.elementType))
    return other


def hinted(schema: StructType, hints: StructType | None) -> StructType:
    """The schema with some columns' types as they were declared."""
    if hints is None:
        return schema
    declared = {f.name: f for f in hints.fields}
    return StructType([declared.pop(f.name, f) for f in schema.fields] + list(declared.values()))
