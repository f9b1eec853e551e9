"""`system.exports`: the jobs of exports, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headwater.core.state.history import micros
from headwater.query.system.table import SystemTable
from headwater.warehouse import Warehouse

_COLUMNS = {
    "id": "string", "export": "string", "source": "string", "format": "string", "destination": "string",
    "mode": "string", "state": "string", "doing": "string", "progress": "double", "started_at": "timestamp",
    "updated_at": "timestamp", "finished_at": "timestamp", "rows": "bigint", "bytes": "bigint", "files": "bigint",
    "rows_per_second": "double", "position": "string", "checksum": "string", "readers": "string",
    "error_code": "string", "error": "string",
}  # fmt: skip


def exports_table() -> SystemTable:
    """Each job of an export."""
    return SystemTable("exports", "each job of an export: how it is, and who has read it back", _COLUMNS, _values)


def _values(warehouse: Warehouse, columns: Sequence[str]) -> list[list[Any]]:
    jobs = warehouse.state.exports()
    found = [[getattr(job, name) for job in jobs] for name in columns]
    return [[micros(one) if isinstance(one, datetime) else one for one in values] for values in found]
