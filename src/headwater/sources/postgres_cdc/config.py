"""The config of change data capture from Postgres."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.secret import Secret
from headwater.sources.base import SourceSpec
from headwater.spec.base import Names


class PostgresCdcSource(SourceSpec):
    """Tables whose changes are followed through one replication slot."""

    type: Literal["postgres_cdc"] = Field(
        default="postgres_cdc",
        description="`postgres_cdc`: changes of Postgres tables, by logical replication.",
    )
    dsn: Secret = Field(description="`postgresql://user:password@host/database`.")
    tables: Names = Field(min_length=1, description="The tables: `public.customers`.")
    slot: str | None = Field(default=None, description="Replication slot; named after project and source if unset.")
    publication: str | None = Field(default=None, description="Publication; named after project and source if unset.")
    snapshot: Literal["initial", "never"] = Field(
        default="initial", description="Whether the rows that are there already come first."
    )
