"""What a flow's position says of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.sources.postgres.cdc.database import parse_lsn, show_lsn
from headwater.sources.reader import Position


@dataclass(frozen=True)
class CdcPosition:
    """How far a flow has read: everything committed before `lsn`, on this server, of this table."""

    lsn: int
    system: str
    timeline: int
    table: int
    member: int
    """Its place in the publication."""
    snapshot: str | None = None
    """The range that ends here is a snapshot: the folder of its rows in the flow's notes."""
    again: bool = False
    """Rows of before are in the topic: a snapshot begins with a `t`, which takes them back."""

    @staticmethod
    def of(told: Position | None) -> CdcPosition | None:
        if told is None:
            return None
        lsn = parse_lsn(told["lsn"])
        server, table = (told["system"], int(told["timeline"])), (int(told["table"]), int(told["member"]))
        return CdcPosition(lsn, *server, *table, told.get("snapshot"), bool(told.get("again")))

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"lsn": show_lsn(self.lsn), "system": self.system, "timeline": self.timeline}
        told |= {"table": self.table, "member": self.member}
        if self.snapshot is not None:
            told |= {"snapshot": self.snapshot, "again": self.again}
        return told


LOST = "lost.json"
"""The note that changes of a fixed range are gone, and why: all rows are to come again."""
WANTED = {"snapshot": "wanted"}
"""The end of a range that is not fixed yet: a snapshot will be taken."""
