"""Exports, monitors and alerts: what leaves the lake, and who is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.core.secret import Secret
from headwater.core.spec.base import Definition, Interval, Names, Size, Trigger
from headwater.core.spec.layout import ParquetOptions


class Export(Definition):
    """A copy of a topic, table, view or query in another format or place."""

    from_: str = Field(
        alias="from", description="What is copied: `topic('x')`, `table('x')`, `mv('x')`, or a query: `SELECT …`."
    )
    format: str = Field(description="Format of the copy.")
    to: str = Field(
        description="Where it goes: a folder, or a name in a catalog: `lake.bi.orders`, `rest://catalog/bi/orders`."
    )
    mode: Literal["snapshot", "streaming"] = Field(default="snapshot", description="Once, or kept up to date.")
    primary_key: Names = Field(
        default=(), description="Columns that tell rows apart: changed rows are updated, and removed ones deleted."
    )
    partition_by: Names = Field(
        default=(), description="Columns, or expressions such as `date(ts)`, to partition the copy by."
    )
    z_order_by: Names = Field(default=(), description="Columns to cluster the copy by.")
    columns: Names = Field(default=(), description="The columns to copy; all by default.")
    filter: str | None = Field(default=None, description="A SQL condition: the rows to copy; all by default.")
    schema_: str | None = Field(
        default=None,
        alias="schema",
        description="Other names and types of columns: `amount decimal(10,2), ts AS at, id AS key string`.",
    )
    compression: str | None = Field(default=None, description="Codec of the copy's files; the format's default.")
    target_file_size: Size | None = Field(default=None, description="Size that the copy's files should have.")
    if_exists: Literal["fail", "append", "overwrite"] = Field(
        default="fail", description="What a snapshot does where something is there already."
    )
    verify: Literal["full", "sample", "off"] = Field(
        default="full", description="How much of the copy is read back by readers that are not Headwater's."
    )
    header: bool = Field(default=True, description="Whether CSV files begin with the names of the columns.")
    delimiter: str = Field(
        default=",", min_length=1, max_length=1, description="What stands between the values of CSV."
    )
    escape_formulas: bool = Field(
        default=False, description="Put a quote before CSV texts that begin with `=`, `+`, `-` or `@`."
    )
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
