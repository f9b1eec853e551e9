"""Positions in a table: the version that has been read, and how the range that led there began."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headwater.core.model import Version


@dataclass(frozen=True)
class TablePosition:
    """How far a table has been read. In JSON:

    `{"version": 12, "made_at": "2026-10-01T…", "after": 9, "range": 4}`.
    The range of that number led from version `after` (null: from nothing, so it is the table's whole state) to
    `version`. `made_at` tells a version from one of the same number in a table that was made again. `removed` counts
    the rows that were changed or removed and are not told of; `lost` says what was gone before it could be read.
    """

    version: Version
    made_at: str | None = None
    after: Version | None = None
    range: int = 0
    removed: int = 0
    lost: str | None = None
    skipped: bool = False
    """Nothing of the range can be read any more."""
    unsure: bool = False
    """Whether rows were changed or removed has still to be looked at; never of a fixed range."""

    @staticmethod
    def of(position: Any) -> TablePosition | None:
        return None if position is None else TablePosition(**position)

    def to_json(self) -> dict[str, Any]:
        always = ("version", "made_at", "after", "range")
        return {key: value for key, value in asdict(self).items() if key in always or value}
