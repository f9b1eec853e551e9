"""The seam for sources: where events come from. Each type brings its own config model."""

from __future__ import annotations

from pydantic import Field

from headwater.spec.base import Definition, Frozen


class SourceSpec(Definition):
    """What every source has; `options` go to its reader as they are."""

    type: str = Field(description="Type of the source.")


class EventColumns(Frozen):
    """Where the standard columns come from: names in the payload, with dots into objects."""

    id: str | None = Field(default=None, description="Becomes `event_id`.")
    type: str | None = Field(default=None, description="Becomes `event_type`.")
    timestamp: str | None = Field(default=None, description="Becomes `event_timestamp`.")
    stream: str | None = Field(default=None, description="Becomes `aggregate_id`.")
    tenant: str | None = Field(default=None, description="Becomes `tenant_id`.")
    version: str | None = Field(default=None, description="Becomes `event_version`.")
