"""Where an Iceberg table is: a name in a catalog, or a folder, which is a name in a catalog made for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.catalogs.base import DEFAULT, CatalogSpec, LakeLocation
from headwater.catalogs.hadoop import HadoopCatalog
from headwater.catalogs.jdbc import JdbcCatalog
from headwater.core.errors import Code, UsageError
from headwater.core.quotes import backticked
from headwater.formats.base import Address, LakeContext

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


@dataclass(frozen=True)
class TableName:
    """A table's full name, and for a folder the catalog that finds it there."""

    catalog: str
    namespace: tuple[str, ...]
    table: str
    folder: str | None = None
    """The folder that holds the table's folder, if it goes by path."""

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.catalog, *self.namespace, self.table)

    def sql(self, *more: str) -> str:
        """The quoted name, or that of one of its metadata tables: `sql("files")`."""
        return ".".join(backticked(part) for part in (*self.parts, *more))


def table_name(address: Address) -> TableName:
    """The name behind an address."""
    if address.table is not None:
        parts = split(address.table)
        if len(parts) < 2:
            raise UsageError(
                Code.INVALID_VALUE,
                f"'{address.table}' is not a table of a catalog",
                hint=f"write catalog.namespace.table: {DEFAULT}.topics.orders",
            )
        return TableName(parts[0], parts[1:-1], parts[-1])
    folder, _, table = (address.path or "").rstrip("/").rpartition("/")
    if not folder or not table:
        raise UsageError(Code.INVALID_VALUE, f"'{address}' is not the folder of a table")
    digest = hashlib.sha256(folder.encode()).hexdigest()[:12]
    return TableName(f"folder_{digest}", (), table, folder)


def split(name: str) -> tuple[str, ...]:
    """The parts of a dotted name; backquotes keep dots inside a part."""
    if not _NAME.fullmatch(name):
        raise UsageError(Code.INVALID_VALUE, f"'{name}' is not a table's name")
    return tuple((quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(name))


def catalogs(context: LakeContext) -> Mapping[str, CatalogSpec]:
    """The project's catalogs; the embedded one is there by itself."""
    return {DEFAULT: JdbcCatalog(), **context.catalogs}


def catalog_of(name: TableName, context: LakeContext) -> CatalogSpec | None:
    """The config of the catalog that a table is in; None if only the session knows it."""
    if name.folder is not None:
        return HadoopCatalog(warehouse=name.folder)
    return catalogs(context).get(name.catalog)


def lake_location(context: LakeContext) -> LakeLocation:
    return LakeLocation(context.warehouse, context.home)
