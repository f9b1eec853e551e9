"""The jobs of exports, as the state database keeps them: `system.exports`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any

from headwater.core.record import Record

RUNNING, STOPPING = "running", "stopping"
KEPT_JOBS = 10_000


@dataclass(frozen=True)
class ExportJob(Record):
    """One copy of something: a snapshot, or a stream that is kept up to date."""

    id: str
    export: str | None
    """Its name in the project; None: of a command, a statement or the API."""
    source: str
    format: str
    destination: str
    mode: str
    state: str
    """running, stopping, stopped, done, failed; interrupted: its process ended in the middle of it."""
    doing: str | None
    """What a running job is at: writing, reading back, publishing."""
    progress: float | None
    """The part of it that is done, from 0 to 1."""
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None = None
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    rows_per_second: float | None = None
    position: str | None = None
    """JSON: the versions of what it has read."""
    checksum: str | None = None
    readers: str | None = None
    """JSON: who has read it back, and what they found."""
    error_code: str | None = None
    error: str | None = None
    holder: str | None = None
    """JSON: the process that runs it."""
    definition: str | None = None
    """JSON: the keys of the export."""

    @property
    def is_open(self) -> bool:
        """Whether it runs, as far as the state knows."""
        return self.state in (RUNNING, STOPPING)


def row_of(job: ExportJob) -> dict[str, Any]:
    """A job as a row of the table `exports`: times are microseconds since 1970."""
    from headwater.core.state.history import micros

    values = {one.name: getattr(job, one.name) for one in fields(job)}
    return {name: micros(one) if isinstance(one, datetime) else one for name, one in values.items()}


def job_of(row: Mapping[str, Any]) -> ExportJob:
    """A row of the table `exports`."""
    times = ("started_at", "updated_at", "finished_at")
    values: dict[str, Any] = {name: _time(value) if name in times else value for name, value in row.items()}
    return ExportJob(**values)


def _time(value: int | None) -> datetime | None:
    return None if value is None else datetime.fromtimestamp(value / 1e6, timezone.utc)
