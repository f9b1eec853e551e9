"""The files under a relation: what they hold, how they are laid out, and a copy of it in another layout."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.parquet as pq

from headwater.core.errors import Code, UsageError
from headwater.core.model import DataFile, Kind, TableStats, Version
from headwater.core.spec.layout import Layout, ParquetOptions
from headwater.core.storage import Files
from headwater.flows.flow import flow_name
from headwater.formats.base import Address, Capability
from headwater.formats.registry import FORMATS
from headwater.query import gathered
from headwater.query.json_schema import json_schema
from headwater.runner.holds import holding
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from headwater.formats.base import SparkTable

_CATALOG_NAME = re.compile(r"\w+(\.\w+){1,2}")


SchemaView = Literal["spark", "parquet", "json-schema"]


@dataclass(frozen=True)
class Converted:
    """A copy in another layout."""

    of: str
    version: Version | None
    format: str
    to: str
    rows: int
    files: int
    bytes: int


class RelationFiles:
    """The live files of a topic, table or view."""

    def __init__(self, warehouse: Warehouse, kind: Kind, name: str) -> None:
        self._warehouse = warehouse
        self._kind = kind
        self._name = name

    def stats(self) -> TableStats:
        """Rows, bytes, files; per column nulls, distinct values, min, max and bytes.

        They are kept in the lake: what queries are thought to read follows from them from then on.
        """
        of = gathered.identity(self._warehouse, self._kind, self._name)
        found = self._table.stats()
        gathered.keep(self._warehouse, self._kind, self._name, found, of)
        shown = self._warehouse.rows(self._kind, self._name).columns
        return replace(found, columns=tuple(one for one in found.columns if one.column in shown))

    def list(self) -> list[dict[str, Any]]:
        """Each file: its rows, bytes, partition, row groups and codec."""
        return [{**asdict(file), **self._footer(file)} for file in self._table.files()]

    def schema(self, view: SchemaView = "spark") -> Any:
        """The columns that people see as Spark or JSON Schema has them, or what a file's footer says."""
        if view == "parquet":
            return self._parquet_schema()
        found = self._warehouse.rows(self._kind, self._name).schema
        if view == "json-schema":
            return json_schema(found, f"{self._kind.plural}.{self._name}")
        return [{"name": f.name, "type": f.dataType.simpleString(), "nullable": f.nullable} for f in found.fields]

    def compact(self, target: int | None = None) -> dict[str, Any]:
        """Join small files by one commit that changes no row."""
        with holding(self._warehouse, flow_name(self._name, self._kind)):
            table = self._table
            before = table.files()
            table.compact(target)
            after = table.files()
        return {
            "relation": self._label,
            "files_before": len(before),
            "files_after": len(after),
            "bytes_before": sum(file.bytes for file in before),
            "bytes_after": sum(file.bytes for file in after),
            "version": table.version(),
        }

    def convert(
        self,
        to: str | None = None,
        *,
        format: str | None = None,
        parquet: ParquetOptions | None = None,
        partition_by: tuple[str, ...] | None = None,
        z_order_by: tuple[str, ...] = (),
    ) -> Converted:
        """Copy what people see in the latest version into a new table of another layout.

        Without `to` it is a new folder under `copies/` beside the project file, or `copies` in the format's catalog.
        The relation itself stays as it is: views and readers go by its versions and changes.
        """
        source = self._table
        version = source.version()
        rows = self._warehouse.rows(self._kind, self._name, at=version)
        layout = Layout(
            partition_by=source.layout().partition_by if partition_by is None else partition_by,
            z_order_by=z_order_by,
            parquet=parquet or ParquetOptions(),
        )
        to = to or self._new_place(format or source.format.name)
        made = self._new_table(to, format or source.format.name)
        made.create(rows.schema, layout)
        try:
            made.append(rows)
            if z_order_by:
                made.cluster(z_order_by)
        except BaseException:
            made.drop()  # half a copy is none
            raise
        files = made.files()
        copied = sum(file.rows or 0 for file in files)
        size = sum(file.bytes for file in files)
        return Converted(self._label, version, made.format.name, to, copied, len(files), size)

    @property
    def _table(self) -> SparkTable:
        return self._warehouse.existing(self._kind, self._name)

    @property
    def _label(self) -> str:
        return f"{self._kind.plural}.{self._name}"

    @property
    def _files(self) -> Files:
        return Files(self._warehouse.around.warehouse, self._warehouse.around.storage)

    def _parquet_schema(self) -> str:
        for file in self._table.files():
            if file.path.endswith(".parquet"):
                with self._files.reading(file.path) as opened:
                    return str(pq.ParquetFile(opened).schema)
        raise UsageError(Code.NO_SUCH_RELATION, f"{self._label} has no Parquet file yet")

    def _footer(self, file: DataFile) -> dict[str, Any]:
        if not file.path.endswith(".parquet"):
            return {"row_groups": None, "compression": None}
        with self._files.reading(file.path) as opened:
            found = pq.ParquetFile(opened).metadata
            groups = [found.row_group(number) for number in range(found.num_row_groups)]
            codecs = {group.column(at).compression.lower() for group in groups for at in range(group.num_columns)}
            return {"row_groups": len(groups), "compression": ", ".join(sorted(codecs)) or None}

    def _new_place(self, format: str) -> str:
        """Where a copy goes for which no place was named."""
        catalog = {"iceberg": "lake", "paimon": "paimon"}.get(FORMATS.get(format).name)
        name = self._name if self._kind is Kind.TOPIC else f"{self._kind.plural}_{self._name}"
        return f"copies/{name}_{format}" if catalog is None else f"{catalog}.copies.{name}"

    def _new_table(self, to: str, format: str) -> SparkTable:
        found = FORMATS.get(format)
        found.require(Capability.FILES)
        named = _CATALOG_NAME.fullmatch(to) is not None
        in_catalog = found.name in ("iceberg", "paimon")
        if in_catalog and not named:
            raise UsageError(
                Code.USAGE, f"{found.title} tables have a name in a catalog", hint="say --to lake.copies.orders"
            )
        if named and not in_catalog:
            raise UsageError(Code.USAGE, f"{found.title} tables have a folder, not a name", hint=f"say --to ./{to}")
        address = Address(table=to) if named else Address(path=self._warehouse.project.location(to))
        if address.path is not None and Files(address.path, self._warehouse.around.storage).list():
            raise UsageError(Code.ALREADY_EXISTS, f"the folder {to} is not empty")
        return found.spark(self._warehouse.spark, address, self._warehouse.around)
