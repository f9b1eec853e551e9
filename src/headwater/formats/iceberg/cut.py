"""An Iceberg table at its latest version, for a backup."""

from __future__ import annotations

import posixpath
import re

from headwater.catalogs.embedded import EmbeddedCatalog, embedded
from headwater.core.errors import Unsupported
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext, TableCut
from headwater.formats.iceberg.metadata import Metadata
from headwater.formats.iceberg.names import TableName, catalog_of, lake_location, table_name
from headwater.formats.iceberg.recovery import landed_note
from headwater.formats.iceberg.relocation import read_metadata
from headwater.formats.relocation import inside

_HINT = "metadata/version-hint.text"
_NUMBERED = re.compile(r"metadata/v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")


def cut(address: Address, context: LakeContext) -> TableCut | None:
    """The table as its catalog has it now; None where there is none."""
    name = table_name(address)
    found = _of_folder(name, context) if name.folder is not None else _of_catalog(name, address, context)
    if found is None:
        return None
    folder, metadata = found
    files = Files(folder, context.storage)
    numbered = _NUMBERED.fullmatch(metadata)
    number = None if numbered is None else int(numbered[1])
    current = Metadata(read_metadata(files, metadata)).current

    def is_later(path: str) -> bool:
        told = _NUMBERED.fullmatch(path)
        return told is not None and number is not None and path != metadata and int(told[1]) >= number

    noted = {}
    replaced = {}
    if name.folder is None:
        path = inside(posixpath.join(folder, metadata), context.warehouse) or posixpath.join(folder, metadata)
        noted = dict([landed_note(name.parts, path)])
    else:
        replaced = {_HINT: str(number).encode()}
    version = None if current is None else current.id
    return TableCut(folder, version, ("metadata",), is_later, replaced, noted, state=metadata)


def _of_catalog(name: TableName, address: Address, context: LakeContext) -> tuple[str, str] | None:
    """The table's folder and its metadata file in it, by the embedded catalog."""
    spec = catalog_of(name, context)
    if spec is not None and spec.by_folder and spec.warehouse is None:
        return _of_folder(TableName(name.catalog, name.namespace, name.table, context.warehouse), context)
    if name.catalog not in embedded(context.catalogs):
        raise Unsupported(
            f"the catalog '{name.catalog}' keeps the table {address}: which of its files are the table's, and where,"
            " is in that catalog, and a backup of the lake does not hold it",
            hint="back it up with the catalog's own means, and keep it in a lake of its own",
        )
    rows = EmbeddedCatalog(lake_location(context)).rows()
    wanted = (name.catalog, ".".join(name.namespace), name.table)
    row = next((row for row in rows if (row.catalog, row.namespace, row.table) == wanted), None)
    if row is None:
        return None
    place = inside(row.metadata, context.warehouse)
    location = row.metadata if place is None else posixpath.join(context.warehouse, place)
    folder, _, file = location.rpartition("/metadata/")
    return folder, f"metadata/{file}"


def _of_folder(name: TableName, context: LakeContext) -> tuple[str, str] | None:
    """The same of a table that goes by its folder: the newest of its numbered files is the table."""
    assert name.folder is not None
    folder = posixpath.join(name.folder, *name.namespace, name.table)
    names = (_NUMBERED.fullmatch(entry.path) for entry in Files(folder, context.storage).list("metadata"))
    newest = max(((int(each[1]), each[0]) for each in names if each), default=None)
    return None if newest is None else (folder, newest[1])
