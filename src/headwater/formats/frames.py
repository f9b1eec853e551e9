"""DataFrame and schema helpers that every format's Spark side shares."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, DecimalType, MapType, StructField, StructType

from headwater.errors import Code, Problem, ProjectError, TerminalError, did_you_mean
from headwater.formats.merging import STORED_ROW, Merging
from headwater.model import DELETED, WEIGHT
from headwater.spec import Layout

if TYPE_CHECKING:
    from headwater.formats.base import Address, Format

TRANSFORM = re.compile(r"^\s*(\w+)\s*\((.*)\)\s*$")


def quoted(name: str) -> str:
    """A column or table name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """A top-level column by its exact name, dots and spaces included."""
    return F.col(quoted(name))


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


def signed(df: DataFrame, weight: int) -> DataFrame:
    return df.withColumn(WEIGHT, F.lit(weight))


def diff(old: DataFrame, new: DataFrame) -> DataFrame:
    """Signed changes as the difference of two states: exact in any format, and reads both whole."""
    columns = [column(name) for name in new.columns]
    old = _with_columns_of(old, new).select(*columns)
    new = new.select(*columns)
    if has_map(new.schema):
        # Spark can't compare maps. Both states as they are sum up to the same, at the cost of more rows.
        return signed(new, 1).unionByName(signed(old, -1))
    return signed(new.exceptAll(old), 1).unionByName(signed(old.exceptAll(new), -1))


def has_map(data_type: DataType) -> bool:
    """Whether there is a map in it, at any depth."""
    if isinstance(data_type, StructType):
        return any(has_map(f.dataType) for f in data_type.fields)
    if isinstance(data_type, ArrayType):
        return has_map(data_type.elementType)
    return isinstance(data_type, MapType)


def _with_columns_of(old: DataFrame, new: DataFrame) -> DataFrame:
    missing = [f for f in new.schema.fields if f.name not in old.columns]
    for f in missing:
        old = old.withColumn(f.name, F.lit(None).cast(f.dataType))
    return old


# --- schemas


@dataclass(frozen=True)
class AddColumn:
    """A column to add; `parent` is the path of the struct it goes into."""

    parent: tuple[str, ...]
    field: StructField


@dataclass(frozen=True)
class Retype:
    """A column whose type differs."""

    path: tuple[str, ...]
    old: DataType
    new: DataType


def schema_changes(old: StructType, new: StructType) -> Iterator[AddColumn | Retype]:
    """What leads from `old` to `new`: columns to add and types that differ. Nothing is ever dropped."""
    yield from _struct_changes(old, new, ())


def _struct_changes(old: StructType, new: StructType, at: tuple[str, ...]) -> Iterator[AddColumn | Retype]:
    known = {f.name: f for f in old.fields}
    for f in new.fields:
        if f.name not in known:
            yield AddColumn(at, f)
        else:
            yield from _type_changes(known[f.name].dataType, f.dataType, (*at, f.name))


def _type_changes(old: DataType, new: DataType, at: tuple[str, ...]) -> Iterator[AddColumn | Retype]:
    if isinstance(old, StructType) and isinstance(new, StructType):
        yield from _struct_changes(old, new, at)
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        yield from _type_changes(old.elementType, new.elementType, (*at, "element"))
    elif isinstance(old, MapType) and isinstance(new, MapType):
        yield from _type_changes(old.keyType, new.keyType, (*at, "key"))
        yield from _type_changes(old.valueType, new.valueType, (*at, "value"))
    elif old.simpleString() != new.simpleString():
        yield Retype(at, old, new)


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
    from headwater.formats.base import Capability

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


# --- writing


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Session settings for one read or write; put back afterwards. A flow's session is used by that flow alone."""
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


@contextmanager
def temp_view(df: DataFrame) -> Iterator[str]:
    """A name for `df` in its session's SQL, for one statement."""
    name = f"headwater_{uuid.uuid4().hex}"
    df.createTempView(name)
    try:
        yield name
    finally:
        df.sparkSession.catalog.dropTempView(name)


def merge_sql(target: str, source: str, columns: Sequence[str], keys: Sequence[str], known: Merging) -> str:
    """MERGE of rows by key, with deletes by `_deleted`."""
    # Equality that knows NULL is two conditions to a join.
    equals = "=" if known.no_nulls else "<=>"
    on = [f"{STORED_ROW}.{quoted(k)} {equals} s.{quoted(k)}" for k in keys]
    on += [f"({known.among})"] if known.among else []
    newer = f" AND ({_comes_after(known.newer_by)})" if known.newer_by else ""
    values = [c for c in columns if c not in keys]
    update = ", ".join(f"{STORED_ROW}.{quoted(c)} = s.{quoted(c)}" for c in values or keys)
    names = ", ".join(quoted(c) for c in columns)
    inserted = ", ".join(f"s.{quoted(c)}" for c in columns)
    # Every clause is a case that is looked at for each row of each file that is written anew.
    delete = f"WHEN MATCHED AND s.{DELETED}{newer} THEN DELETE " if known.deletes else ""
    there = f" AND NOT s.{DELETED}" if known.deletes else ""
    return (
        f"MERGE INTO {target} {STORED_ROW} USING {source} s ON {' AND '.join(on)} {delete}"
        f"WHEN MATCHED{newer} THEN UPDATE SET {update} "
        f"WHEN NOT MATCHED{there} THEN INSERT ({names}) VALUES ({inserted})"
    )


def _comes_after(columns: Sequence[str]) -> str:
    """Whether a new row does by the first of the columns, or by the next where it has the same value; NULL is first."""
    new, stored = (f"{of}.{quoted(columns[0])}" for of in ("s", STORED_ROW))
    after = f"{new} > {stored} OR ({stored} IS NULL AND {new} IS NOT NULL)"
    return f"{after} OR ({new} <=> {stored} AND ({_comes_after(columns[1:])}))" if len(columns) > 1 else after


def to_ddl(spark: SparkSession, schema: StructType) -> str:
    """The schema as the columns of a CREATE TABLE, every name quoted."""
    java_type: Any = spark._jsparkSession.parseDataType(schema.json())
    return str(java_type.toDDL())


def type_sql(data_type: DataType) -> str:
    """A type as SQL takes it, nested names quoted."""
    if isinstance(data_type, StructType):
        inner = ", ".join(f"{quoted(f.name)}: {type_sql(f.dataType)}" for f in data_type.fields)
        return f"STRUCT<{inner}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{type_sql(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
    return data_type.simpleString().upper()


def path_sql(path: Sequence[str]) -> str:
    """A nested column's path as ALTER TABLE takes it."""
    return ".".join(quoted(part) for part in path)


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame's rows, computed once."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()
