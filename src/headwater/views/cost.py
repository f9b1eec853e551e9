"""Whether a refresh of a view is incremental or full: by what its earlier refreshes have cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from headwater.views.records import Refreshed

MARGIN = 1.2
"""A full refresh has to be cheaper by so much."""
SAMPLES = 3
"""Refreshes of a kind from which its cost is learned."""
SETUP = 400.0
"""Milliseconds of an incremental refresh with a tiny change, until it is known."""
PER_ROW = 0.02
"""Milliseconds of a changed row, until it is known."""


@dataclass(frozen=True)
class Decision:
    """What to do, and by which figures."""

    incremental: bool
    figures: dict[str, Any]

    @property
    def sentence(self) -> str:
        first, second = self.figures["incremental_ms"], self.figures["full_ms"]
        return f"estimated {first} ms incrementally, {second} ms in full, margin {MARGIN}"


def decided(changed: int | None, history: Sequence[Refreshed]) -> Decision:
    """`changed`: rows of the sources' change; None where it is not known."""
    total = _grown(changed, history)
    setup, per_row = _learned([one for one in history if one.refresh_type == "incremental"])
    rows = changed or 0
    incremental = setup + per_row * rows
    full = _full_cost(total, history)
    figures = {
        "incremental_ms": round(incremental),
        "full_ms": None if full is None else round(full),
        "rows_changed_in_sources": changed,
        "rows_in_sources": total,
        "ms_per_changed_row": round(per_row, 5),
        "setup_ms": round(setup),
    }
    return Decision(full is None or incremental <= full * MARGIN, figures)


def _learned(refreshes: Sequence[Refreshed]) -> tuple[float, float]:
    """The cost of a refresh with no rows, and of one row more."""
    known = [(one.rows_read, float(one.duration_ms)) for one in refreshes if one.rows_read is not None]
    if len(known) < SAMPLES:
        return SETUP, PER_ROW
    setup = min(duration for _, duration in known)
    slopes = [max(0.0, duration - setup) / rows for rows, duration in known if rows]
    return setup, median(slopes) if slopes else PER_ROW


def _grown(changed: int | None, history: Sequence[Refreshed]) -> int | None:
    """Rows in the sources: those of the last full refresh and all that came since, at most."""
    last = next((at for at in range(len(history) - 1, -1, -1) if history[at].refresh_type == "full"), None)
    if last is None or history[last].rows_read is None:
        return None
    # What had no effect is part of the change still: the next refresh begins where that one did.
    since = sum(one.rows_read or 0 for one in history[last + 1 :] if one.refresh_type == "incremental")
    return (history[last].rows_read or 0) + history[last].rows_since + since + (changed or 0)


def _full_cost(total: int | None, history: Sequence[Refreshed]) -> float | None:
    """The last full refresh, scaled by how the sources have grown."""
    last = next((one for one in reversed(history) if one.refresh_type == "full"), None)
    if last is None:
        return None
    if total is None or not last.rows_read:
        return float(last.duration_ms)
    return last.duration_ms * max(1.0, total / last.rows_read)
