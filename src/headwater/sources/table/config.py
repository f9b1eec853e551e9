"""The config of a lakehouse table as a source."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator
from pydantic import WithJsonSchema as JsonSchema

from headwater.core.spec.base import Count
from headwater.sources.base import EventColumns, SourceSpec

_START_FORM = "should be present, latest, a version (12) or a time (2026-10-01T00:00:00Z)"


def _start(value: Any) -> Any:
    if value in ("present", "latest") or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        if value.isdigit():
            return int(value)
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise ValueError(_START_FORM) from None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    raise ValueError(_START_FORM)


Start = Annotated[
    Literal["present", "latest"] | int | datetime,
    BeforeValidator(_start),
    PlainSerializer(lambda value: value.isoformat() if isinstance(value, datetime) else value, when_used="json"),
    JsonSchema({"type": ["string", "integer"], "description": _START_FORM.removeprefix("should be ")}),
]
"""Where a new flow begins."""


class TableSource(SourceSpec):
    """A table of ours or of somebody else, by path or by name in a catalog. It is only read."""

    reader_class: ClassVar[str | None] = "headwater.sources.table.reader:TableReader"
    type: Literal["table"] = Field(default="table", description="`table`: a lakehouse table.")
    format: str = Field(description="Its table format.")
    table: str | None = Field(default=None, description="Its name in a catalog: `lake.sales.orders`.")
    path: str | None = Field(default=None, description="Its folder, instead of a name.")
    read: Literal["appends", "changes"] = Field(
        default="appends", description="New rows only, or signed changes with updates and deletes."
    )
    start: Start = Field(
        default="present",
        description=(
            "Where a new flow begins: `present`, with the rows that the table has; `latest`, a version or a time, with"
            " what comes after that."
        ),
    )
    max_versions: Count = Field(default=100, description="Versions of the table in one step at most.")
    on_change: Literal["fail", "ignore"] = Field(
        default="fail",
        description=(
            "When rows were changed or removed and `read` is `appends`: stop and say where, or log it and take only"
            " the rows that came."
        ),
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="When versions are gone before they were read: stop and say which, or log it and go on.",
    )
    columns: EventColumns = Field(default=EventColumns(), description="Where the standard columns come from.")

    @model_validator(mode="after")
    def _one_place(self) -> TableSource:
        if (self.table is None) == (self.path is None):
            raise ValueError("give `table` or `path`" + (", not both" if self.table else ""))
        if self.options:
            raise ValueError("a table is read as its format has it: there are no `options`")
        return self
