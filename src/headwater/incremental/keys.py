"""The keys that a change touches, and how they narrow a scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headwater.core.quotes import backticked
from headwater.formats.key_filter import PLAIN, KeyFilter, ranges
from headwater.spark.arrow_bridge import local_frame, lying
from headwater.spark.arrow_types import arrow_schema_of
from headwater.spark.frames import column

FEW = 10_000
"""Up to so many keys are known here, and narrow a scan so that files can be pruned."""
LISTED = 100
"""Up to so many are sent one by one. Of more a scan is told the ranges in which they lie: planning a list of thousands
takes longer than reading what it would have spared."""
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_EXACT = (IntegralType, StringType, DateType, DecimalType, BooleanType)


@dataclass(frozen=True)
class KeySet:
    """Rows that have one of these keys in their `columns`; NULL is a key like any other."""

    columns: tuple[str, ...]
    frame: DataFrame
    """One row a key, in columns of the same names."""
    few: tuple[tuple[Any, ...], ...] | None = None
    """The keys themselves, if they are few and of types that can be written as literals; instants as microseconds."""

    def key_filter(self, names: Mapping[str, str]) -> KeyFilter | None:
        """What is to be looked up in a source that has these columns by other names; None where the keys are many."""
        if not self.few:
            return None
        values = {names[name]: tuple(key[at] for key in self.few) for at, name in enumerate(self.columns)}
        return KeyFilter(values, tuple(dict.fromkeys(names.values())))

    def under(self, names: Mapping[str, str]) -> KeySet | None:
        """The keys by other names; those of the columns that have one. None if none has."""
        kept = list({names[name]: name for name in reversed(self.columns) if name in names}.values())[::-1]
        if not kept:
            return None
        frame = self.frame.select(*(column(name).alias(names[name]) for name in kept))
        few = self.few
        if len(kept) < len(self.columns):
            frame = frame.distinct()
            if few is not None:
                at = [self.columns.index(name) for name in kept]
                few = tuple(dict.fromkeys(tuple(key[index] for index in at) for key in few))
        return KeySet(tuple(names[name] for name in kept), frame, few)

    def fitting(self, types: Mapping[str, DataType]) -> KeySet:
        """The keys whose whole numbers fit into other types, in these: a column of such a type has no others."""
        if not types:
            return self
        fits, values, few = F.lit(True), [], self.few
        for at, name in enumerate(self.columns):
            value = column(name)
            if name in types:
                low, high = _limits(types[name])
                fits = fits & (value.isNull() | value.between(low, high))
                value = value.cast(types[name]).alias(name)
                few = None if few is None else tuple(k for k in few if k[at] is None or low <= k[at] <= high)
            values.append(value)
        return KeySet(self.columns, self.frame.where(fits).select(*values), few)


def keys_of(frames: Sequence[tuple[DataFrame, Sequence[str]]], names: Sequence[str]) -> KeySet:
    """The distinct keys of some frames, each with its own columns for them."""
    known = _lying_keys(frames, names)
    if known is not None:
        return known
    found: DataFrame | None = None
    for df, columns in frames:
        one = df.select(*(column(have).alias(name) for have, name in zip(columns, names, strict=True)))
        found = one if found is None else found.union(one)
    assert found is not None
    distinct = found.distinct()
    types = [field.dataType for field in distinct.schema.fields]
    if not all(_is_literal(one) for one in types):
        return KeySet(tuple(names), distinct)
    asked = [as_literal(column(name), one) for name, one in zip(names, types, strict=True)]
    rows = distinct.select(*asked).limit(FEW + 1).collect()
    if len(rows) > FEW:
        return KeySet(tuple(names), distinct)
    few = tuple(dict.fromkeys(tuple(row) for row in rows))
    return KeySet(tuple(names), _local(distinct.sparkSession, distinct.schema, few), few)


def _lying_keys(frames: Sequence[tuple[DataFrame, Sequence[str]]], names: Sequence[str]) -> KeySet | None:
    """The keys of frames whose rows are known here, without asking Spark."""
    found: dict[tuple[Any, ...], None] = {}
    fields: list[StructField] | None = None
    for df, columns in frames:
        rows = lying(df)
        types = [df.schema[name].dataType for name in columns]
        made = [StructField(name, one) for name, one in zip(names, types, strict=True)]
        same = fields is None or fields == made
        if rows is None or not same or not all(isinstance(one, (*_EXACT, TimestampType)) for one in types):
            return None
        fields = made
        arrays = [rows[name] for name in columns]
        lists = [(_micros(one) if pa.types.is_timestamp(one.type) else one).to_pylist() for one in arrays]
        found |= dict.fromkeys(zip(*lists, strict=True))
    if fields is None or len(found) > FEW:
        return None
    few = tuple(found)
    return KeySet(tuple(names), _local(frames[0][0].sparkSession, StructType(fields), few), few)


def _micros(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    return instants.cast(pa.timestamp("us", instants.type.tz)).cast(pa.int64())


def narrowed(df: DataFrame, keys: KeySet) -> DataFrame:
    """Exactly the rows that have one of the keys."""
    if keys.few is not None:
        for at, name in enumerate(keys.columns):
            df = df.where(_among(name, df.schema[name].dataType, [key[at] for key in keys.few]))
        if len(keys.columns) == 1 and len(keys.few) <= LISTED:
            return df
    return having(df, keys)


def having(df: DataFrame, keys: KeySet) -> DataFrame:
    """The same by a join alone: nothing is said to the scan."""
    wanted = keys.frame.select(*(column(name).alias(f"{name}#key") for name in keys.columns))
    same = [column(name).eqNullSafe(column(f"{name}#key")) for name in keys.columns]
    return df.join(F.broadcast(wanted) if keys.few is not None else wanted, _all(same), "left_semi")


def _local(spark: SparkSession, types: StructType, few: Sequence[tuple[Any, ...]]) -> DataFrame:
    """The keys as a frame that lies in the JVM: what they were computed from is not computed again."""
    fields = [StructField(f.name, LongType() if _is_instant(f.dataType) else f.dataType) for f in types.fields]
    schema = arrow_schema_of(StructType(fields))
    arrays = [pa.array([key[at] for key in few], field.type) for at, field in enumerate(schema)]
    made = local_frame(spark, pa.table(arrays, schema=schema))
    if not any(_is_instant(f.dataType) for f in types.fields):
        return made
    return made.select(*(_from_literal(column(f.name), f.dataType).alias(f.name) for f in types.fields))


def is_wider(data_type: DataType, than: DataType) -> bool:
    """Whether both are whole numbers, and the one holds all that the other does."""
    sizes = [_BITS.get(type(one)) for one in (than, data_type)]
    return sizes[0] is not None and sizes[1] is not None and sizes[0] < sizes[1]


def _limits(data_type: DataType) -> tuple[int, int]:
    half: int = 2 ** (_BITS[type(data_type)] - 1)
    return -half, half - 1


def _is_instant(data_type: DataType) -> bool:
    return isinstance(data_type, (TimestampType, TimestampNTZType))


def _is_literal(data_type: DataType) -> bool:
    return _is_instant(data_type) or isinstance(data_type, _EXACT)


def as_literal(value: Column, data_type: DataType) -> Column:
    """Instants travel as microseconds: a datetime of Python's has a zone of its own."""
    if _is_instant(data_type):
        return F.unix_micros(value.cast("timestamp"))
    return value


def _from_literal(value: Column, data_type: DataType) -> Column:
    if _is_instant(data_type):
        return F.timestamp_micros(value).cast(data_type)
    return value


def _among(name: str, data_type: DataType, few: Sequence[Any]) -> Column:
    """Whether a column is one of some values, or, of many, lies in one of their ranges: files are pruned by it.

    One text for all of them: literals one by one take longer to send than the query to run.
    """
    given = list(dict.fromkeys(one for one in few if one is not None))
    value = backticked(name)
    conditions = [f"{value} IS NULL"] if any(one is None for one in few) else []

    def between(first: Any, last: Any) -> str:
        return f"{value} >= {literal(first, data_type)} AND {value} <= {literal(last, data_type)}"

    if len(given) > LISTED:
        conditions += [f"({between(first, last)})" for first, last in ranges(given)]
    elif given:
        among = ", ".join(literal(one, data_type) for one in given)
        conditions.append(f"({between(min(given), max(given))} AND {value} IN ({among}))")
    return F.expr(" OR ".join(conditions) or "FALSE")


def literal(value: Any, data_type: DataType) -> str:
    """A value as SQL has it, of exactly this type."""
    if isinstance(data_type, StringType):
        if PLAIN.fullmatch(value):
            return f"'{value}'"
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if _is_instant(data_type):
        return f"CAST(timestamp_micros({value}L) AS {data_type.simpleString()})"
    if isinstance(data_type, DateType):
        return f"DATE'{value.isoformat()}'"
    if isinstance(data_type, BooleanType):
        return "TRUE" if value else "FALSE"
    if isinstance(data_type, DecimalType):
        return f"CAST('{value:f}' AS {data_type.simpleString()})"
    return f"CAST({value}L AS {data_type.simpleString()})"


def _all(conditions: Sequence[Column]) -> Column:
    found = conditions[0]
    for one in conditions[1:]:
        found = found & one
    return found
