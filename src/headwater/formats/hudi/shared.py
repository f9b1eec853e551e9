"""A Hudi table's base files, for tables of other formats. Never imports pyspark."""

from __future__ import annotations

import json

import pyarrow as pa

from headwater.core.errors import Unsupported
from headwater.formats.base import Address, LakeContext
from headwater.formats.hudi.instants import SCHEMA
from headwater.formats.hudi.names import stored_name
from headwater.formats.hudi.native import HudiNativeTable
from headwater.formats.interop.seam import SEE, SharedVersion, described, shared_of
from headwater.schema.arrow import arrow_type


def shared(address: Address, context: LakeContext) -> SharedVersion:
    """The latest version of a Hudi table; refused where logs hold some of its rows."""
    native = HudiNativeTable(address, context)
    kept = native.properties().get(SCHEMA)
    if kept is None:
        raise Unsupported(f"the columns of {address}, which another writer made, are told by Spark alone")
    version = native.version()
    found = native.files()
    if version is None or version != native.version():
        raise Unsupported(f"{address} has no version, or got another one while its files were listed")
    logs = [one.path for one in found if not one.path.endswith(".parquet")]
    if logs:
        raise Unsupported(
            f"{address} is merge-on-read: rows that {logs[0]} changes would show as they were",
            hint=SEE,
        )
    fields = json.loads(kept)["fields"]
    schema = pa.schema([described(pa.field(f["name"], _type(f["type"])), None, stored_name(f["name"])) for f in fields])
    return shared_of(native.folder, version, schema, native.layout().partition_by, found, in_files=True)


def _type(found: object) -> pa.DataType:
    """A column's type, whose parts have the names that they have in the files."""
    kind = arrow_type(found)
    _refuse_encoded(kind)
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind  # as Hudi's files have them


def _refuse_encoded(kind: pa.DataType) -> None:
    if not pa.types.is_nested(kind):
        return
    for number in range(kind.num_fields):
        inner = kind.field(number)
        if pa.types.is_struct(kind) and stored_name(inner.name) != inner.name:
            raise Unsupported(f"the nested column '{inner.name}' has another name in Hudi's files")
        _refuse_encoded(inner.type)
