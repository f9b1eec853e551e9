"""One table of the schema `system`: its columns with Spark's types, and what reads them without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.core.errors import Unsupported
from headwater.query.system.folders import without_folders
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ARROW = {
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_WORDS = frozenset({"destination", "error", "message", "reason"})
"""Columns that may name a folder of this machine."""

Read = Callable[[Warehouse, Sequence[str]], "list[list[Any]]"]
"""Gives the values of some columns, column by column. Called for each query that reads the table."""


@dataclass(frozen=True)
class SystemTable:
    """What a lake tells of its own work. No column has a secret, an event's bytes or a folder of this machine."""

    name: str
    description: str
    columns: Mapping[str, str]
    """With Spark's types."""
    values: Read
    by_spark: Callable[[Warehouse, SparkSession], DataFrame] | None = None
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

    def frame(self, warehouse: Warehouse, session: SparkSession) -> DataFrame:
        """Its rows for a query that Spark answers."""
        from headwater.spark.arrow_bridge import local_frame

        try:
            return local_frame(session, self.read(warehouse, list(self.columns)))
        except Unsupported:
            if self.by_spark is None:
                raise
            return self.by_spark(warehouse, session)


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


def _told(warehouse: Warehouse, column: str, values: list[Any]) -> list[Any]:
    if column not in _WORDS:
        return values
    return [value and without_folders(warehouse, value) for value in values]
