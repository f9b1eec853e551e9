"""The lake's relations for DuckDB: handles are kept, and brought to the latest version for each query."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.model import At, Kind
from headwater.core.state import RelationRecord
from headwater.formats.base import Address, Format, LakeContext
from headwater.formats.native import NativeTable
from headwater.formats.registry import FORMATS
from headwater.query.duckdb.instances import folders_of
from headwater.query.duckdb.scans import PinnedRelation
from headwater.query.duckdb.translation.terms import Refused
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS_BYTES = 256 * 1024 * 1024
"""What is read through a native reader is held in memory: larger tables are Spark's."""

_HANDLES = 256


class Catalogue:
    """What the lake has, looked up once for a query."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self._records = {(record.kind, record.name): record for record in warehouse.state.relations()}
        made: dict[Kind, set[str]] = {kind: set(warehouse.project.relations(kind)) for kind in Kind}
        for kind, name in self._records:
            made[kind].add(name)
        self.names: Mapping[Kind, Collection[str]] = made

    @property
    def home(self) -> str:
        return self.warehouse.context.home

    def same(self, other: Catalogue) -> bool:
        """Whether nothing was made, dropped or moved between the two."""
        return self.names == other.names and self._records == other._records

    def record(self, kind: Kind, name: str) -> RelationRecord | None:
        return self._records.get((kind, name))

    def locate(self, kind: Kind, name: str) -> tuple[Format, Address]:
        record = self.record(kind, name)
        if record is None:
            return self.warehouse.format(kind, name), self.warehouse.address(kind, name)
        return FORMATS.get(record.format), Address(record.path, record.table)


class _Handles:
    """Native readers by address; each is used by one query at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[object, ...], tuple[NativeTable, threading.Lock]] = OrderedDict()

    def get(self, found: Format, address: Address, context: LakeContext) -> tuple[NativeTable, threading.Lock]:
        if found.native is None:
            raise Refused(f"{found.title} tables are not read without a JVM")
        key = (found.name, address, context.warehouse, context.home)
        with self._lock:
            if key not in self._held:
                self._held[key] = (found.native(address, context), threading.Lock())
            self._held.move_to_end(key)
            while len(self._held) > _HANDLES:
                self._held.popitem(last=False)
            return self._held[key]


_handles = _Handles()


def reading(catalogue: Catalogue, kind: Kind, name: str, at: At | None) -> PinnedRelation:
    """A relation at one version, exactly as Spark would read it; Refused if that can't be promised."""
    try:
        found, address = catalogue.locate(kind, name)
        table, lock = _handles.get(found, address, catalogue.warehouse.context)
        with lock:
            return _pinned(table, kind, name, found.name, at, catalogue.warehouse.context.warehouse)
    except Refused:
        raise
    except Unsupported as error:
        raise Refused(error.problem.message) from error
    except TerminalError as error:
        if error.code is Code.NO_SUCH_RELATION:
            raise catalogue.warehouse.without_data(kind, name) from error
        raise
    except ImportError as error:
        raise Refused(f"{kind.value} '{name}' needs a library that is not installed: {error}") from error


def _pinned(table: NativeTable, kind: Kind, name: str, format: str, at: At | None, warehouse: str) -> PinnedRelation:
    try:
        files = table.parquet(at)
    except Unsupported as error:
        return _read(table, kind, name, format, at, error.problem.message)
    if files.has_patterns:
        return _read(table, kind, name, format, at, "a file's name has a character that stands for others")
    folders = folders_of(warehouse, (file.path for file in files.files))
    return PinnedRelation(kind, name, format, files.version, files.schema, files, folders=folders)


def _read(table: NativeTable, kind: Kind, name: str, format: str, at: At | None, why: str) -> PinnedRelation:
    version = table.version() if at is None else table.version_at(at)
    if version is None:
        raise Refused(f"{kind.value} '{name}' has no version yet")
    schema = table.read(at).schema

    def read(columns: Sequence[str]) -> pa.Table:
        found = _held(table.read(at, list(columns)), f"{kind.value} '{name}'")
        if at is None and table.version() != version:
            raise Refused(f"{kind.value} '{name}' changed while it was read")
        return found

    return PinnedRelation(kind, name, format, version, schema, None, read, why)


def _held(reader: pa.RecordBatchReader, what: str) -> pa.Table:
    import pyarrow as pa

    batches, held = [], 0
    for batch in reader:
        held += batch.nbytes
        if held > MOST_ROWS_BYTES:
            raise Refused(f"{what} is too large for its native reader")
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=reader.schema)
