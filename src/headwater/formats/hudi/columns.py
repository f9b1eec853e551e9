"""A table's columns as Hudi's files hold them, and back.

Hudi describes rows with Avro schemas: names are letters, digits and underscores, there are no small integers,
and a column that was once required can't take a NULL later. So files hold encoded names, plain integers and
nullable columns; the users' schema is kept in the table's properties and put back on every read.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from headwater.formats.hudi.names import stored_name
from headwater.spark.frames import column


def stored_type(data_type: DataType) -> DataType:
    """The type in Hudi's files: same shape, encoded names, everything nullable."""
    if isinstance(data_type, StructType):
        return stored_schema(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(stored_type(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(stored_type(data_type.keyType), stored_type(data_type.valueType), True)
    return IntegerType() if isinstance(data_type, (ByteType, ShortType)) else data_type


def stored_schema(schema: StructType) -> StructType:
    return StructType([StructField(stored_name(f.name), stored_type(f.dataType), True) for f in schema.fields])


def to_stored(df: DataFrame, schema: StructType, *more: Column) -> DataFrame:
    """Rows of `schema` as the files hold them, and columns that only Hudi sees."""
    return df.select(
        *(nullable(column(f.name).cast(stored_type(f.dataType))).alias(stored_name(f.name)) for f in schema.fields),
        *more,
    )


def nullable(value: Column) -> Column:
    """The same value, of which the analyser does not know that it is never NULL."""
    return F.when(F.lit(True), value)


def from_stored(df: DataFrame, schema: StructType, *keep: str) -> DataFrame:
    """Rows of files as `schema` has them: columns that they lack are NULL, narrower types are widened."""
    found = {f.name: f.dataType for f in df.schema.fields}
    columns = [column(name) for name in keep]
    for f in schema.fields:
        stored = stored_name(f.name)
        value = F.lit(None) if stored not in found else conformed(column(stored), found[stored], f.dataType)
        columns.append(value.cast(f.dataType).alias(f.name))
    return df.select(*columns)


def conformed(value: Column, have: DataType, want: DataType) -> Column:
    """A stored value with the fields of `want` at every depth, in its order and under its names."""
    if _same_shape(have, want):
        return value.cast(want)
    if isinstance(have, StructType) and isinstance(want, StructType):
        found = {f.name: f.dataType for f in have.fields}
        fields = []
        for f in want.fields:
            stored = stored_name(f.name)
            inner = F.lit(None)
            if stored in found:
                inner = conformed(value.getField(stored), found[stored], f.dataType)
            fields.append(inner.cast(f.dataType).alias(f.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        old, new = have.elementType, want.elementType
        return F.transform(value, lambda item: conformed(item, old, new))
    if isinstance(have, MapType) and isinstance(want, MapType):
        old, new = have.valueType, want.valueType
        return F.transform_values(value, lambda _, item: conformed(item, old, new)).cast(want)
    return value.cast(want)


def _same_shape(have: DataType, want: DataType) -> bool:
    """Whether a plain cast, which goes by position, leads from the stored type to the wanted one."""
    if isinstance(have, StructType) and isinstance(want, StructType):
        return [f.name for f in have.fields] == [stored_name(f.name) for f in want.fields] and all(
            _same_shape(a.dataType, b.dataType) for a, b in zip(have.fields, want.fields, strict=True)
        )
    if isinstance(have, ArrayType) and isinstance(want, ArrayType):
        return _same_shape(have.elementType, want.elementType)
    if isinstance(have, MapType) and isinstance(want, MapType):
        return _same_shape(have.keyType, want.keyType) and _same_shape(have.valueType, want.valueType)
    return True
