"""An Iceberg table's data files, for tables of other formats. Never imports pyspark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, make_compatible_name
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType

from headwater.core.errors import Unsupported
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.iceberg.native import IcebergNativeTable
from headwater.formats.interop.seam import NUMBER, SEE, SharedFile, SharedVersion, described, relative
from headwater.schema.arrow import spark_type

_EPOCH = datetime(1970, 1, 1)
_TEXTS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_string, pa.types.is_date,
          pa.types.is_timestamp)  # fmt: skip
"""Types whose values every format writes into its metadata alike."""


def shared(address: Address, context: LakeContext) -> SharedVersion:
    """The latest snapshot of an Iceberg table; refused where its files hold other rows than it does."""
    table = IcebergNativeTable(address, context).opened()
    snapshot, schema = table.current_snapshot(), table.schema()
    if any(field.initial_default is not None for field in schema.fields):
        raise Unsupported(f"columns of {address} have defaults, which its older files do not hold")
    root = table.location()
    found = _files(table, address) if snapshot is not None else []
    columns = _partition_columns(table, schema, found)
    store = Files(root, context.storage)
    files = {}
    for file in found:
        path = relative(store, file.file_path)
        values = _partition(file, table.specs()[file.spec_id], columns)
        files[path] = SharedFile(path, file.file_size_in_bytes, file.record_count, values)
    named = shared_columns(schema, make_compatible_name)
    version = 0 if snapshot is None else snapshot.snapshot_id
    return SharedVersion(root, version, named, tuple(columns), files)


def _files(table: Table, address: Address) -> list[DataFile]:
    try:
        tasks = list(table.scan().plan_files())
    except (ValueError, NotImplementedError) as error:
        raise Unsupported(f"pyiceberg does not plan {address} exactly: {error}") from error
    for task in tasks:
        if task.delete_files:
            raise Unsupported(
                f"delete files hide rows of {address}: other formats would show them",
                hint=SEE,
            )
        if task.file.file_format is not FileFormat.PARQUET:
            raise Unsupported(f"{address} has files that are not Parquet")
    return [task.file for task in tasks]


def shared_columns(schema: Schema, stored: Callable[[str], str]) -> pa.Schema:
    """Columns with their numbers, and their names in files."""
    return pa.schema([_field(one, stored) for one in schema_to_pyarrow(schema)])


def _field(one: pa.Field, stored: Callable[[str], str]) -> pa.Field:
    number = int((one.metadata or {})[NUMBER])
    return described(pa.field(one.name, _type(one.type, stored), one.nullable), number, stored(one.name))


def _type(kind: pa.DataType, stored: Callable[[str], str]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_field(one, stored) for one in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _type(kind.value_type, stored)))
    if pa.types.is_map(kind):
        return pa.map_(_type(kind.key_type, stored), _type(kind.item_type, stored))
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        raise Unsupported("times of nanoseconds have no equal in other formats")
    return spark_type(kind)


# --- partitions


def _partition_columns(table: Table, schema: Schema, files: list[DataFile]) -> dict[str, tuple[int, IcebergType]]:
    """The columns that every live file is partitioned by as they are, with their numbers and types.

    One with an empty text is left out: other formats take that for NULL. Its values are in the files.
    """
    specs = [table.specs()[number] for number in {file.spec_id for file in files}] or [table.spec()]
    if any(isinstance(field.transform, VoidTransform) for spec in specs for field in spec.fields):
        return {}
    top = {field.field_id: field for field in schema.fields}
    found: dict[str, tuple[int, IcebergType]] = {}
    for source in _identities(specs[0]):
        field = top.get(source)
        if field is None or not all(source in _identities(spec) for spec in specs):
            continue
        kind = pa.schema(schema_to_pyarrow(schema)).field(field.name).type
        if any(is_one(spark_type(kind)) for is_one in _TEXTS) and not _has_empty(files, table.specs(), source):
            found[field.name] = (source, field.field_type)
    return found


def _identities(spec: PartitionSpec) -> dict[int, int]:
    """Source column → place in the partition's values, of those that are partitioned by as they are."""
    return {f.source_id: at for at, f in enumerate(spec.fields) if isinstance(f.transform, IdentityTransform)}


def _has_empty(files: list[DataFile], specs: Mapping[int, PartitionSpec], source: int) -> bool:
    return any(file.partition[_identities(specs[file.spec_id])[source]] == "" for file in files)


def _partition(file: DataFile, spec: PartitionSpec, columns: Mapping[str, tuple[int, IcebergType]]) -> dict[str, Any]:
    places = _identities(spec)
    return {name: _value(file.partition[places[source]], kind) for name, (source, kind) in columns.items()}


def _value(value: Any, kind: IcebergType) -> Any:
    if value is None or isinstance(value, (date, datetime)):
        return value
    try:
        if isinstance(kind, DateType):
            return date(1970, 1, 1) + timedelta(days=value)
        if isinstance(kind, (TimestampType, TimestamptzType)):
            moment = _EPOCH + timedelta(microseconds=value)
            return moment.replace(tzinfo=timezone.utc) if isinstance(kind, TimestamptzType) else moment
    except OverflowError as error:
        raise Unsupported("partitions have years beyond 1 to 9999") from error
    return value
