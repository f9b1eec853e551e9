"""`system.export_rejects`: rows that targets of streaming exports refuse, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headwater.core.state.history import micros
from headwater.exports.rejects import noted_rejects
from headwater.query.system.table import SystemTable
from headwater.warehouse import Warehouse

_COLUMNS = {
    "export": "string", "key": "string", "reason": "string", "step": "string", "since": "timestamp",
    "tried_at": "timestamp", "tried_again": "boolean",
}  # fmt: skip


def export_rejects_table() -> SystemTable:
    """Each row that is refused, as it was after the last step."""
    return SystemTable("export_rejects", "rows that the targets of exports refuse, and why", _COLUMNS, _values)


def _values(warehouse: Warehouse, columns: Sequence[str]) -> list[list[Any]]:
    rows = noted_rejects(warehouse.files)
    return [[_value(row[name]) for row in rows] for name in columns]


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return micros(value)
    return json.dumps(value) if isinstance(value, dict) else value
