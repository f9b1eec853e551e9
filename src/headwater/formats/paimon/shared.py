"""A Paimon table's data files, for tables of other formats. Never imports pyspark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

from headwater.core.errors import Unsupported
from headwater.formats.base import Address, LakeContext
from headwater.formats.interop.seam import SEE, SharedVersion, described, shared_of
from headwater.formats.paimon.manifests import ManifestEntry
from headwater.formats.paimon.native import PaimonNativeTable
from headwater.schema.arrow import arrow_type

_VECTORS = "deletion-vectors.enabled"


def shared(address: Address, context: LakeContext) -> SharedVersion:
    """The latest snapshot of a Paimon table; refused where its rows are merged only when they are read."""
    native = PaimonNativeTable(address, context)
    version = native.version()
    if version is None:
        raise Unsupported(f"{address} has no version yet")
    schema, live = native.table_schema(), native.entries_at(version)
    if schema.options.get(_VECTORS) == "true":
        raise Unsupported(f"deletion vectors hide rows of {address}: other formats would show them")
    if schema.keys:
        _refuse_unmerged(live, address)
    found = [native.data_file(entry) for entry in live]
    types = [arrow_type(one.type) for one in schema.columns()]
    fields = zip(schema.fields, types, strict=True)
    columns = pa.schema([described(pa.field(one["name"], kind), one["id"], None) for one, kind in fields])
    return shared_of(native.folder, version, columns, schema.partition_by, found, in_files=True)


def _refuse_unmerged(live: Iterable[ManifestEntry], address: Address) -> None:
    """Files of one level do not overlap, but for those of the lowest; others may have two rows for a key."""
    levels: defaultdict[tuple[bytes, int], set[int]] = defaultdict(set)
    for entry in live:
        levels[entry.partition, entry.bucket].add(entry.level)
        if entry.deletes:
            levels[entry.partition, entry.bucket].add(0)
    if any(found != {max(found)} or 0 in found for found in levels.values()):
        raise Unsupported(
            f"{address} is merge-on-read: its files have more than one row for a key",
            hint=SEE,
        )
