"""The config of a folder of files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.sources.base import EventColumns, SourceSpec

FileFormat = Literal["json", "csv", "parquet", "avro", "orc", "text", "binary"]


class FilesSource(SourceSpec):
    """Files that land in a folder, each taken in once."""

    type: Literal["files"] = Field(default="files", description="`files`: a folder that files land in.")
    path: str = Field(description="The folder, or a glob: local, `s3://`, `abfss://`, `gs://`, `hdfs://`.")
    file_format: FileFormat = Field(default="json", description="What is in them; `json` is an object a line.")
    pattern: str | None = Field(default=None, description="Only files whose name fits: `*.json`.")
    recursive: bool = Field(default=True, description="Whether folders below are looked into.")
    schema_: str | None = Field(default=None, alias="schema", description="The whole schema: `id bigint, name string`.")
    schema_hints: str | None = Field(default=None, description="Types of some columns; the others are detected.")
    columns: EventColumns = Field(default=EventColumns(), description="Where the standard columns come from.")
