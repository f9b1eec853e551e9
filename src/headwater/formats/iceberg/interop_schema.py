"""Columns, partitions and bounds of an Iceberg table over files of another format. Never imports pyspark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from headwater.core.errors import Unsupported
from headwater.formats.footers import Footer
from headwater.formats.interop.seam import number_of, stored_name

_PLAIN: dict[pa.DataType, PrimitiveType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): IntegerType(),
    pa.int16(): IntegerType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}
_OTHERS = 1_000_000_000
"""From here on the numbers of what files have and the table has not."""
_BOUNDED = (IntegerType, LongType, DateType, StringType, TimestampType, TimestamptzType, DecimalType)


def iceberg_schema(schema: pa.Schema, known: TableMetadata | None) -> Schema:
    """The columns with their numbers: those that files know them by, else those that the table has given them."""
    numbers = _FieldNumbers(0 if known is None else known.last_column_id, schema)
    before = () if known is None else known.schema().fields
    return Schema(*(numbers.field(one, before) for one in schema))


class _FieldNumbers:
    def __init__(self, last: int, schema: pa.Schema) -> None:
        self._last = max([last, *_given(list(schema))])

    def field(self, one: pa.Field, before: Sequence[NestedField]) -> NestedField:
        old = next((field for field in before if field.name == one.name), None)
        given = number_of(one)
        if given is None and old is not None and not _is_same(old.field_type, one.type):
            old = None
        number = given
        if number is None:
            number = self._next() if old is None else old.field_id
        return NestedField(number, one.name, self._type(one.type, None if old is None else old.field_type), False)

    def _type(self, kind: pa.DataType, old: IcebergType | None) -> IcebergType:
        if pa.types.is_struct(kind):
            before = old.fields if isinstance(old, StructType) else ()
            return StructType(*(self.field(one, before) for one in kind))
        if pa.types.is_list(kind):
            known = old if isinstance(old, ListType) else None
            number = self._next() if known is None else known.element_id
            element = self._type(kind.value_type, None if known is None else known.element_type)
            return ListType(number, element, element_required=False)
        if pa.types.is_map(kind):
            mapped = old if isinstance(old, MapType) else None
            key_id, value_id = (self._next(), self._next()) if mapped is None else (mapped.key_id, mapped.value_id)
            key = self._type(kind.key_type, None if mapped is None else mapped.key_type)
            value = self._type(kind.item_type, None if mapped is None else mapped.value_type)
            return MapType(key_id, key, value_id, value, value_required=False)
        return plain_type(kind)

    def _next(self) -> int:
        self._last += 1
        return self._last


def _given(fields: Sequence[pa.Field]) -> list[int]:
    found = []
    for one in fields:
        found.append(number_of(one) or 0)
        if pa.types.is_nested(one.type):
            found += _given([one.type.field(i) for i in range(one.type.num_fields)])
    return found


def plain_type(kind: pa.DataType) -> PrimitiveType:
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if kind not in _PLAIN:
        raise Unsupported(f"Apache Iceberg has no type for {kind}")
    return _PLAIN[kind]


def _is_same(old: IcebergType, new: pa.DataType) -> bool:
    """Whether a column of its old type may become the new one and stay the same column."""
    if isinstance(old, StructType):
        return bool(pa.types.is_struct(new))
    if isinstance(old, ListType):
        return bool(pa.types.is_list(new))
    if isinstance(old, MapType):
        return bool(pa.types.is_map(new))
    if pa.types.is_nested(new):
        return False
    wanted = plain_type(new)
    if isinstance(old, DecimalType) and isinstance(wanted, DecimalType):
        return old.scale == wanted.scale and old.precision <= wanted.precision
    widened = (isinstance(old, IntegerType) and isinstance(wanted, LongType)) or (
        isinstance(old, FloatType) and isinstance(wanted, DoubleType)
    )
    return old == wanted or widened


def name_mapping(stored: pa.Schema, schema: Schema, files: Iterable[pa.Schema], before: str | None) -> str:
    """Which column is which in files that have no numbers. What only files have gets numbers that no column has, since
    pyiceberg reads no file with a column that it can't place."""
    mapped = [_mapped(one, field) for one, field in zip(stored, schema.fields, strict=True)]
    known = {name for one in mapped for name in one.names}
    others = [one for one in ([] if before is None else parse_mapping_from_json(before).root) if _is_other(one)]
    others = [one for one in others if known.isdisjoint(one.names)]
    known.update(name for one in others for name in one.names)
    numbers = count(max([_OTHERS, *(number + 1 for one in others for number in _numbers_in(one))]))
    for file in files:
        for one in file:
            if one.name not in known and number_of(one) is None:
                known.add(one.name)
                others.append(_other(one.name, one.type, numbers))
    return NameMapping([*mapped, *others]).model_dump_json()


def _is_other(one: MappedField) -> bool:
    return one.field_id is not None and one.field_id >= _OTHERS


def _numbers_in(one: MappedField) -> list[int]:
    return [one.field_id or 0, *(number for inner in one.fields for number in _numbers_in(inner))]


def _other(name: str, kind: pa.DataType, numbers: Iterator[int]) -> MappedField:
    number = next(numbers)
    inner = []
    if pa.types.is_struct(kind):
        inner = [_other(one.name, one.type, numbers) for one in kind]
    elif pa.types.is_map(kind):
        inner = [_other("key", kind.key_type, numbers), _other("value", kind.item_type, numbers)]
    elif pa.types.is_nested(kind):
        inner = [_other("element", kind.value_type, numbers)]
    return _field(number, [name], inner)


def _mapped(one: pa.Field, field: NestedField) -> MappedField:
    return _field(field.field_id, [stored_name(one)], _inner(one.type, field.field_type))


def _field(number: int, names: list[str], inner: list[MappedField]) -> MappedField:
    found: dict[str, Any] = {"field-id": number, "names": names, "fields": inner}
    return MappedField(**found)


def _inner(kind: pa.DataType, found: IcebergType) -> list[MappedField]:
    if isinstance(found, StructType):
        return [_mapped(one, field) for one, field in zip(kind, found.fields, strict=True)]
    if isinstance(found, ListType):
        inner = _inner(kind.value_type, found.element_type)
        return [_field(found.element_id, ["element"], inner)]
    if isinstance(found, MapType):
        keys, values = _inner(kind.key_type, found.key_type), _inner(kind.item_type, found.value_type)
        return [
            _field(found.key_id, ["key"], keys),
            _field(found.value_id, ["value"], values),
        ]
    return []


def partition_spec(metadata: TableMetadata, columns: Sequence[str]) -> PartitionSpec | None:
    """The partitioning by these columns; None where the table has it already."""
    schema = metadata.schema()
    sources = [schema.find_field(name).field_id for name in columns]
    now = metadata.spec()
    if [field.source_id for field in now.fields] == sources:
        return None
    last = max((metadata.last_partition_id or 999, 999))
    known = {field.source_id: field.field_id for spec in metadata.partition_specs for field in spec.fields}
    fields = []
    for name, source in zip(columns, sources, strict=True):
        if source not in known:
            last += 1
        fields.append(PartitionField(source, known.get(source, last), IdentityTransform(), name))
    number = max(spec.spec_id for spec in metadata.partition_specs) + 1
    return PartitionSpec(*fields, spec_id=number)


def literal(value: Any, kind: IcebergType) -> Any:
    """A value as manifests have it."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, float) and math.isnan(value):
        raise Unsupported("a partition of NaN can't be told from others")
    return value


def bounds(
    schema: Schema, stored: pa.Schema, footer: Footer
) -> tuple[dict[int, int], dict[int, bytes], dict[int, bytes]]:
    """Column → NULLs, least and greatest value, of the columns that a footer tells exactly."""
    nulls: dict[int, int] = {}
    low: dict[int, bytes] = {}
    high: dict[int, bytes] = {}
    for one, field in zip(stored, schema.fields, strict=True):
        found = footer.columns.get(stored_name(one))
        if found is None or not isinstance(field.field_type, PrimitiveType):
            continue
        if found.nulls is not None:
            nulls[field.field_id] = found.nulls
        if found.complete and isinstance(field.field_type, _BOUNDED):
            for value, kept in ((found.min, low), (found.max, high)):
                if value is not None and _fits(value, field.field_type):
                    kept[field.field_id] = to_bytes(field.field_type, literal(value, field.field_type))
    return nulls, low, high


def _fits(value: Any, kind: PrimitiveType) -> bool:
    if isinstance(kind, DecimalType):
        return isinstance(value, Decimal) and -int(value.as_tuple().exponent) == kind.scale
    if isinstance(kind, StringType):
        return isinstance(value, str)
    if isinstance(kind, (TimestampType, TimestamptzType)):
        return isinstance(value, datetime)
    if isinstance(kind, DateType):
        return isinstance(value, date) and not isinstance(value, datetime)
    return isinstance(value, int) and not isinstance(value, bool)
