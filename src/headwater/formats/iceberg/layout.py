"""A layout as Iceberg's table properties and partition spec, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.spec import Layout
from headwater.formats.evolution import TRANSFORM
from headwater.formats.iceberg.metadata import Metadata
from headwater.formats.iceberg.stored_layout import CODECS, LAYOUT, shown_field

BLOOM_BYTES = 256 * 1024
"""The largest bloom filter of one column in one row group: Iceberg always allocates the largest."""

_MODES = ("write.delete.mode", "write.update.mode", "write.merge.mode")
_DEFAULTS = {
    "format-version": "2",
    "write.format.default": "parquet",
    # Only rewritten files can be told apart by row: the change scan refuses delete files.
    **dict.fromkeys(_MODES, "copy-on-write"),
    # A commit on top of another writer's is never made unseen: look what has landed, then try again.
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}

_TRANSFORMS = {
    "date": "day",
    "day": "day",
    "days": "day",
    "hour": "hour",
    "hours": "hour",
    "month": "month",
    "months": "month",
    "year": "year",
    "years": "year",
    "bucket": "bucket",
    "truncate": "truncate",
    "identity": "identity",
}


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec."""

    transform: str
    column: str
    width: int | None = None

    @property
    def arguments(self) -> tuple[str] | tuple[str, int]:
        return (self.column,) if self.width is None else (self.column, self.width)


def properties(schema: StructType, layout: Layout) -> dict[str, str]:
    """The table properties that make a layout so; the user's `options` win."""
    parquet = layout.parquet
    found = {**_DEFAULTS, LAYOUT: layout.model_dump_json(exclude_defaults=True)}
    if parquet.compression is not None:
        found["write.parquet.compression-codec"] = CODECS.get(parquet.compression, parquet.compression)
    if parquet.row_group_size is not None:
        found["write.parquet.row-group-size-bytes"] = str(parquet.row_group_size)
    if parquet.dictionary is not None:
        found["parquet.enable.dictionary"] = str(parquet.dictionary).lower()
    if parquet.bloom_filter:
        found["write.parquet.bloom-filter-max-bytes"] = str(BLOOM_BYTES)
    for name in parquet.bloom_filter:
        found[f"write.parquet.bloom-filter-enabled.column.{name}"] = "true"
    if parquet.statistics is not None:
        for path in _leaves(schema):
            found[f"write.parquet.stats-enabled.column.{path}"] = str(parquet.statistics).lower()
    for name in (*layout.keys, *layout.z_order_by, *layout.looked_up_by):
        if name in schema.names:  # by default the first hundred columns have bounds
            found[f"write.metadata.metrics.column.{name}"] = "truncate(16)"
    if layout.target_file_size is not None:
        found["write.target-file-size-bytes"] = str(layout.target_file_size)
    return {**found, **layout.options}


def _leaves(schema: StructType) -> Iterator[str]:
    for f in schema.fields:
        yield from _leaves_of(f.dataType, f.name)


def _leaves_of(data_type: DataType, path: str) -> Iterator[str]:
    if isinstance(data_type, StructType):
        for f in data_type.fields:
            yield from _leaves_of(f.dataType, f"{path}.{f.name}")
    elif isinstance(data_type, ArrayType):
        yield from _leaves_of(data_type.elementType, f"{path}.element")
    elif isinstance(data_type, MapType):
        yield from _leaves_of(data_type.keyType, f"{path}.key")
        yield from _leaves_of(data_type.valueType, f"{path}.value")
    else:
        yield path


# --- partitions


def partitions(schema: StructType, partition_by: Sequence[str]) -> list[PartitionField]:
    """What `partition_by` says: columns, and expressions such as `date(ts)` or `bucket(8, id)`."""
    found = [_partition(text) for text in partition_by]
    for partition in found:
        if partition.column not in schema.names:
            raise UsageError(
                Code.INVALID_VALUE,
                f"partition_by: no column '{partition.column}'",
                hint=did_you_mean(partition.column, schema.names),
            )
    return found


def _partition(text: str) -> PartitionField:
    called = TRANSFORM.match(text)
    if called is None:
        return PartitionField("identity", text)
    name, arguments = called[1].lower(), [argument.strip() for argument in called[2].split(",")]
    transform = _TRANSFORMS.get(name)
    if transform is None:
        raise UsageError(
            Code.INVALID_VALUE,
            f"partition_by: Iceberg has no expression '{name}'",
            hint=did_you_mean(name, _TRANSFORMS),
        )
    widths = [argument for argument in arguments if argument.isdigit()]
    columns = [argument.strip("`") for argument in arguments if not argument.isdigit()]
    sized = transform in ("bucket", "truncate")
    if len(columns) != 1 or len(widths) != int(sized):
        form = f"{name}(8, column)" if sized else f"{name}(column)"
        raise UsageError(Code.INVALID_VALUE, f"partition_by: '{text}' should be {form}")
    return PartitionField(transform, columns[0], int(widths[0]) if sized else None)


def java_spec(jvm: Any, java_schema: Any, wanted: Sequence[PartitionField]) -> Any:
    """A new table's partition spec."""
    builder = jvm.org.apache.iceberg.PartitionSpec.builderFor(java_schema)
    for partition in wanted:
        getattr(builder, partition.transform)(*partition.arguments)
    return builder.build()


def respec(jvm: Any, update: Any, metadata: Metadata, wanted: Sequence[PartitionField]) -> None:
    """Turn the present spec into another: what both have stays as it is."""
    names = {f["id"]: f["name"] for f in metadata.fields(None)}
    present = {_partition(shown_field(f, names)): f["name"] for f in metadata.spec() if f["transform"] != "void"}
    kept = set(wanted)
    for partition, field in present.items():
        if partition not in kept:
            update.removeField(field)
    expressions = jvm.org.apache.iceberg.expressions.Expressions
    for partition in wanted:
        if partition not in present and partition.transform == "identity":
            update.addField(partition.column)
        elif partition not in present:
            update.addField(getattr(expressions, partition.transform)(*partition.arguments))
