"""The config of a source that programs hand rows to."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field

from headwater.sources.base import EventColumns, SourceSpec


class AppendSource(SourceSpec):
    """Rows from Python, the command line or HTTP."""

    reader_class: ClassVar[str | None] = "headwater.sources.append.reader:AppendReader"
    takes_options: ClassVar[bool] = False
    takes_rows: ClassVar[bool] = True
    flush_interval_default: ClassVar[timedelta] = timedelta(0)
    """Somebody waits for the answer; what comes while a step runs shares the next one."""

    type: Literal["append"] = Field(default="append", description="`append`: rows handed in by programs.")
    schema_: str | None = Field(default=None, alias="schema", description="The whole schema: `id bigint, name string`.")
    schema_hints: str | None = Field(default=None, description="Types of some columns; the others are detected.")
    columns: EventColumns = Field(default=EventColumns(), description="Where the standard columns come from.")
