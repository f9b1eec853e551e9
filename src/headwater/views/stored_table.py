"""The table that a view is stored in: made, replaced by another one, shown without what is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.model import Kind
from headwater.core.spec import Layout, RelationSpec, layout_of
from headwater.core.state import RelationRecord
from headwater.flows.ledger import flow_name
from headwater.formats.base import Address, Capability, Format
from headwater.formats.native import NativeTable
from headwater.formats.registry import FORMATS
from headwater.formats.spark_table import SparkTable
from headwater.incremental.keys import KeySet, narrowed
from headwater.incremental.state.base import ID
from headwater.spark.arrow_bridge import local_frame
from headwater.spark.frames import column
from headwater.views.compile import Compiled
from headwater.views.retired import Retired
from headwater.warehouse import Warehouse, fingerprint

NATIVE_BYTES = 64 * 2**20
"""Size of a view up to which all of it is read, without Spark, to find a few rows."""
FEW_ROWS = 20_000
"""Rows of a view up to which all of them are handed to Spark."""


@dataclass(frozen=True)
class StoredRows:
    """The rows that a view's table has: a small one's by its native reader, else by Spark."""

    table: SparkTable
    native: NativeTable | None

    def some(self, keys: KeySet, columns: Sequence[str] = ()) -> DataFrame:
        """Those that have one of some keys."""
        if keys.few is not None and len(keys.columns) == 1:
            [key], wanted = keys.columns, [one[0] for one in keys.few]
            kept = self._read([*dict.fromkeys([key, *columns])] if columns else None)
            if kept is not None:
                among = pa.array(wanted, kept.schema.field(key).type)
                return local_frame(self.table.spark, kept.filter(pc.is_in(kept[key], among)))
        rows = narrowed(self.table.read(), keys)
        return rows.select(*map(column, columns)) if columns else rows

    def all(self, columns: Sequence[str]) -> DataFrame | None:
        """Some columns of all of them, where those are few."""
        rows = self._read(columns)
        return None if rows is None or rows.num_rows > FEW_ROWS else local_frame(self.table.spark, rows)

    def _read(self, columns: Sequence[str] | None) -> pa.Table | None:
        """All of them without Spark; None where that would not pay."""
        size = None if self.native is None else self.native.size()
        if self.native is None or size is None or size > NATIVE_BYTES:
            return None
        try:
            return self.native.read(columns=columns).read_all()
        except Unsupported:
            return None


@dataclass
class Storage:
    """Where the result of one query is stored, now and after a build."""

    warehouse: Warehouse
    kind: Kind
    name: str
    definition: RelationSpec
    spark: SparkSession

    @property
    def format(self) -> Format:
        return FORMATS.get(self.warehouse.project.format_of(self.definition))

    @property
    def table(self) -> SparkTable:
        """The table as it is recorded, else where it will be."""
        record = self.warehouse.record(self.kind, self.name)
        if record is not None:
            format, address = FORMATS.get(record.format), Address(record.path, record.table)
        else:
            format, address = self.format, self._address("")
        return format.spark(self.spark, address, self.warehouse.context)

    def native(self, table: SparkTable) -> NativeTable | None:
        """The light way to commit a few rows, where the format has one."""
        if table.format.can(Capability.NATIVE_APPEND) and table.format.native is not None:
            return table.format.native(table.address, table.context)
        return None

    def built(self, made: Compiled, frame: DataFrame, epoch: int) -> SparkTable:
        """Its own table if it can take the rows of a build, else a new one alongside it."""
        current = self.table
        layout = self._layout(made)
        schema = StructType([StructField(f.name, _nullable(f.dataType), f.name != ID) for f in frame.schema.fields])
        if current.exists():
            if current.format.name == self.format.name and _takes(current, schema, layout):
                return current
            address = self._address(f"__{epoch}")
            if address == current.address:  # what is being read is not built over
                address = self._address(f"__{epoch}_{current.version()}")
        else:
            address = current.address
        target = self.format.spark(self.spark, address, self.warehouse.context)
        self._retired.forget(address)
        if target.exists():
            target.drop()  # left over from a build that was cut off
        target.create(schema, layout)
        return target

    @property
    def is_adopted(self) -> bool:
        """Whether its table is known as the one that today's definition has made."""
        record = self.warehouse.record(self.kind, self.name)
        return record is not None and record.definition == fingerprint(self.definition)

    def adopt(self, made: Compiled, built: SparkTable) -> None:
        """From now on this is its table; the one before it goes when those who read it have had their time."""
        before = self.warehouse.record(self.kind, self.name)
        record = RelationRecord(
            self.kind,
            self.name,
            built.format.name,
            built.address.path,
            built.address.table,
            tuple(f.name for f in built.schema().fields if f.name not in made.columns),
            definition=fingerprint(self.definition),
            shown=made.shown,
            made_from=self.definition.model_dump_json(),
        )
        if before is not None:
            record = replace(record, created_at=before.created_at)
        if self.name not in self.warehouse.project.relations(self.kind):
            record = replace(record, origin="statement", statement=self.definition.model_dump_json())
        self.warehouse.state.put(record)
        if before is not None and Address(before.path, before.table) != built.address:
            self._retired.add(before.format, Address(before.path, before.table))

    def sweep(self) -> None:
        """Drop the tables that it had before, when their time is over."""
        self._retired.drop(self.spark, self.warehouse.context)

    @property
    def rebuild(self) -> str:
        """The command that rebuilds all its rows."""
        if self.kind is Kind.VIEW:
            return f"headwater mv refresh {self.name} --rebuild"
        return f"headwater flow rebuild {self.kind.plural}.{self.name} --yes"

    @property
    def _retired(self) -> Retired:
        return Retired(self.warehouse.files, flow_name(self.name, self.kind))

    def grown(self, made: Compiled, table: SparkTable) -> bool:
        """Give the table the columns of a query that it has not: NULL in the rows that are there. Whether it did.

        A column that the query has no more, or of a type that the table's can't become, is SCHEMA_MISMATCH.
        """
        record = self.warehouse.record(self.kind, self.name)
        assert record is not None
        have = {f.name: f.dataType.simpleString() for f in table.schema().fields}
        wanted = {f.name: f.dataType.simpleString() for f in made.schema.fields}
        gone = [name for name in have if name not in wanted and name not in record.hidden]
        if gone:
            raise TerminalError(
                Code.SCHEMA_MISMATCH,
                f"{self.kind.value} '{self.name}' has a column '{gone[0]}', but what makes it no longer has it",
                hint=f"give it, or rebuild its rows: {self.rebuild}",
            )
        if all(have.get(name) == type for name, type in wanted.items()):
            return False
        hidden = [f for f in table.schema().fields if f.name not in wanted]
        table.evolve(StructType([*(StructField(f.name, _nullable(f.dataType)) for f in made.schema.fields), *hidden]))
        self.warehouse.state.put(replace(record, shown=made.shown))
        return True

    def _layout(self, made: Compiled) -> Layout:
        keyed = made.kept is not None and self.format.can(Capability.UPSERT)
        layout = layout_of(self.definition)
        # The keys that a table declares are what its rows are looked for by: they lie together.
        by = layout.z_order_by or (layout.keys if self.format.can(Capability.CLUSTER) else ())
        return layout.model_copy(update={"keys": (ID,) if keyed else (), "z_order_by": by})

    def _address(self, ending: str) -> Address:
        definition = self.definition
        if definition.path is not None:
            return Address(path=self.warehouse.project.location(definition.path) + ending)
        if definition.table is not None:
            return Address(table=definition.table + ending)
        return self.format.address(self.warehouse.context, self.kind.plural, self.name + ending)


def _nullable(data_type: DataType) -> DataType:
    """The type with NULLs allowed at any depth: what a query can't have today it may have after the next change."""
    if isinstance(data_type, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType)) for f in data_type.fields])
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable(data_type.elementType))
    if isinstance(data_type, MapType):
        return MapType(_nullable(data_type.keyType), _nullable(data_type.valueType))
    return data_type


def _takes(table: SparkTable, schema: StructType, layout: Layout) -> bool:
    have = {f.name: f.dataType.simpleString() for f in table.schema().fields}
    return have == {f.name: f.dataType.simpleString() for f in schema.fields} and table.layout() == layout
