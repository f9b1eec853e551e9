"""Values under another type of the same fields: Spark's cast goes by position, and can't add or drop a field."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def conformed(value: Column, have: DataType, wanted: DataType) -> Column:
    """A value under a wanted type: fields by name, missing ones NULL."""
    if have.simpleString() == wanted.simpleString():
        return value
    if isinstance(have, StructType) and isinstance(wanted, StructType):
        return F.when(value.isNotNull(), struct_of(value, have, wanted))
    if isinstance(have, ArrayType) and isinstance(wanted, ArrayType) and _has_struct(wanted):
        inner, to = have.elementType, wanted.elementType
        return F.transform(value, lambda one: conformed(one, inner, to))
    if isinstance(have, MapType) and isinstance(wanted, MapType) and _has_struct(wanted):
        values, of = have.valueType, wanted.valueType
        return F.transform_values(value, lambda _, one: conformed(one, values, of))
    return value.cast(wanted)


def struct_of(value: Column, have: StructType, wanted: StructType) -> Column:
    """The fields of a struct as another struct."""
    fields = [
        conformed(value.getField(f.name), have[f.name].dataType, f.dataType)
        if f.name in have.names
        else F.lit(None).cast(f.dataType)
        for f in wanted.fields
    ]
    return F.struct(*[one.alias(f.name) for one, f in zip(fields, wanted.fields, strict=True)])


def _has_struct(data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return _has_struct(data_type.elementType)
    if isinstance(data_type, MapType):
        return _has_struct(data_type.valueType)
    return isinstance(data_type, StructType)
