"""`defaults`: what the topics, tables and views of a project have where they say nothing else."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from headwater.core.spec.base import Count, Frozen, Interval, Names, Options, Size, Trigger
from headwater.core.spec.layout import Clustering, Compaction, ParquetOptions, Retention
from headwater.core.spec.relations import Refresh, RelationSpec, SchemaPolicy, Table, Topic, View

NAME = "{name}"
"""Stands in a default path for the name of each definition."""


def _as_in(model: type[RelationSpec], name: str) -> Any:
    """A key as a definition has it."""
    field = model.model_fields[name]
    return Field(default=field.default, alias=field.alias, description=field.description)


class RelationDefaults(Frozen):
    """What topics, tables and views have in common."""

    format: str | None = _as_in(RelationSpec, "format")
    path: str | None = Field(
        default=None, description="Folder to keep each in; `{name}` stands for its name: `s3://gold/{name}`."
    )
    partition_by: Names = _as_in(RelationSpec, "partition_by")
    z_order_by: Names = _as_in(RelationSpec, "z_order_by")
    target_file_size: Size | None = _as_in(RelationSpec, "target_file_size")
    parquet: ParquetOptions = _as_in(RelationSpec, "parquet")
    compact: Compaction | None = _as_in(RelationSpec, "compact")
    cluster: Clustering | None = _as_in(RelationSpec, "cluster")
    retain: Retention | None = _as_in(RelationSpec, "retain")
    interop: Names = _as_in(RelationSpec, "interop")
    publish: Names = _as_in(RelationSpec, "publish")
    tags: Names = _as_in(RelationSpec, "tags")
    owner: str | None = _as_in(RelationSpec, "owner")
    options: Options = _as_in(RelationSpec, "options")

    @field_validator("path")
    @classmethod
    def _one_for_each(cls, path: str | None) -> str | None:
        if path is not None and NAME not in path:
            raise ValueError(f"all of them would lie in one folder; write {path.rstrip('/')}/{NAME}")
        return path


class TopicDefaults(RelationDefaults):
    """What topics have where they say nothing else."""

    batch_size: Count = _as_in(Topic, "batch_size")
    flush_interval: Interval | None = _as_in(Topic, "flush_interval")
    schema_: SchemaPolicy = _as_in(Topic, "schema_")
    keep_raw: bool = _as_in(Topic, "keep_raw")
    deduplicate_by: Names = _as_in(Topic, "deduplicate_by")
    deduplicate_within: Interval | None = _as_in(Topic, "deduplicate_within")
    trigger: Trigger | None = _as_in(Topic, "trigger")


class TableDefaults(RelationDefaults):
    """What tables have where they say nothing else."""

    trigger: Trigger | None = _as_in(Table, "trigger")


class ViewDefaults(RelationDefaults):
    """What views have where they say nothing else."""

    refresh: Refresh = _as_in(View, "refresh")


class DefaultsSpec(Frozen):
    """Keys that hold for every definition of a kind which does not give them itself."""

    topics: TopicDefaults = Field(default=TopicDefaults(), description="For every topic.")
    tables: TableDefaults = Field(default=TableDefaults(), description="For every table.")
    views: ViewDefaults = Field(default=ViewDefaults(), description="For every view of the project.")
