"""The config of an event store in Postgres."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from headwater.core.secret import Secret
from headwater.core.spec.base import Count, Frozen
from headwater.sources.base import EventColumns, SourceSpec
from headwater.sources.postgres.connection import CONNECTOR

ENVELOPE = "_envelope"
"""What the store says of an event alongside its payload, as text; the standard columns are made of it."""
ENVELOPE_FIELDS = ("id", "type", "timestamp", "stream", "tenant", "version")


class EventStoreColumns(Frozen):
    """The columns of the event store; with a dot, a path into a JSON column."""

    position: str = Field(default="global_position", description="Whole number that grows with every event.")
    id: str | None = Field(default="event_id", description="Becomes `event_id`.")
    type: str | None = Field(default="event_type", description="Becomes `event_type`.")
    stream: str | None = Field(default="stream_id", description="Becomes `aggregate_id`.")
    version: str | None = Field(default="version", description="Becomes `event_version`.")
    payload: str = Field(default="data", description="JSON object whose keys become columns.")
    metadata: str | None = Field(default="metadata", description="JSON alongside the payload; becomes `_metadata`.")
    timestamp: str | None = Field(default="created_at", description="Becomes `event_timestamp`.")
    tenant: str | None = Field(default="metadata.tenant_id", description="Becomes `tenant_id`.")
    transaction: str | None = Field(
        default=None,
        description="Column of type `xid8` that holds the writing transaction, where there is one.",
    )


class PostgresEventsSource(SourceSpec):
    """A table of events, each ingested once, however late its transaction ends; `options` are Spark's JDBC reader's."""

    reader_class: ClassVar[str | None] = "headwater.sources.postgres.events.reader:PostgresEventsReader"
    setup_module: ClassVar[str | None] = "headwater.sources.postgres.events.setup"
    discovery_module: ClassVar[str | None] = "headwater.sources.postgres.events.discovery"
    flush_interval_default: ClassVar[timedelta] = timedelta(seconds=30)

    type: Literal["postgres_events"] = Field(
        default="postgres_events", description="`postgres_events`: an event store table in Postgres."
    )
    dsn: Secret = Field(description="`postgresql://user:password@host/database?sslmode=verify-full`.")
    table: str = Field(description="The table: `public.events`.")
    columns: EventStoreColumns = Field(
        default=EventStoreColumns(), description="The names of its columns; null for one that it doesn't have."
    )
    max_rows: Count = Field(default=5_000_000, description="Events in one step at most.")
    max_connections: Count = Field(
        default=8, description="Connections at most, from 2: one that asks, the others read a backlog."
    )
    schema_: str | None = Field(default=None, alias="schema", description="The whole schema: `id bigint, name string`.")
    schema_hints: str | None = Field(default=None, description="Types of some columns; the others are detected.")

    @property
    def connectors(self) -> tuple[str, ...]:
        return (CONNECTOR,)

    @property
    def event_columns(self) -> EventColumns:
        there = (name for name in ENVELOPE_FIELDS if getattr(self.columns, name) is not None)
        return EventColumns(**{name: f"{ENVELOPE}.{name}" for name in there})

    @field_validator("max_connections")
    @classmethod
    def _enough(cls, value: int) -> int:
        if value < 2:
            raise ValueError("should be 2 or more: one asks, the others read")
        return value
