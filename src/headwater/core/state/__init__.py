"""The state database: what the lake holds, so that it is found without a JVM; and who runs which flow, how it goes.

It can be rebuilt from the lake, but for what people have told flows to do (pause) and for the history of steps,
refreshes and maintenance (`history`).
"""

from headwater.core.state.history import MaintenanceRecord, RefreshRecord, StepRecord
from headwater.core.state.lake import State
from headwater.core.state.records import (
    LAKE_FORMAT,
    STORED,
    Control,
    HoldRecord,
    LakeRecord,
    LeaseRecord,
    RelationRecord,
)

__all__ = [
    "LAKE_FORMAT",
    "STORED",
    "Control",
    "HoldRecord",
    "LakeRecord",
    "LeaseRecord",
    "MaintenanceRecord",
    "RefreshRecord",
    "RelationRecord",
    "State",
    "StepRecord",
]
