"""Whether a kind of target can hold some columns: said before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, NullType, StructType

from headwater.core.errors import Code, UsageError
from headwater.core.spec import Export
from headwater.schema.types import parts
from headwater.targets.base import Ability, TargetKind

_RENAME = "give it another name: schema: '{name} AS other_name'"


def check_schema(kind: TargetKind, definition: Export, schema: StructType) -> None:
    """Raise for the first column that the target can't hold, with what to do."""
    for field in schema.fields:
        for type_ in parts(field.dataType):
            if isinstance(type_, NullType):
                message = f"the column '{field.name}' is NULL in every row, and of no type"
                raise UsageError(Code.SCHEMA_MISMATCH, message, hint=f"give it one: schema: '{field.name} string'")
            for ability in _asked(type_):
                if not kind.can(ability):
                    message, hint = kind.refusal(ability)
                    message = f"the column '{field.name}' is {field.dataType.simpleString()}, and {message}"
                    raise UsageError(Code.UNSUPPORTED, message, hint=hint)
        for name in (field.name, *_inner_names(field.dataType)):
            if kind.column_name is not None and not re.fullmatch(kind.column_name, name):
                message = f"{kind.title} can't hold a column of the name '{name}'"
                raise UsageError(Code.UNSUPPORTED, message, hint=_RENAME.format(name=f"`{field.name}`"))


def _asked(type_: DataType) -> Iterator[Ability]:
    if isinstance(type_, (StructType, ArrayType, MapType)):
        yield "nested"
    if isinstance(type_, BinaryType):
        yield "binary"


def _inner_names(type_: DataType) -> Iterator[str]:
    for one in parts(type_):
        if isinstance(one, StructType):
            yield from one.names
