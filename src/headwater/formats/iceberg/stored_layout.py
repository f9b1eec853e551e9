"""The layout that an Iceberg table's metadata tells, for both sides. Never imports pyspark."""

from __future__ import annotations

import re
from typing import Any

from headwater.core.spec import Layout, ParquetOptions
from headwater.formats.iceberg.metadata import Metadata

LAYOUT = "headwater.layout"
"""The table property that holds the layout as it was asked for."""

CODECS = {"none": "uncompressed", "lz4": "lz4_raw"}
_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]")


def layout_of(metadata: Metadata) -> Layout:
    """The layout a table was made with; a foreign table's as its own metadata tells it."""
    told = metadata.properties.get(LAYOUT)
    if told is not None:
        return Layout.model_validate_json(told)
    found = metadata.properties
    names = {f["id"]: f["name"] for f in metadata.fields(None)}
    codec = found.get("write.parquet.compression-codec")
    codec = {theirs: ours for ours, theirs in CODECS.items()}.get(codec or "", codec)
    size = found.get("write.target-file-size-bytes")
    return Layout(
        keys=metadata.identifier_columns(),
        partition_by=tuple(shown_field(field, names) for field in metadata.spec() if field["transform"] != "void"),
        target_file_size=int(size) if size else None,
        parquet=ParquetOptions.model_validate({"compression": codec}),
    )


def shown_field(field: dict[str, Any], names: dict[int, str]) -> str:
    column, transform = names.get(field["source-id"], field["name"]), str(field["transform"])
    sized = _WIDTH.fullmatch(transform)
    if sized:
        return f"{sized[1]}({sized[2]}, {column})"
    return column if transform == "identity" else f"{transform}({column})"
