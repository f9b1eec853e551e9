"""What leads from one schema to another: columns to add, and types that differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


@dataclass(frozen=True)
class AddColumn:
    """A column to add; `parent` is the path of the struct it goes into."""

    parent: tuple[str, ...]
    field: StructField


@dataclass(frozen=True)
class Retype:
    """A column whose type differs."""

    path: tuple[str, ...]
    old: DataType
    new: DataType


def schema_changes(old: StructType, new: StructType) -> Iterator[AddColumn | Retype]:
    """What leads from `old` to `new`: columns to add and types that differ. Nothing is ever dropped."""
    yield from _struct_changes(old, new, ())


def column_of(change: AddColumn | Retype) -> str:
    """The column that a change is about, with dots into structs."""
    return ".".join((*change.parent, change.field.name) if isinstance(change, AddColumn) else change.path)


def _struct_changes(old: StructType, new: StructType, at: tuple[str, ...]) -> Iterator[AddColumn | Retype]:
    known = {f.name: f for f in old.fields}
    for f in new.fields:
        if f.name not in known:
            yield AddColumn(at, f)
        else:
            yield from _type_changes(known[f.name].dataType, f.dataType, (*at, f.name))


def _type_changes(old: DataType, new: DataType, at: tuple[str, ...]) -> Iterator[AddColumn | Retype]:
    if isinstance(old, StructType) and isinstance(new, StructType):
        yield from _struct_changes(old, new, at)
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        yield from _type_changes(old.elementType, new.elementType, (*at, "element"))
    elif isinstance(old, MapType) and isinstance(new, MapType):
        yield from _type_changes(old.keyType, new.keyType, (*at, "key"))
        yield from _type_changes(old.valueType, new.valueType, (*at, "value"))
    elif old.simpleString() != new.simpleString():
        yield Retype(at, old, new)
