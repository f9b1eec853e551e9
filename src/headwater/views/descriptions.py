"""What is said of a view: how it is kept, what it was made of, how its refreshes went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.core.model import Column, Version
from headwater.core.record import Record
from headwater.views.records import Refreshed


@dataclass(frozen=True)
class ViewSummary(Record):
    """A view: how it is kept, and how its last refresh went."""

    name: str
    format: str
    mode: str
    """When it is refreshed."""
    policy: str
    """How it is refreshed."""
    origin: str
    """`project`, or `statement`."""
    location: str | None
    """None: it has not been built yet."""
    refreshed_at: str | None
    last_refresh: str | None
    """full, incremental or none."""
    description: str


@dataclass(frozen=True)
class ViewDescription(ViewSummary):
    """A view: its query and columns, the versions that it was made of, and its last refreshes."""

    sql: str
    columns: tuple[Column, ...] = ()
    version: Version | None = None
    """None: it has not been built yet."""
    watermarks: Mapping[str, Version | None] | None = None
    """The version of each source that it shows."""
    refreshes: tuple[Refreshed, ...] = ()
    """Newest first."""

    def to_dict(self) -> dict[str, object]:
        """Without a version where it has not been built."""
        fields = {**super().to_dict(), "watermarks": dict(self.watermarks or {})}
        if self.location is None:
            del fields["version"]
        return fields


@dataclass(frozen=True)
class DroppedView(Record):
    """What became of a view that was to be dropped."""

    view: str
    dropped: bool
    """False: there was none."""
    defined: bool = False
    """It is still in the project: a run makes it again."""

    def to_dict(self) -> dict[str, object]:
        """`defined` is said of a view that was there."""
        fields = super().to_dict()
        return fields if self.dropped else {"view": self.view, "dropped": False}
