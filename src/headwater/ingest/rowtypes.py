"""Types of rows that several functions make together, joined by name."""

from __future__ import annotations

import pyarrow as pa
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
    NullType,
    ShortType,
    StructField,
    StructType,
)

from headwater.schema.arrow import PLAIN_TYPES

_INTEGERS: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
_MOST_DIGITS = 38


def without_untyped(data_type: DataType) -> DataType | None:
    """The type without what has none yet (the type of NULL alone); None if nothing is left."""
    if isinstance(data_type, NullType):
        return None
    if isinstance(data_type, StructType):
        fields = [(f.name, without_untyped(f.dataType)) for f in data_type.fields]
        kept = [StructField(name, found) for name, found in fields if found is not None]
        return StructType(kept) if kept else None
    if isinstance(data_type, ArrayType):
        element = without_untyped(data_type.elementType)
        return None if element is None else ArrayType(element)
    if isinstance(data_type, MapType):
        value = without_untyped(data_type.valueType)
        return None if value is None else MapType(data_type.keyType, value)
    return data_type


def joined_type(one: DataType, other: DataType) -> DataType | None:
    """The type that holds every value of both, exactly; None if there is none."""
    if isinstance(one, StructType) and isinstance(other, StructType):
        return joined_struct(one, other)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        element = joined_type(one.elementType, other.elementType)
        return None if element is None else ArrayType(element)
    if isinstance(one, MapType) and isinstance(other, MapType) and one.keyType == other.keyType:
        value = joined_type(one.valueType, other.valueType)
        return None if value is None else MapType(one.keyType, value)
    if isinstance(one, _INTEGERS) and isinstance(other, _INTEGERS):
        return max(one, other, key=lambda t: _INTEGERS.index(type(t)))
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale
        return DecimalType(precision, scale) if precision <= _MOST_DIGITS else None
    if {type(one), type(other)} == {FloatType, DoubleType}:
        return DoubleType()
    return one if one.simpleString() == other.simpleString() else None


def joined_struct(one: StructType, other: StructType) -> StructType | None:
    """The fields of both, by name."""
    more = {f.name: f.dataType for f in other.fields}
    fields = []
    for f in one.fields:
        found = joined_type(f.dataType, more.pop(f.name)) if f.name in more else f.dataType
        if found is None:
            return None
        fields.append(StructField(f.name, found))
    return StructType(fields + [StructField(name, found) for name, found in more.items()])


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that Spark exchanges with Python for a type."""
    if isinstance(data_type, StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.dataType)) for f in data_type.fields])
    if isinstance(data_type, ArrayType):
        return pa.list_(pa.field("element", arrow_type(data_type.elementType)))
    if isinstance(data_type, MapType):
        return pa.map_(arrow_type(data_type.keyType), arrow_type(data_type.valueType))
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, NullType):
        return pa.null()
    return PLAIN_TYPES[data_type.typeName()]
