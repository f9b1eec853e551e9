"""The tables of Iceberg's embedded catalog, without a JVM: a row says where a table's metadata is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headwater.catalogs.base import DEFAULT, CatalogSpec, LakeLocation
from headwater.catalogs.jdbc import FILE, JdbcCatalog
from headwater.core.errors import Code, TerminalError
from headwater.core.private_files import create_private, make_private

_MAKE = (
    "CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) "
    "NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location "
    "VARCHAR(1000), iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace "
    "VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), "
    "PRIMARY KEY (catalog_name, namespace, property_key))",
)
"""As Iceberg's JDBC catalog makes them (schema V1)."""


@dataclass(frozen=True)
class Row:
    """A table and its present metadata file."""

    catalog: str
    namespace: str
    table: str
    metadata: str
    previous: str | None = None


def embedded(catalogs: Mapping[str, CatalogSpec]) -> list[str]:
    """The catalogs that are kept in the project's own folder."""
    known = {DEFAULT: JdbcCatalog(), **catalogs}
    return [name for name, spec in known.items() if isinstance(spec, JdbcCatalog) and spec.uri is None]


class EmbeddedCatalog:
    """The database of those catalogs."""

    def __init__(self, place: LakeLocation) -> None:
        self._file = Path(place.home) / FILE

    def exists(self) -> bool:
        """An empty file is one that Iceberg was about to fill."""
        return self._file.exists() and self._file.stat().st_size > 0

    def rows(self) -> list[Row]:
        if not self.exists():
            return []
        query = "SELECT catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location"
        with self._open() as connection:
            made = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone()
            rows = connection.execute(f"{query} FROM iceberg_tables").fetchall() if made else []
        return [Row(*row) for row in rows if row[3] is not None]

    def put(self, rows: Iterable[Row]) -> None:
        """Make these the places of their tables."""
        with self._open() as connection, connection:
            for statement in _MAKE:
                connection.execute(statement)
            columns = {row[1] for row in connection.execute("PRAGMA table_info(iceberg_tables)")}
            if "iceberg_type" not in columns:
                connection.execute("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)")
            connection.executemany(
                "INSERT OR REPLACE INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, "
                "previous_metadata_location, iceberg_type) VALUES (?, ?, ?, ?, ?, 'TABLE')",
                [(row.catalog, row.namespace, row.table, row.metadata, row.previous) for row in rows],
            )

    def remove(self, rows: Iterable[Row]) -> None:
        """Forget tables; their files stay."""
        keys = [(row.catalog, row.namespace, row.table) for row in rows]
        if keys:
            where = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
            with self._open() as connection, connection:
                connection.executemany(f"DELETE FROM iceberg_tables WHERE {where}", keys)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            make_private(self._file.parent)
            create_private(self._file)
            with closing(sqlite3.connect(self._file, timeout=30)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                yield connection
        except sqlite3.Error as error:
            raise TerminalError(Code.STORAGE_FAILED, f"can't use the embedded catalog {self._file}: {error}") from error
