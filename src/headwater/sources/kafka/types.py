"""Types of payloads whose schemas change from record to record."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from headwater.sources.decoders.typed import fits


def merged(one: DataType, other: DataType) -> DataType:
    """A type for the values of both; where they contradict each other, the first one's."""
    if isinstance(one, StructType) and isinstance(other, StructType):
        more = {f.name: f for f in other.fields}
        fields = [StructField(f.name, _with(f, more.pop(f.name, None))) for f in one.fields]
        return StructType(fields + [StructField(f.name, f.dataType) for f in more.values()])
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(merged(one.elementType, other.elementType))
    if isinstance(one, MapType) and isinstance(other, MapType) and one.keyType == other.keyType:
        return MapType(one.keyType, merged(one.valueType, other.valueType))
    return other if fits(one, other) else one


def covers(schema: DataType, given: DataType) -> bool:
    """Whether a schema has every field of a type, at any depth."""
    if isinstance(schema, StructType) and isinstance(given, StructType):
        return all(f.name in schema.names and covers(schema[f.name].dataType, f.dataType) for f in given.fields)
    if isinstance(schema, ArrayType) and isinstance(given, ArrayType):
        return covers(schema.elementType, given.elementType)
    if isinstance(schema, MapType) and isinstance(given, MapType):
        return covers(schema.valueType, given.valueType)
    return True


def _with(field: StructField, other: StructField | None) -> DataType:
    return field.dataType if other is None else merged(field.dataType, other.dataType)
