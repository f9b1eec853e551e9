"""The files under a relation: what they hold, how they are laid out, and a copy of it in another layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from headwater.core.errors import Code, UsageError
from headwater.core.model import DataFile, Kind, TableStats, Version
from headwater.core.record import Record, html_record
from headwater.core.spec.layout import Layout, ParquetOptions
from headwater.core.storage import Files
from headwater.flows.ledger import flow_name
from headwater.formats.base import Address, Capability
from headwater.formats.registry import FORMATS
from headwater.operations.shown_columns import shown_columns
from headwater.query import gathered
from headwater.query.json_schema import json_schema
from headwater.query.record_list import Listing
from headwater.runner.holds import holding
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from headwater.formats.lookup import TableLookup
    from headwater.formats.spark_table import SparkTable

_CATALOG_NAME = re.compile(r"\w+(\.\w+){1,2}")


@dataclass(frozen=True)
class Converted(Record):
    """A copy in another layout."""

    of: str
    version: Version | None
    format: str
    to: str
    rows: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Compacted(Record):
    """What joining small files did."""

    relation: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    version: Version | None


@dataclass(frozen=True)
class FileLayout(DataFile):
    """A live file, and how it is laid out."""

    row_groups: int | None = None
    compression: str | None = None


@dataclass(frozen=True)
class SchemaField(Record):
    """A column as Spark has it."""

    name: str
    type: str
    nullable: bool


class RelationFiles:
    """The live files of a topic, table or view."""

    def __init__(self, warehouse: Warehouse, kind: Kind, name: str) -> None:
        self._warehouse = warehouse
        self._kind = kind
        self._name = name

    def __repr__(self) -> str:
        return f"<files of {self._label}: {self._warehouse.address(self._kind, self._name)}>"

    def _repr_html_(self) -> str:
        """Which files they are: what a notebook shows."""
        address = str(self._warehouse.address(self._kind, self._name))
        return html_record(f"files of {self._label}", {"location": address})

    def stats(self) -> TableStats:
        """Rows, bytes, files; per column nulls, distinct values, min, max and bytes.

        They are kept in the lake: what queries are thought to read follows from them from then on.
        """
        of = gathered.identity(self._warehouse, self._kind, self._name)
        found = self._lookup.stats()
        gathered.keep(self._warehouse, self._kind, self._name, found, of)
        shown = [column.name for column in shown_columns(self._warehouse, self._kind, self._name)]
        return replace(found, columns=tuple(one for one in found.columns if one.column in shown))

    def list(self) -> Listing[FileLayout]:
        """Each file: its rows, bytes, partition, row groups and codec."""
        return Listing(self._layout(file) for file in self._lookup.files())

    def spark_schema(self) -> Listing[SchemaField]:
        """The columns that people see, as Spark has them."""
        found = shown_columns(self._warehouse, self._kind, self._name)
        return Listing(SchemaField(column.name, column.short_type, column.nullable) for column in found)

    def json_schema(self) -> Mapping[str, object]:
        """The columns that people see, as a JSON Schema."""
        found = shown_columns(self._warehouse, self._kind, self._name)
        return json_schema(found, f"{self._kind.plural}.{self._name}")

    def parquet_schema(self) -> str:
        """What the footer of a file says of its columns."""
        for file in self._lookup.files():
            if file.path.endswith(".parquet"):
                with self._files.reading(file.path) as opened:
                    return str(pq.ParquetFile(opened).schema)
        raise UsageError(Code.NO_SUCH_RELATION, f"{self._label} has no Parquet file yet")

    def compact(self, target: int | None = None) -> Compacted:
        """Join small files by commits that change no row."""
        with holding(self._warehouse, flow_name(self._name, self._kind)):
            table = self._table
            before = table.files()
            while table.compact(target) is not None:  # piece by piece
                pass
            after = table.files()
        sizes = (sum(file.bytes for file in before), sum(file.bytes for file in after))
        return Compacted(self._label, len(before), len(after), *sizes, table.version())

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

        Without `to` it is a new folder under `copies/` next to the project file, or `copies` in the format's catalog.
        The relation itself stays as it is: views and readers go by its versions and changes.
        """
        if format is not None:
            self._warehouse.need_format(FORMATS.get(format).name)
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
                while made.cluster(z_order_by) is not None:
                    pass
        except BaseException:
            made.drop()  # half a copy is none
            raise
        files = made.files()
        copied = sum(file.rows or 0 for file in files)
        size = sum(file.bytes for file in files)
        return Converted(self._label, version, made.format.name, to, copied, len(files), size)

    @property
    def _lookup(self) -> TableLookup:
        return self._warehouse.lookup(self._kind, self._name)

    @property
    def _table(self) -> SparkTable:
        return self._warehouse.existing(self._kind, self._name)

    @property
    def _label(self) -> str:
        return f"{self._kind.plural}.{self._name}"

    @property
    def _files(self) -> Files:
        return Files(self._warehouse.context.warehouse, self._warehouse.context.storage)

    def _layout(self, file: DataFile) -> FileLayout:
        if not file.path.endswith(".parquet"):
            return FileLayout(file.path, file.bytes, file.rows, file.partition)
        with self._files.reading(file.path) as opened:
            found = pq.ParquetFile(opened).metadata
            groups = [found.row_group(number) for number in range(found.num_row_groups)]
            codecs = {group.column(at).compression.lower() for group in groups for at in range(group.num_columns)}
            codec = ", ".join(sorted(codecs)) or None
            told = file.path, file.bytes, file.rows, file.partition
            return FileLayout(*told, row_groups=len(groups), compression=codec)

    def _new_place(self, format: str) -> str:
        """Where a copy goes for which no place was named."""
        catalog = FORMATS.get(format).catalog
        name = self._name if self._kind is Kind.TOPIC else f"{self._kind.plural}_{self._name}"
        return f"copies/{name}_{format}" if catalog is None else f"{catalog}.copies.{name}"

    def _new_table(self, to: str, format: str) -> SparkTable:
        found = FORMATS.get(format)
        found.require(Capability.FILES)
        named = _CATALOG_NAME.fullmatch(to) is not None
        if found.catalog is not None and not named:
            raise UsageError(
                Code.USAGE, f"{found.title} tables have a name in a catalog", hint="say --to lake.copies.orders"
            )
        if named and found.catalog is None:
            raise UsageError(Code.USAGE, f"{found.title} tables have a folder, not a name", hint=f"say --to ./{to}")
        address = Address(table=to) if named else Address(path=self._warehouse.project.location(to))
        if address.path is not None and Files(address.path, self._warehouse.context.storage).list():
            raise UsageError(Code.ALREADY_EXISTS, f"the folder {to} is not empty")
        return found.spark(self._warehouse.spark, address, self._warehouse.context)
