"""A plain Parquet table's data files, for tables of other formats. Never imports pyspark."""

from __future__ import annotations

from headwater.core.model import DataFile
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.interop.seam import SharedVersion, shared_of
from headwater.formats.parquet.arrow import arrow_schema
from headwater.formats.parquet.log import Log


def shared(address: Address, context: LakeContext) -> SharedVersion:
    """The latest version of a table, as its log names its files."""
    files = Files(str(address.path), context.storage)
    state = Log(files).latest()
    partition_by = tuple(dict.fromkeys(name for file in state.files.values() for name in file.partition))
    if not partition_by:
        named = state.layout.get("partition_by") or ()
        partition_by = tuple(name for name in named if name in arrow_schema(state.schema).names)
    found = (DataFile(files.join(one.path), one.bytes, one.rows, one.partition) for one in state.files.values())
    return shared_of(files, state.version, arrow_schema(state.schema), partition_by, found, in_files=False)
