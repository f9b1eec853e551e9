"""What steps, refreshes and maintenance have done, kept for a while in the state database: `system.steps` and its like.

Rows are written behind: `State.note` takes one at once, and a second later all of them go to the database together. So
a step does not wait for it, and a process that is killed loses the rows of its last second. No table of the lake and
no position depends on them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from typing import ClassVar

from headwater.core.errors import HeadwaterError
from headwater.core.logs import get_logger

BEHIND = 1.0
"""Seconds after which what was noted is written."""
AGAIN = 5.0
"""Seconds after which it is tried again, where the database is away."""
MOST_WAITING = 10_000
"""Rows that wait for a database that is away; the oldest go first."""
KEPT_FOR = timedelta(days=30)
KEPT_ROWS = 100_000
"""Of one flow, view or relation."""
PRUNED_EVERY = 1_000
"""Rows of a table between two looks for what may go."""
LONGEST_ERROR = 500
"""Characters that are kept of an error."""
LONGEST_TEXT = 4_000
"""Characters of any other text, such as positions as JSON: a longer one is left out."""

log = get_logger(__name__)


@dataclass(frozen=True)
class HistoryRecord:
    """A row of one of the tables. Its fields are the columns, behind an `id` that the database counts."""

    table: ClassVar[str]
    subject: ClassVar[str]
    """The column by which rows are counted: so many of each are kept."""


@dataclass(frozen=True)
class StepRecord(HistoryRecord):
    """A try of a step."""

    table: ClassVar[str] = "steps"
    subject: ClassVar[str] = "flow"

    flow: str
    kind: str
    """topic, table, view or sink."""
    epoch: int
    step: int
    started_at: datetime
    committed_at: datetime | None
    """None: it made no commit."""
    duration_ms: int
    rows: int | None
    rejected: int
    bytes: int | None
    """Of its range, where the input could tell."""
    from_positions: str | None
    """JSON, as what follows."""
    to_positions: str | None
    version: int | None
    outcome: str
    """committed, nothing, failed or cancelled."""
    recovered: bool
    """It was begun by a process that ended in the middle of it."""
    error_code: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class RefreshRecord(HistoryRecord):
    """A refresh of a view, or of a table that a query keeps."""

    table: ClassVar[str] = "refreshes"
    subject: ClassVar[str] = "view"

    view: str
    kind: str
    """view or table."""
    refresh_type: str
    """full, incremental or none."""
    reason: str
    started_at: datetime
    duration_ms: int
    rows_read: int | None
    rows_changed: int | None
    watermarks: str | None
    """JSON: by source, the version before and after."""
    version: int | None


@dataclass(frozen=True)
class MaintenanceRecord(HistoryRecord):
    """Something that maintenance has done to a relation, or tried to."""

    table: ClassVar[str] = "maintenance"
    subject: ClassVar[str] = "relation"

    relation: str
    """As SQL names it: `topics.orders`."""
    action: str
    rule: str | None
    """Which rule called for it."""
    started_at: datetime
    duration_ms: int
    version_before: int | None = None
    version_after: int | None = None
    files_before: int | None = None
    files_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    rows: int | None = None
    checksum: str | None = None
    deleted_files: int | None = None
    deleted_bytes: int | None = None
    partitions: str | None = None
    """JSON: the partitions that it was about; None: the whole relation."""
    outcome: str = "done"
    """done, yielded (to another writer) or failed."""
    error: str | None = None


RECORDS: tuple[type[HistoryRecord], ...] = (StepRecord, RefreshRecord, MaintenanceRecord)

TYPES = {"str": str, "int": int, "bool": bool, "datetime": datetime}


def columns_of(record: type[HistoryRecord]) -> dict[str, type]:
    """The columns of a table, behind its `id`, with the types of their values."""
    return {one.name: TYPES[str(one.type).split(" |")[0]] for one in fields(record)}


def stored_values(record: HistoryRecord) -> dict[str, object]:
    """A row as it is stored: times are microseconds since 1970, texts are cut."""
    values: dict[str, object] = {}
    for one in fields(record):
        value = getattr(record, one.name)
        if isinstance(value, datetime):
            value = micros(value)
        elif isinstance(value, str):
            value = _kept(value, whole=one.name not in ("error", "reason"))
        values[one.name] = value
    return values


def micros(moment: datetime) -> int:
    """A time as it is stored."""
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def _kept(text: str, *, whole: bool) -> str | None:
    """A text as a database takes it: not too long, and without what is no character."""
    if whole and len(text) > LONGEST_TEXT:
        return None
    kept = text if whole else shortened(text)
    return kept.replace("\0", "").encode(errors="replace").decode()


def shortened(text: str) -> str:
    """What is kept of an error, or shown of a message."""
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 1]}…"


class HistoryWriter:
    """Writes behind what was noted. Used by any thread."""

    def __init__(self, write: Callable[[Sequence[HistoryRecord]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: deque[HistoryRecord] = deque(maxlen=MOST_WAITING)
        self._timer: threading.Timer | None = None
        self._failing = False

    def add(self, record: HistoryRecord) -> None:
        """Take a row; it is written soon."""
        with self._lock:
            self._waiting.append(record)
            if self._timer is None:
                self._arm(BEHIND)

    def flush(self) -> None:
        """Write what waits, now; where the database is away it goes on waiting."""
        with self._writing:
            with self._lock:
                records = list(self._waiting)
                self._waiting.clear()
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = None
            if not records:
                return
            try:
                self._write(records)
                self._failing = False
            except HeadwaterError as error:
                self._keep(records, error)

    def close(self) -> None:
        """Write what waits, and nothing after it."""
        self.flush()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _keep(self, records: Sequence[HistoryRecord], error: HeadwaterError) -> None:
        if not self._failing:  # once, and not with every try
            self._failing = True
            log.warning("history not written", rows=len(records), error=str(error))
        with self._lock:
            self._waiting.extendleft(reversed(records))
            if self._timer is None:
                self._arm(AGAIN)

    def _arm(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self.flush)
        self._timer.daemon = True
        self._timer.name = "history"
        self._timer.start()
