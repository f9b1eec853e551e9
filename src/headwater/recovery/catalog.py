"""Iceberg's embedded catalog after its database was lost: its tables are found in the lake and registered again."""

from __future__ import annotations

from headwater.catalogs.embedded import Row
from headwater.formats.iceberg.names import split
from headwater.formats.iceberg.recovery import is_older, noted_metadata, noted_tables, present_metadata
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


def has_outdated_catalog(lake: Context) -> bool:
    """Whether the lake has commits that its embedded catalog lacks: then that is an old copy."""
    return bool(_outdated(lake))


def update(lake: Context) -> list[str]:
    """Have the tables in the catalog that it lacks commits of as the lake has them; returns their names."""
    found = []
    for parts in _outdated(lake):
        present = present_metadata(lake.files, parts, "/".join(parts[1:]), lake.last_step)
        if present is not None:
            found.append(Row(parts[0], ".".join(parts[1:-1]), parts[-1], lake.in_warehouse(present)))
    if found:
        lake.catalog.put(found)
    return [f"{row.catalog}.{row.namespace}.{row.table}" for row in found]


def _outdated(lake: Context) -> list[tuple[str, ...]]:
    if not lake.embedded:
        return []
    noted = list(noted_metadata(lake.files))  # before the catalog, which is told of a commit first
    known = {(row.catalog, row.namespace, row.table): row for row in lake.catalog.rows()} if noted else {}
    found = []
    for parts, metadata in noted:
        row = known.get((parts[0], ".".join(parts[1:-1]), parts[-1]))
        if parts[0] in lake.embedded and (row is None or is_older(row.metadata, metadata)):
            found.append(parts)
    return found


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
