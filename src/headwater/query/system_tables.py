"""The schema `system`: what a lake tells of its own work, as relations that queries read like any other.

One entry of `SYSTEM_TABLES` is one table: its columns with Spark's types, and what reads them without a JVM. None has
versions, so no view and no table can follow one. None tells a secret, an event's bytes, or a folder of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.state.history import (
    HistoryRecord,
    MaintenanceRecord,
    RefreshRecord,
    StepRecord,
    columns_of,
    shortened,
)
from headwater.formats.registry import SYSTEM_FORMAT
from headwater.ingest.dead_letter_list import address_in
from headwater.query.own_folders import without_folders
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ARROW = {
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_SPARK: Mapping[type, str] = {str: "string", int: "bigint", bool: "boolean", datetime: "timestamp"}
_WORDS = frozenset({"error", "message", "reason"})
"""Columns that may name a folder of this machine."""

Read = Callable[[Warehouse, Sequence[str]], "list[list[Any]]"]
"""Gives the values of some columns, column by column. Called for each query that reads the table."""


@dataclass(frozen=True)
class SystemTable:
    """One table of the schema `system`."""

    name: str
    description: str
    columns: Mapping[str, str]
    """With Spark's types."""
    values: Read
    frame: Callable[[Warehouse, SparkSession], DataFrame] | None = None
    """Reads it by Spark, where `values` can be Unsupported."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, _ARROW[type]) for name, type in self.columns.items()])

    def read(self, warehouse: Warehouse, columns: Sequence[str]) -> pa.Table:
        """Some of its columns, without a JVM."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        found = self.values(warehouse, columns)
        told = (_told(warehouse, name, values) for name, values in zip(columns, found, strict=True))
        arrays = [pa.array(values, field.type) for values, field in zip(told, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)


class SystemRows:
    """The rows of a system table for one query: read once, however often the query names it."""

    def __init__(self, warehouse: Warehouse, table: SystemTable) -> None:
        self._warehouse, self._table = warehouse, table
        self._wanted: set[str] = set()
        self._held: pa.Table | None = None

    def want(self, columns: Iterable[str]) -> None:
        """These will be asked for."""
        self._wanted.update(columns)

    def __call__(self, columns: Sequence[str]) -> pa.Table:
        if self._held is None or not set(columns) <= set(self._held.column_names):
            self.want(columns)
            self._held = self._table.read(self._warehouse, [one for one in self._table.columns if one in self._wanted])
        return self._held.select(list(columns))


def system_table(name: str) -> SystemTable:
    """The table of that name; UNKNOWN_REFERENCE if there is none."""
    found = SYSTEM_TABLES.get(name)
    if found is None:
        hint = did_you_mean(name, SYSTEM_TABLES)
        raise UsageError(Code.UNKNOWN_REFERENCE, f"there is no table 'system.{name}'", hint=hint)
    return found


def system_frame(warehouse: Warehouse, session: SparkSession, table: SystemTable) -> DataFrame:
    """Its rows for a query that Spark answers."""
    from headwater.core.errors import Unsupported
    from headwater.spark.arrow_bridge import local_frame

    try:
        return local_frame(session, table.read(warehouse, list(table.columns)))
    except Unsupported:
        if table.frame is None:
            raise
        return table.frame(warehouse, session)


def _told(warehouse: Warehouse, column: str, values: list[Any]) -> list[Any]:
    if column not in _WORDS:
        return values
    return [value and without_folders(warehouse, value) for value in values]


def _history(record: type[HistoryRecord], description: str) -> SystemTable:
    """A table of what has been done."""
    types = {"id": int, **columns_of(record)}

    def values(warehouse: Warehouse, columns: Sequence[str]) -> list[list[Any]]:
        rows = warehouse.state.history(record, columns)
        found = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
        for at, name in enumerate(columns):
            if types[name] is bool:  # SQLite has numbers for them
                found[at] = [None if value is None else bool(value) for value in found[at]]
        return found

    return SystemTable(record.table, description, {name: _SPARK[type] for name, type in types.items()}, values)


_LETTERS = {
    "id": "string", "topic": "string", "source": "string", "reason": "string", "message": "string",
    "position": "string", "at": "timestamp", "flow": "string", "epoch": "bigint", "step": "bigint",
}  # fmt: skip


def _dead_letters(warehouse: Warehouse, columns: Sequence[str]) -> list[list[Any]]:
    assert SYSTEM_FORMAT.native is not None
    table = SYSTEM_FORMAT.native(address_in(warehouse.context), warehouse.context)
    if not table.exists():
        return [[] for _ in columns]
    found = table.read(columns=list(columns)).read_all()
    columns_read = {name: found[name].to_pylist() for name in columns}
    if "message" in columns_read:
        columns_read["message"] = [value and shortened(value) for value in columns_read["message"]]
    return list(columns_read.values())


def _dead_letters_by_spark(warehouse: Warehouse, session: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F

    rows = SYSTEM_FORMAT.spark(session, address_in(warehouse.context), warehouse.context).read()
    return rows.select(*_LETTERS).withColumn("message", F.substring("message", 1, 500))


_TABLES = (
    _history(StepRecord, "each try of a step of each flow"),
    _history(RefreshRecord, "each refresh of a view, and of a table that a query keeps"),
    _history(MaintenanceRecord, "what maintenance has done to which relation, and why"),
    SystemTable(
        "dead_letters",
        "events that could not be taken in, without their bytes",
        _LETTERS,
        _dead_letters,
        _dead_letters_by_spark,
    ),
)

SYSTEM_TABLES: Mapping[str, SystemTable] = {one.name: one for one in sorted(_TABLES, key=lambda one: one.name)}
