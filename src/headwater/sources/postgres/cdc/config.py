"""The config of change data capture from Postgres."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from headwater.core.secret import Secret
from headwater.core.spec.base import Count, Names
from headwater.sources.base import EventColumns, SourceSpec


class PostgresCdcSource(SourceSpec):
    """Tables whose changes are followed through one replication slot."""

    reader_class: ClassVar[str | None] = "headwater.sources.postgres.cdc.reader:PostgresCdcReader"
    takes_options: ClassVar[bool] = False
    captures_tables: ClassVar[bool] = True
    setup_module: ClassVar[str | None] = "headwater.sources.postgres.cdc.setup"
    discovery_module: ClassVar[str | None] = "headwater.sources.postgres.cdc.discovery"
    flush_interval_default: ClassVar[timedelta] = timedelta(milliseconds=200)

    type: Literal["postgres_cdc"] = Field(
        default="postgres_cdc",
        description="`postgres_cdc`: changes of Postgres tables, by logical replication.",
    )
    dsn: Secret = Field(description="`postgresql://user:password@host/database`.")
    tables: Names = Field(min_length=1, description="The tables, with their schemas: `public.customers`.")
    slot: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9_]{1,63}$",
        description="Replication slot; named after project and source if unset.",
    )
    publication: str | None = Field(default=None, description="Publication; named after project and source if unset.")
    snapshot: Literal["initial", "never"] = Field(
        default="initial", description="Whether the rows that are there already come first."
    )
    max_rows: Count = Field(
        default=100_000, description="Changes in one step; a step ends with the transaction that reaches it."
    )
    on_data_loss: Literal["fail", "resnapshot"] = Field(
        default="fail",
        description=(
            "When changes are gone before they were read (the slot was dropped or invalidated, another server):"
            " stop and say so, or begin again with all rows."
        ),
    )
    columns: EventColumns = Field(
        default=EventColumns(timestamp="_committed_at"), description="Where the standard columns come from."
    )

    @property
    def connectors(self) -> tuple[str, ...]:
        return ("postgres",)

    @field_validator("tables")
    @classmethod
    def _with_schemas(cls, tables: tuple[str, ...]) -> tuple[str, ...]:
        for table in tables:
            schema, dot, name = table.partition(".")
            if not (schema and dot and name):
                raise ValueError(f"'{table}' should have its schema: public.{table.strip('.') or 'customers'}")
        return tables
