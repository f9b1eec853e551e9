"""The schema `system`: what a lake tells of its own work, as relations that queries read like any other.

One entry is one table. None has versions, so no view and no table can follow one.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.state import MaintenanceRecord, RefreshRecord, StepRecord
from headwater.query.system.dead_letters import dead_letters_table
from headwater.query.system.export_rejects import export_rejects_table
from headwater.query.system.exports import exports_table
from headwater.query.system.history import history_table
from headwater.query.system.table import SystemTable

_TABLES = (
    dead_letters_table(),
    export_rejects_table(),
    exports_table(),
    history_table(MaintenanceRecord, "what maintenance has done to which relation, and why"),
    history_table(RefreshRecord, "each refresh of a view, and of a table that a query keeps"),
    history_table(StepRecord, "each try of a step of each flow"),
)

SYSTEM_TABLES: Mapping[str, SystemTable] = {table.name: table for table in _TABLES}


def system_table(name: str) -> SystemTable:
    """The table of that name; UNKNOWN_REFERENCE if there is none."""
    found = SYSTEM_TABLES.get(name)
    if found is None:
        hint = did_you_mean(name, SYSTEM_TABLES)
        raise UsageError(Code.UNKNOWN_REFERENCE, f"there is no table 'system.{name}'", hint=hint)
    return found
