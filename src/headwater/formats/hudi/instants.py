"""Points of a Hudi timeline, and which of them are versions. Both sides number versions by this."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo

from headwater.core.model import Version

SCHEMA = "headwater.schema"
LAYOUT = "headwater.layout"
OLDEST = "headwater.oldest_version"
CLUSTERED = "headwater.clustered_by"
"""The note of a clustering that tells by which columns its files are sorted."""

COMMITS = frozenset({"commit", "deltacommit", "replacecommit"})
SERVICES = frozenset({"compaction", "logcompaction", "clustering"})
"""Actions that move rows and change none; while one is under way, commits alongside it count."""


@dataclass(frozen=True, order=True)
class Instant:
    """Something that was done to the table: when it was begun, and when it was done."""

    requested: str
    completed: str | None
    action: str

    @property
    def version(self) -> Version:
        return int(self.requested)

    def committed_at(self, zone: tzinfo) -> datetime:
        digits = (self.completed or self.requested).ljust(17, "0")
        when = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(microsecond=int(digits[14:17]) * 1000)
        return when.replace(tzinfo=zone).astimezone(timezone.utc)


def readable(instants: Iterable[Instant], oldest: str) -> list[Instant]:
    """The completed commits from the oldest on, as far as nothing before them is still under way."""
    known = sorted(instants, key=lambda i: i.requested)
    pending = [i.requested for i in known if i.completed is None and i.action in COMMITS]
    end = min(pending, default=None)
    return [
        i for i in known if i.completed is not None and i.requested >= oldest and (end is None or i.requested < end)
    ]
