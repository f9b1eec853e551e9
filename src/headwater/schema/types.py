"""Spark's types: read from DDL, written as SQL, compared, and looked through."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from headwater.core.quotes import backticked
from headwater.spark.internals import java, java_session

_WIDER: dict[str, tuple[str, ...]] = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp",),
}


def parse_ddl(spark: SparkSession, ddl: str | None) -> StructType | None:
    """`amount decimal(12,2), at timestamp` as a schema."""
    if not ddl:
        return None
    parsed: Any = java(spark).org.apache.spark.sql.types.StructType.fromDDL(ddl)
    return StructType.fromJson(json.loads(parsed.json()))


def to_ddl(spark: SparkSession, schema: StructType) -> str:
    """The schema as the columns of a CREATE TABLE, every name quoted."""
    java_type: Any = java_session(spark).parseDataType(schema.json())
    return str(java_type.toDDL())


def type_sql(data_type: DataType) -> str:
    """A type as SQL takes it, nested names quoted."""
    if isinstance(data_type, StructType):
        inner = ", ".join(f"{backticked(f.name)}: {type_sql(f.dataType)}" for f in data_type.fields)
        return f"STRUCT<{inner}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{type_sql(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
    return data_type.simpleString().upper()


def path_sql(path: Sequence[str]) -> str:
    """A nested column's path as ALTER TABLE takes it."""
    return ".".join(backticked(part) for part in path)


def nullable(schema: StructType) -> StructType:
    """Every column may be missing: what must be there is checked, not assumed."""
    return StructType([StructField(f.name, f.dataType) for f in schema.fields])


def parts(data_type: DataType) -> Iterator[DataType]:
    """A type and all that it is made of."""
    yield data_type
    if isinstance(data_type, StructType):
        for f in data_type.fields:
            yield from parts(f.dataType)
    elif isinstance(data_type, ArrayType):
        yield from parts(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from parts(data_type.keyType)
        yield from parts(data_type.valueType)


def has_map(data_type: DataType) -> bool:
    """Whether there is a map in it, at any depth. Spark can't compare maps."""
    return any(isinstance(part, MapType) for part in parts(data_type))


def without_untyped(data_type: DataType) -> DataType | None:
    """The type without what has none yet (the type of NULL alone); None if nothing is left."""
    if isinstance(data_type, NullType):
        return None
    if isinstance(data_type, StructType):
        fields = [(f.name, without_untyped(f.dataType)) for f in data_type.fields]
        kept = [StructField(name, typed) for name, typed in fields if typed is not None]
        return StructType(kept) if kept else None
    if isinstance(data_type, ArrayType):
        element = without_untyped(data_type.elementType)
        return None if element is None else ArrayType(element)
    if isinstance(data_type, MapType):
        value = without_untyped(data_type.valueType)
        return None if value is None else MapType(data_type.keyType, value)
    return data_type


def fits(have: DataType, wanted: DataType) -> bool:
    """Whether every value of one type is a value of the other."""
    if isinstance(have, StructType) and isinstance(wanted, StructType):
        return all(f.name not in have.names or fits(have[f.name].dataType, f.dataType) for f in wanted.fields)
    if isinstance(have, ArrayType) and isinstance(wanted, ArrayType):
        return fits(have.elementType, wanted.elementType)
    if isinstance(have, MapType) and isinstance(wanted, MapType):
        return fits(have.keyType, wanted.keyType) and fits(have.valueType, wanted.valueType)
    names = (have.simpleString(), wanted.simpleString())
    return names[0] == names[1] or names[1] in _WIDER.get(names[0], ())


def covers(schema: DataType, other: DataType) -> bool:
    """Whether a schema has every field of a type, at any depth."""
    if isinstance(schema, StructType) and isinstance(other, StructType):
        return all(f.name in schema.names and covers(schema[f.name].dataType, f.dataType) for f in other.fields)
    if isinstance(schema, ArrayType) and isinstance(other, ArrayType):
        return covers(schema.elementType, other.elementType)
    if isinstance(schema, MapType) and isinstance(other, MapType):
        return covers(schema.valueType, other.valueType)
    return True
