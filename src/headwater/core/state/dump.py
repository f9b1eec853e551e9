"""What a state database holds and the lake does not: everything but the relations. For backups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

OF_RUNNERS = frozenset({"lake", "relations", "leases", "flow_releases", "flow_statuses"})
"""Of this lake and of those who run it now; no other lake is told of them."""

Dump = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by table."""


def dump(connection: sa.Connection, tables: Mapping[str, sa.Table]) -> Dump:
    kept = {name: table for name, table in tables.items() if name not in OF_RUNNERS}
    rows_of: dict[str, list[dict[str, Any]]] = {}
    for name, table in kept.items():
        ordered = sa.select(table).order_by(*table.primary_key.columns)
        rows_of[name] = [dict(row) for row in connection.execute(ordered).mappings()]
    return rows_of


def load(connection: sa.Connection, tables: Mapping[str, sa.Table], dump: Dump) -> None:
    """Have these rows instead of those that are there; what this release does not know is left out."""
    for name, table in tables.items():
        if name in OF_RUNNERS:
            continue
        connection.execute(sa.delete(table))
        # Rows that are counted get new numbers, in their order: the database counts on from there.
        known = {column.name for column in table.columns if column is not table.autoincrement_column}
        rows = [{key: value for key, value in row.items() if key in known} for row in dump.get(name, ())]
        if rows:
            connection.execute(sa.insert(table), rows)
