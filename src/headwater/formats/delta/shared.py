"""A Delta table's data files, for tables of other formats; and columns as its log has them. Never imports pyspark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Handle
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta.commits import whole_path
from headwater.formats.delta.native import DeltaNativeTable
from headwater.formats.delta.properties import PHYSICAL
from headwater.formats.interop.seam import SEE, SharedFile, SharedVersion, described, number_of, relative, stored_name
from headwater.schema.arrow import PLAIN_TYPES, arrow_type, within_python

NUMBERED = "delta.columnMapping.id"
_VECTORS = "deletionVectors"
_KNOWN = {"timestampNtz", "v2Checkpoint", _VECTORS, "columnMapping"}
_NAMES = {kind: name for name, kind in PLAIN_TYPES.items()}


def shared(address: Address, context: LakeContext) -> SharedVersion:
    """The latest version of a Delta table; refused where its files hold other rows than it does."""
    root = str(address.path)
    try:
        handle = DeltaNativeTable(address, context).opened()
    except TableNotFoundError as error:
        raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Delta table at {address}") from error
    features = set(handle.protocol().reader_features or ())
    if features - _KNOWN:
        raise Unsupported(f"{address} uses {', '.join(sorted(features - _KNOWN))}: other formats have no such thing")
    files = live_files(handle, root, context)
    if _VECTORS in features:
        _refuse_vectors(handle, files, address)
    schema = pa.schema([_field(one) for one in json.loads(handle.schema().to_json())["fields"]])
    return SharedVersion(root, handle.version(), schema, tuple(handle.metadata().partition_columns), files)


def live_files(handle: Handle, root: str, context: LakeContext) -> dict[str, SharedFile]:
    """Path from the table's folder on → file."""
    found: Any = handle.get_add_actions()
    table = pa.RecordBatchReader.from_stream(found).read_all()
    partitions = _partitions(handle, table)
    store = Files(root, context.storage)
    files = {}
    columns = (table[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
    for number, (path, size, rows) in enumerate(zip(*columns, strict=True)):
        name = relative(store, whole_path(root, path))
        files[name] = SharedFile(name, size, rows, {key: values[number] for key, values in partitions.items()})
    return files


def _partitions(handle: Handle, table: pa.Table) -> dict[str, list[Any]]:
    """Each partition column's values, file by file."""
    found: dict[str, list[Any]] = {}
    wanted = handle.metadata().partition_columns
    if not wanted:
        return found
    stored = {one["name"]: one["metadata"].get(PHYSICAL) for one in json.loads(handle.schema().to_json())["fields"]}
    values = table["partition"].combine_chunks()
    names = [one.name for one in values.type]
    for column in wanted:
        name = column if column in names else stored[column]
        array = pa.array([]) if not len(values) else values.field(name)
        if within_python(array).null_count > array.null_count:
            raise Unsupported(f"partitions of '{column}' have years beyond 1 to 9999")
        found[column] = array.to_pylist()
    return found


def _refuse_vectors(handle: Handle, files: dict[str, SharedFile], address: Address) -> None:
    """A file's rows are all the table's, or there are fewer of them in the table."""
    told = [file.rows for file in files.values()]
    try:
        result: Any = QueryBuilder().register("t", handle).execute("SELECT count(*) AS rows FROM t")
        [count] = pa.RecordBatchReader.from_stream(result).read_all()["rows"].to_pylist()
    except (DeltaError, pa.ArrowException):  # it does not read such vectors
        count = None
    if count is None or None in told or sum(one or 0 for one in told) != count:
        raise Unsupported(
            f"deletion vectors hide rows of {address}: other formats would show them",
            hint=SEE,
        )


# --- columns


def _field(found: dict[str, Any]) -> pa.Field:
    metadata = found.get("metadata") or {}
    one = pa.field(found["name"], _type(found["type"], NUMBERED in metadata), found.get("nullable", True))
    return described(one, metadata.get(NUMBERED), metadata.get(PHYSICAL))


def _type(found: Any, mapped: bool) -> pa.DataType:
    kind = found["type"] if isinstance(found, dict) else None
    if mapped and kind in ("array", "map"):
        raise Unsupported(
            "column mapping numbers no elements of arrays and maps, which other formats know by number",
            hint=SEE,
        )
    if kind == "struct":
        return pa.struct([_field(one) for one in found["fields"]])
    if kind == "array":
        return pa.list_(pa.field("element", _type(found["elementType"], mapped), found["containsNull"]))
    if kind == "map":
        return pa.map_(_type(found["keyType"], mapped), _type(found["valueType"], mapped))
    return arrow_type(found)


def delta_schema(schema: pa.Schema, *, mapped: bool) -> str:
    """A schema as the log has it; `mapped`: with what column mapping needs."""
    numbers = _MappingNumbers(schema)
    return json.dumps({"type": "struct", "fields": [_delta_field(one, mapped, numbers) for one in schema]})


class _MappingNumbers:
    """Numbers of columns: their own, or others that no column has."""

    def __init__(self, schema: pa.Schema) -> None:
        self.last = max((number_of(one) or 0 for one in all_fields(list(schema))), default=0)

    def of(self, one: pa.Field) -> int:
        found = number_of(one)
        if found is None:
            self.last += 1
        return self.last if found is None else found


def all_fields(fields: Sequence[pa.Field]) -> list[pa.Field]:
    """These fields and those inside of them."""
    found = []
    for one in fields:
        found.append(one)
        if pa.types.is_nested(one.type):
            found += all_fields([one.type.field(i) for i in range(one.type.num_fields)])
    return found


def needs_mapping(schema: pa.Schema) -> bool:
    """Whether files have other names than the table, or the table has some that Delta's files can't have."""
    odd = set(" ,;{}()\n\t=")
    return any(stored_name(one) != one.name or odd & set(one.name) for one in all_fields(list(schema)))


def _delta_field(one: pa.Field, mapped: bool, numbers: _MappingNumbers) -> dict[str, Any]:
    metadata = {NUMBERED: numbers.of(one), PHYSICAL: stored_name(one)} if mapped else {}
    kind = _delta_type(one.type, mapped, numbers)
    return {"name": one.name, "type": kind, "nullable": True, "metadata": metadata}


def _delta_type(kind: pa.DataType, mapped: bool, numbers: _MappingNumbers) -> Any:
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_delta_field(one, mapped, numbers) for one in kind]}
    if pa.types.is_list(kind):
        element = _delta_type(kind.value_type, mapped, numbers)
        return {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_map(kind):
        key, value = (_delta_type(one, mapped, numbers) for one in (kind.key_type, kind.item_type))
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if kind not in _NAMES:
        raise Unsupported(f"Delta Lake has no type for {kind}")
    return _NAMES[kind]


def schema_in(handle: Handle) -> pa.Schema:
    """The columns of a table that was written by `delta_schema`."""
    fields = json.loads(handle.schema().to_json())["fields"]
    return pa.schema([_own_field(one) for one in fields])


def _own_field(found: dict[str, Any]) -> pa.Field:
    metadata = found.get("metadata") or {}
    one = pa.field(found["name"], _own_type(found["type"]))
    return described(one, metadata.get(NUMBERED), metadata.get(PHYSICAL))


def _own_type(found: Any) -> pa.DataType:
    kind = found["type"] if isinstance(found, dict) else None
    if kind == "struct":
        return pa.struct([_own_field(one) for one in found["fields"]])
    if kind == "array":
        return pa.list_(pa.field("element", _own_type(found["elementType"])))
    if kind == "map":
        return pa.map_(_own_type(found["keyType"]), _own_type(found["valueType"]))
    return arrow_type(found)
