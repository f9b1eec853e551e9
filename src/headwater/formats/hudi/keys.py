"""Record keys: one text a row, which must tell all keys apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from headwater.core.errors import Code, Problem, ProjectError, TerminalError
from headwater.core.spec import Layout
from headwater.formats.base import Address
from headwater.formats.hudi.names import NO_VALUE, stored_name
from headwater.spark.frames import column

RECORD_KEY = "_headwater_key"
"""A column alongside the users' that holds the record key, where Hudi's own would not tell all keys apart."""

_KEY_TYPES = (
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DecimalType,
    StringType,
    DateType,
    TimestampType,
)
_REFUSED = "headwater refuses this key"


def check_keys(schema: StructType, keys: Sequence[str]) -> None:
    """Refuse key columns whose text would not tell two values apart."""
    problems = [
        Problem(
            Code.UNSUPPORTED,
            f"keys: Apache Hudi can't take '{key}' of type {schema[key].dataType.simpleString()} as a key",
            hint="use a string, an integer, a decimal, a boolean, a date or a timestamp",
        )
        for key in keys
        if not isinstance(schema[key].dataType, _KEY_TYPES)
    ]
    if problems:
        raise ProjectError(problems)


def record_key(schema: StructType, keys: Sequence[str]) -> str | None:
    """The column that Hudi takes for the record key.

    Hudi joins several columns to `a:1,b:2`, whatever is in them, and cuts timestamps to milliseconds.
    """
    if not keys:
        return None
    exact = len(keys) == 1 and not isinstance(schema[keys[0]].dataType, TimestampType)
    return stored_name(keys[0]) if exact else RECORD_KEY


def record_key_values(schema: StructType, keys: Sequence[str]) -> Column:
    """The content of that column: the key's values as JSON."""
    values = [
        F.unix_micros(column(key)) if isinstance(schema[key].dataType, TimestampType) else column(key) for key in keys
    ]
    return F.to_json(F.struct(*(value.alias(str(i)) for i, value in enumerate(values))))


def with_checked_keys(df: DataFrame, schema: StructType, layout: Layout) -> DataFrame:
    """The same rows; one whose key is NULL, or empty where that is taken for NULL, stops the write."""
    keys = layout.keys
    if not keys:
        return df
    first = keys[0]
    wrong = reduce(_either, (_wrong(key, schema[key].dataType, layout) for key in keys))
    shown = F.concat_ws(", ", *(F.coalesce(column(key).cast("string"), F.lit("NULL")) for key in keys))
    stop = F.raise_error(F.concat(F.lit(f"{_REFUSED}: ("), shown, F.lit(")")))
    checked = F.when(wrong, stop.cast(schema[first].dataType)).otherwise(column(first))
    return df.withColumn(first, checked)


def _wrong(key: str, data_type: DataType, layout: Layout) -> Column:
    value = column(key)
    if isinstance(data_type, StringType) and (len(layout.keys) == 1 or key in layout.partition_by):
        return value.isNull() | value.isin("", NO_VALUE)
    return value.isNull()


def _either(one: Column, other: Column) -> Column:
    return one | other


@contextmanager
def refused_keys(address: Address, keys: Sequence[str]) -> Iterator[None]:
    """Turn the stop of a write into an error that names the key."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        line = next((line for line in str(error).splitlines() if _REFUSED in line), None)
        if line is None:
            raise
        shown = line[line.index(_REFUSED) + len(_REFUSED) + 1 :].strip()
        raise TerminalError(
            Code.SCHEMA_MISMATCH,
            f"a row for {address} has the key {shown} in ({', '.join(keys)}), which Apache Hudi can't hold",
            hint="a key is never NULL, and never empty if it is the only one or names the partition",
        ) from error
