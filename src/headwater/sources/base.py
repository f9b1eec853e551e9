"""The seam for sources: where events come from. Each type brings its own config model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from pydantic import Field

from headwater.core.spec.base import Definition, Frozen, Size


class EventColumns(Frozen):
    """Where the standard columns come from: names in the payload, with dots into objects."""

    id: str | None = Field(default=None, description="Becomes `event_id`.")
    type: str | None = Field(default=None, description="Becomes `event_type`.")
    timestamp: str | None = Field(default=None, description="Becomes `event_timestamp`.")
    stream: str | None = Field(default=None, description="Becomes `aggregate_id`.")
    tenant: str | None = Field(default=None, description="Becomes `tenant_id`.")
    version: str | None = Field(default=None, description="Becomes `event_version`.")


@dataclass(frozen=True)
class Remark:
    """What is not as it will have to be, on this machine and at this moment."""

    key: str
    message: str
    hint: str


class SourceSpec(Definition):
    """What every source has; `options` go to its reader as they are."""

    flush_interval_default: ClassVar[timedelta] = timedelta(seconds=1)
    """How long events may wait for others to share a step with, where the topic does not say."""
    reader_class: ClassVar[str | None] = None
    """What reads it: `module:class`, imported when a flow opens the source. None: nothing does yet."""
    takes_options: ClassVar[bool] = True
    """Whether its reader does anything with `options`."""
    takes_rows: ClassVar[bool] = False
    """Whether programs append to it: what it holds is then nowhere else."""
    captures_tables: ClassVar[bool] = False
    """Whether it follows tables of a database: a topic's `table` names one of them, not its own."""
    setup_module: ClassVar[str | None] = None
    """Has a function `preparation`: what the other end needs before it is read at its best."""
    remarks_module: ClassVar[str | None] = None
    """Has a function `remarks`: what `headwater check` can see of the source at a glance."""
    discovery_module: ClassVar[str | None] = None
    """Has a function `discover`: what `headwater init --from` makes of an address."""

    type: str = Field(description="Type of the source.")
    max_record_size: Size = Field(
        default=64 << 20,
        description="A record with more bytes than this (64 MB), unpacked, becomes a dead letter of reason `too_large`:"
        " its size, its position and its first 64 KB.",
    )

    @property
    def event_columns(self) -> EventColumns:
        """Where the standard columns are in what its reader gives."""
        found = getattr(self, "columns", None)
        return found if isinstance(found, EventColumns) else EventColumns()

    def unused_keys(self) -> Iterable[tuple[str, str]]:
        """Keys that have no effect, each with the keys that they need. `headwater check` asks for a note on each."""
        return ()

    @property
    def connectors(self) -> tuple[str, ...]:
        """What it needs of the Spark session: names in the connector lock."""
        return ()
