"""Exports, monitors and alerts: what leaves the lake, and who is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.core.secret import Secret
from headwater.core.spec.base import Definition, Interval, Names, Size, Trigger
from headwater.core.spec.layout import ParquetOptions


class Export(Definition):
    """A copy of a topic, table or view in another format or place."""

    from_: str = Field(alias="from", description="What is copied: `topic('x')`, `table('x')`, `mv('x')`.")
    format: str = Field(description="Table format of the copy.")
    to: str = Field(description="Where it goes: a folder, or a name in a catalog such as `lake.bi.orders`.")
    mode: Literal["snapshot", "streaming"] = Field(default="snapshot", description="Once, or kept up to date.")
    partition_by: Names = Field(
        default=(), description="Columns, or expressions such as `date(ts)`, to partition the copy by."
    )
    z_order_by: Names = Field(default=(), description="Columns to cluster the copy by.")
    target_file_size: Size | None = Field(default=None, description="Size that the copy's files are compacted to.")
    parquet: ParquetOptions = Field(default=ParquetOptions(), description="How the copy's Parquet files are written.")
    trigger: Trigger | None = Field(
        default=None, description="When a streaming copy takes a step; the project's if unset."
    )


class Monitor(Definition):
    """Something watched over time."""

    on: str = Field(description="What is watched: `topic('x')`, `table('x')`, `mv('x')`.")
    freshness: Interval = Field(description="How old its newest data may be.")
    notify: Names = Field(default=(), description="Alerts to send.")


class Alert(Definition):
    """Who is told, and how."""

    webhook: Secret | None = Field(
        default=None, description="Address that gets a JSON message; without it the log does."
    )
