"""System tables of what has been done: they are rows of the state database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headwater.core.state.history import HistoryRecord, columns_of
from headwater.query.system.table import SystemTable
from headwater.warehouse import Warehouse

_SPARK: Mapping[type, str] = {str: "string", int: "bigint", bool: "boolean", datetime: "timestamp"}


def history_table(record: type[HistoryRecord], description: str) -> SystemTable:
    """A table with the fields of the record as its columns, behind its `id`."""
    types = {"id": int, **columns_of(record)}

    def values(warehouse: Warehouse, columns: Sequence[str]) -> list[list[Any]]:
        rows = warehouse.state.history(record, columns)
        found = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
        for at, name in enumerate(columns):
            if types[name] is bool:  # SQLite has numbers for them
                found[at] = [None if value is None else bool(value) for value in found[at]]
        return found

    return SystemTable(record.table, description, {name: _SPARK[type] for name, type in types.items()}, values)
