"""Columns as JSON, for targets that hold structs, arrays and maps, or whole rows, as such."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from headwater.core.errors import Code, UsageError
from headwater.spark.frames import column

_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def require_json(type_: DataType, name: str) -> None:
    """Raise for maps whose keys JSON can't have."""
    if isinstance(type_, StructType):
        for field in type_.fields:
            require_json(field.dataType, f"{name}.{field.name}")
    elif isinstance(type_, ArrayType):
        require_json(type_.elementType, name)
    elif isinstance(type_, MapType):
        if not isinstance(type_.keyType, StringType):
            message = f"the column '{name}' has a map with keys of {type_.keyType.simpleString()}, and JSON has texts"
            raise UsageError(Code.UNSUPPORTED, message, hint="leave it out, or cast its keys to string")
        require_json(type_.valueType, name)


def as_json(value: Column) -> Column:
    """The JSON of an array, a struct or a map; NULL where it is NULL."""
    return F.to_json(value, _JSON)


def with_sorted_maps(rows: DataFrame) -> DataFrame:
    """The rows with the entries of all maps in the order of their keys: JSON promises none."""
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    return rows.select(*(sorted_maps(column(name), kind).alias(name) for name, kind in kinds.items()))


def sorted_maps(value: Column, type_: DataType) -> Column:
    """The value with the entries of its maps in the order of their keys: JSON keeps none."""
    change = _sorting(type_)
    return value if change is None else change(value)


def _sorting(type_: DataType) -> Callable[[Column], Column] | None:
    if isinstance(type_, ArrayType):
        inner = _sorting(type_.elementType)
        return None if inner is None else lambda value: F.transform(value, inner)
    if isinstance(type_, MapType):
        of_values = _sorting(type_.valueType)

        def by_keys(value: Column) -> Column:
            keys = F.array_sort(F.map_keys(value))
            values = F.transform(keys, lambda key: F.element_at(value, key))
            found = F.map_from_arrays(keys, values)
            return found if of_values is None else F.transform_values(found, lambda _, one: of_values(one))

        return by_keys
    if isinstance(type_, StructType):
        inner_of = {field.name: _sorting(field.dataType) for field in type_.fields}
        if not any(inner_of.values()):
            return None

        def rebuilt(value: Column) -> Column:
            parts = []
            for name, inner in inner_of.items():
                part = value.getField(name)
                parts.append((part if inner is None else inner(part)).alias(name))
            return F.when(value.isNotNull(), F.struct(*parts))

        return rebuilt
    return None
