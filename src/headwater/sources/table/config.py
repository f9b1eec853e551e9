"""The config of a lakehouse table as a source."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from headwater.sources.base import SourceSpec


class TableSource(SourceSpec):
    """A table of ours or of somebody else, by path or by name in a catalog."""

    type: Literal["table"] = Field(default="table", description="`table`: a lakehouse table.")
    format: str = Field(description="Its table format.")
    table: str | None = Field(default=None, description="Its name in a catalog: `lake.sales.orders`.")
    path: str | None = Field(default=None, description="Its folder, instead of a name.")
    read: Literal["appends", "changes"] = Field(
        default="appends", description="New rows only, or signed changes with updates and deletes."
    )

    @model_validator(mode="after")
    def _one_place(self) -> TableSource:
        if (self.table is None) == (self.path is None):
            raise ValueError("give `table` or `path`" + (", not both" if self.table else ""))
        return self
