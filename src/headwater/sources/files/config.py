"""The config of a folder of files."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from headwater.core.spec.base import Count, Duration, Size
from headwater.sources.base import EventColumns, SourceSpec
from headwater.sources.files.options import refusals, spelled

FileFormat = Literal["json", "csv", "parquet", "avro", "orc", "text", "binary"]


class FilesSource(SourceSpec):
    """Files that land in a folder, each ingested once; `options` go to the reader of the file format."""

    reader_class: ClassVar[str | None] = "headwater.sources.files.reader:FilesReader"
    remarks_module: ClassVar[str | None] = "headwater.sources.files.remarks"
    discovery_module: ClassVar[str | None] = "headwater.sources.files.discovery"
    flush_interval_default: ClassVar[timedelta] = timedelta(0)
    """A file is a batch already."""

    type: Literal["files"] = Field(default="files", description="`files`: a folder that files land in.")
    path: str = Field(description="The folder, or a glob: local, `s3://`, `abfss://`, `gs://`, `hdfs://`.")
    file_format: FileFormat = Field(
        default="json", description="Format of the files; `json`: one object per line, or an array."
    )
    pattern: str | None = Field(default=None, description="Only files whose name matches: `*.json`.")
    recursive: bool = Field(default=True, description="Whether to include subfolders.")
    partition_columns: bool = Field(default=True, description="Whether `name=value` in folder names becomes a column.")
    file_columns: bool = Field(default=True, description="Whether the topic keeps `_file_path` and `_file_modified`.")
    min_age: Duration | None = Field(
        default=None,
        description="A file that changed less than this ago is left for a later look; `0s` takes what is there. "
        "By default a file is left while it is being written.",
    )
    max_files: Count = Field(default=1000, description="Most files in one step.")
    max_bytes: Size | None = Field(
        default=None, description="Most bytes in one step; a larger file gets a step of its own."
    )
    on_change: Literal["warn", "reload", "fail"] = Field(
        default="warn",
        description="When an ingested file changes: warn, ingest it again, or stop.",
    )
    on_missing: Literal["fail", "skip"] = Field(
        default="fail",
        description="When a file vanishes before it was read: stop, or store a dead letter for it and continue.",
    )
    after: Literal["keep", "delete", "archive"] = Field(
        default="keep", description="What happens to a file once its rows are in the topic."
    )
    follow_links: bool = Field(
        default=False,
        description="Whether links in a local folder may lead out of it. Without it they are left alone and counted.",
    )
    archive_to: str | None = Field(default=None, description="The folder for `after: archive`, in the same storage.")
    schema_: str | None = Field(default=None, alias="schema", description="The whole schema: `id bigint, name string`.")
    schema_hints: str | None = Field(default=None, description="Types of some columns; the others are inferred.")
    columns: EventColumns = Field(default=EventColumns(), description="Where the standard columns come from.")

    @property
    def connectors(self) -> tuple[str, ...]:
        return ("avro",) if self.file_format == "avro" else ()

    @model_validator(mode="after")
    def _archive_has_a_place(self) -> FilesSource:
        if (self.after == "archive") != (self.archive_to is not None):
            raise ValueError("`after: archive` and `archive_to` go together")
        return self

    @model_validator(mode="after")
    def _options_have_effect(self) -> FilesSource:
        refused = list(refusals(self.file_format, self.options))
        if refused:
            raise ValueError("; ".join(refused))
        return self

    @property
    def reader_options(self) -> dict[str, str]:
        """The options as Spark spells them."""
        return spelled(self.file_format, self.options)

    def option(self, name: str, default: str = "") -> str:
        return self.reader_options.get(name, default)

    def is_on(self, name: str, default: bool = False) -> bool:
        return self.option(name, str(default)).lower() == "true"
