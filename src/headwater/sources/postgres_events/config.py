"""The config of an event store in Postgres."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.secret import Secret
from headwater.sources.base import SourceSpec
from headwater.spec.base import Frozen


class EventStoreColumns(Frozen):
    """The columns of the event store; with a dot, a path into a JSON column."""

    position: str = Field(default="global_position", description="Number that grows with every event.")
    id: str = Field(default="event_id", description="Becomes `event_id`.")
    type: str = Field(default="event_type", description="Becomes `event_type`.")
    stream: str = Field(default="stream_id", description="Becomes `aggregate_id`.")
    version: str = Field(default="version", description="Becomes `event_version`.")
    payload: str = Field(default="data", description="JSON or JSONB whose keys become columns.")
    metadata: str | None = Field(default="metadata", description="JSON or JSONB beside the payload.")
    timestamp: str = Field(default="created_at", description="Becomes `event_timestamp`.")
    tenant: str | None = Field(default="metadata.tenant_id", description="Becomes `tenant_id`.")
    transaction: str | None = Field(
        default=None,
        description="Column of type `xid8` that holds the writing transaction, where there is one.",
    )


class PostgresEventsSource(SourceSpec):
    """A table of events, read in order and without gaps."""

    type: Literal["postgres_events"] = Field(
        default="postgres_events", description="`postgres_events`: an event store table in Postgres."
    )
    dsn: Secret = Field(description="`postgresql://user:password@host/database`.")
    table: str = Field(description="The table: `public.events`.")
    columns: EventStoreColumns = Field(default=EventStoreColumns(), description="What its columns are called.")
