"""How a table's schema may change, and what a layout asks of a format."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DecimalType, StructType

from headwater.core.errors import Code, Problem, ProjectError, TerminalError, did_you_mean
from headwater.core.model import DELETED
from headwater.core.spec import Layout
from headwater.formats.base import Address, Capability, Format
from headwater.schema.changes import Retype
from headwater.spark.frames import column

TRANSFORM = re.compile(r"^\s*(\w+)\s*\((.*)\)\s*$")


def aligned(df: DataFrame, schema: StructType, address: Address, *, deletes: bool = False) -> DataFrame:
    """The columns of `schema` in its order, missing ones as NULL; an unknown one is an error."""
    given = {name: name for name in df.columns}
    extra = [name for name in df.columns if name not in schema.names and not (deletes and name == DELETED)]
    if extra:
        raise TerminalError(
            Code.SCHEMA_MISMATCH,
            f"{address} has no column {', '.join(map(repr, extra))}",
            hint=did_you_mean(extra[0], schema.names) + " (evolve the table first)",
        )
    columns = [
        (column(f.name) if f.name in given else F.lit(None)).cast(f.dataType).alias(f.name) for f in schema.fields
    ]
    if deletes:
        flag = F.coalesce(column(DELETED), F.lit(False)) if DELETED in given else F.lit(False)
        columns.append(flag.cast(BooleanType()).alias(DELETED))
    return df.select(*columns)


def can_widen(format: Format, old: DataType, new: DataType) -> bool:
    """Whether the format changes a column of type `old` to `new` in place."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        grows = new.scale == old.scale and new.precision > old.precision
        return grows and ("decimal", "decimal") in format.widenings
    return (old.simpleString(), new.simpleString()) in format.widenings


def cannot_retype(format: Format, address: Address, change: Retype) -> TerminalError:
    name = ".".join(change.path)
    pairs = ", ".join(f"{a}→{b}" for a, b in sorted(format.widenings)) or "none"
    return TerminalError(
        Code.SCHEMA_MISMATCH,
        f"column '{name}' of {address} is {change.old.simpleString()} and can't become "
        f"{change.new.simpleString()} in place",
        hint=f"{format.title} widens {pairs}; otherwise rebuild the table with the new type",
    )


def check_layout(format: Format, schema: StructType, layout: Layout) -> None:
    """Refuse, by name and all at once, what the format or the schema can't give."""
    problems: list[Problem] = []

    def need(capability: Capability, wanted: bool) -> None:
        if wanted and not format.can(capability):
            problems.append(Problem(Code.UNSUPPORTED, format.refusal(capability)))

    def known(what: str, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in schema.names:
                hint = did_you_mean(name, schema.names)
                problems.append(Problem(Code.INVALID_VALUE, f"{what}: no column '{name}'", hint=hint))

    plain = tuple(p for p in layout.partition_by if not TRANSFORM.match(p))
    need(Capability.PARTITION, bool(layout.partition_by))
    need(Capability.PARTITION_TRANSFORMS, len(plain) < len(layout.partition_by))
    need(Capability.UPSERT, bool(layout.keys))
    need(Capability.CLUSTER, bool(layout.z_order_by))
    need(Capability.TARGET_FILE_SIZE, layout.target_file_size is not None)
    need(Capability.ROW_GROUP_SIZE, layout.parquet.row_group_size is not None)
    need(Capability.DICTIONARY, layout.parquet.dictionary is not None)
    need(Capability.BLOOM_FILTER, bool(layout.parquet.bloom_filter))
    need(Capability.STATISTICS, layout.parquet.statistics is False)
    codec = layout.parquet.compression
    if codec is not None and codec not in format.codecs:
        message = f"{format.title} can't write Parquet with '{codec}' compression"
        problems.append(Problem(Code.UNSUPPORTED, message, hint=f"it has {', '.join(sorted(format.codecs))}"))
    known("partition_by", plain)
    known("z_order_by", layout.z_order_by)
    known("keys", layout.keys)
    known("parquet.bloom_filter", layout.parquet.bloom_filter)
    if problems:
        raise ProjectError(problems)
