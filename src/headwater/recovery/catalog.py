"""Iceberg's embedded catalog after its database was lost: its tables are found in the lake and registered again."""

from __future__ import annotations

from headwater.catalogs.embedded import Row
from headwater.formats.iceberg.names import split
from headwater.formats.iceberg.recovery import noted_tables, present_metadata
from headwater.formats.iceberg.relocation import tables_in
from headwater.formats.registry import FORMATS
from headwater.recovery.context import Context


def register(lake: Context) -> list[str]:
    """Register the tables of the lake that the catalog does not know; returns their names."""
    if not lake.embedded:
        return []
    known = {(row.catalog, row.namespace, row.table) for row in lake.catalog.rows()}
    rows = []
    for parts in _tables(lake):
        catalog, namespace, table = parts[0], ".".join(parts[1:-1]), parts[-1]
        folder = "/".join(parts[1:])
        if (catalog, namespace, table) in known:
            continue
        found = present_metadata(lake.files, parts, folder, lake.last_step)
        if found is not None:
            rows.append(Row(catalog, namespace, table, lake.in_warehouse(found)))
    if rows:
        lake.catalog.put(rows)
    return [f"{row.catalog}.{row.namespace}.{row.table}" for row in rows]


def _tables(lake: Context) -> list[tuple[str, ...]]:
    """The names of the tables that lie in the warehouse, catalog first."""
    records = (record.table for record in lake.state.relations() if FORMATS.get(record.format).in_catalogs)
    named = {split(table) for table in records if table is not None} | set(noted_tables(lake.files))
    catalog_of = {parts[1:]: parts[0] for parts in named if parts[0] in lake.embedded}
    found = []
    for folder in tables_in(lake.files):
        inner = tuple(folder.split("/"))
        if len(inner) > 1:
            found.append((catalog_of.get(inner, lake.embedded[0]), *inner))
    return found
