"""Reference tables: small, loaded from a file or by hand, each key once."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import PurePosixPath
from typing import NoReturn

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
import pyarrow.parquet as arrow_parquet
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType, StructField, StructType

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.sources.decoders.typed import conform
from headwater.spark.arrow_bridge import local_frame
from headwater.spark.frames import column

ENDINGS = (".csv", ".json", ".ndjson", ".jsonl", ".parquet")
_NO_NUMBER = re.compile(r"[+-]?0[\dxX].*|\s.*|.*\s|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.DOTALL)
"""What Arrow would take for a number, and is none: 007, 0x10, one with blanks around it, NaN."""
_LONG_NUMBER = re.compile(r"[+-]?\d{19,}")
_LARGEST = 2**63 - 1
_LINE = "_hw_line"


def loaded(
    spark: SparkSession,
    name: str,
    content: bytes,
    keys: Sequence[str],
    declared: StructType | None = None,
    where: Where | None = None,
) -> DataFrame:
    """The rows of a file, typed as declared or as its values are; a key that is missing, NULL or there twice is told
    with its line."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in ENDINGS:
        hint = f"the file's name ends in {', '.join(ENDINGS)}"
        raise UsageError(Code.INVALID_VALUE, f"{name} is of no kind that can be loaded", where=where, hint=hint)
    lines = _csv_lines(content, name) if suffix == ".csv" else None
    rows = _parsed(name, lambda: _read(suffix, content, lines, declared is not None), where)
    _check_keys(rows, keys, name, lines)
    frame = local_frame(spark, rows)
    if declared is None:
        return frame
    typed = _typed(frame, declared, name, lines)
    if any(typed.schema[key] != frame.schema[key] for key in keys):  # 7 and 007 are two texts and one number
        check_rows(typed, keys, name)
    return typed


def check_rows(rows: DataFrame, keys: Sequence[str], table: str) -> None:
    """Rows that are inserted: each key once, and none without."""
    missing = [key for key in keys if key not in rows.columns]
    if missing:
        hint = did_you_mean(missing[0], rows.columns)
        raise UsageError(Code.SCHEMA_MISMATCH, f"the rows have no column '{missing[0]}', a key of {table}", hint=hint)
    if not keys:
        return
    no_key = reduce(lambda a, b: a | b, (column(key).isNull() for key in keys))
    if not rows.where(no_key).isEmpty():
        raise UsageError(Code.NULL_KEY, f"a row for {table} has no value for a key ({', '.join(keys)})")
    doubled = rows.groupBy(*map(column, keys)).count().where("count > 1").drop("count").first()
    if doubled is not None:
        raise UsageError(Code.DUPLICATE_KEY, f"several rows for {table} have the key {_shown(doubled.asDict())}")


def fitted(rows: DataFrame, types: StructType, table: str) -> DataFrame:
    """Rows of a statement by the types of a table's columns; a value that is none of its type is told."""
    wanted = {field.name: field.dataType for field in types.fields}
    casts: dict[str, Column] = {}
    cast_failures: dict[str, list[Column]] = {name: [] for name in rows.columns}
    for sent in rows.schema.fields:
        casts[sent.name] = _cast(sent, wanted[sent.name], cast_failures[sent.name])
    changing = [f.name for f in rows.schema.fields if f.dataType != wanted[f.name]]
    try:
        failed = [F.coalesce(*cast_failures[name], F.lit(None)).isNotNull() for name in changing]
        first = (
            rows.where(reduce(lambda a, b: a | b, failed)).select(*failed, *map(column, changing)).first()
            if failed
            else None
        )
    except AnalysisException:
        # One of them has no cast at all: which one is seen one by one.
        for name in changing:
            try:
                rows.select(casts[name])
            except AnalysisException as error:
                have, type_ = rows.schema[name].dataType.simpleString(), wanted[name].simpleString()
                message = f"column '{name}' of {table} is {type_}, and can't be given {have}"
                raise UsageError(Code.SCHEMA_MISMATCH, message) from error
        raise
    if first is not None:
        name, value = next((name, first[len(changing) + at]) for at, name in enumerate(changing) if first[at])
        message = f"{value!r} is no {wanted[name].simpleString()}, which '{name}' of {table} is"
        raise UsageError(Code.SCHEMA_MISMATCH, message, hint="nothing was inserted")
    return rows.select(*(casts[name].alias(name) for name in rows.columns))


def _read(suffix: str, content: bytes, lines: list[_Line] | None, declared: bool) -> pa.Table:
    if suffix == ".parquet":
        return arrow_parquet.read_table(io.BytesIO(content))
    if lines is not None:
        return _csv(content, lines, declared)
    if suffix == ".json" and content.lstrip()[:1] == b"[":
        return pa.Table.from_pylist(json.loads(content, parse_constant=_no_number))
    return arrow_json.read_json(io.BytesIO(content))


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


class _Line:
    """A record of a CSV file and the line it ends on."""

    def __init__(self, number: int, values: list[str]) -> None:
        self.number = number
        self.values = values


def _csv_lines(content: bytes, name: str) -> list[_Line]:
    """The header and the records."""
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        lines = [_Line(reader.line_num, values) for values in reader if values]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(Code.INVALID_VALUE, f"not a CSV file: {error}", where=Where(name)) from error
    if not lines:
        raise UsageError(Code.INVALID_VALUE, "the file is empty: its first line names the columns", where=Where(name))
    header = lines[0].values
    for column_name in header:
        if not column_name or header.count(column_name) > 1:
            message = f"the header has the column '{column_name}' twice" if column_name else "a column has no name"
            raise UsageError(Code.INVALID_VALUE, message, where=Where(name, lines[0].number))
    for line in lines[1:]:
        if len(line.values) != len(header):
            message = f"{len(line.values)} values for {len(header)} columns"
            raise UsageError(Code.INVALID_VALUE, message, where=Where(name, line.number))
    return lines


def _csv(content: bytes, lines: list[_Line], declared: bool) -> pa.Table:
    header = lines[0].values
    text = [name for at, name in enumerate(header) if declared or any(_is_text(line.values[at]) for line in lines[1:])]
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.string() for name in text},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["true", "True", "TRUE"],
        false_values=["false", "False", "FALSE"],
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    plain = content.decode("utf-8-sig").encode()
    rows = arrow_csv.read_csv(io.BytesIO(plain), parse_options=parse, convert_options=convert)
    return rows.cast(pa.schema([_as_kept(field) for field in rows.schema]))


def _is_text(value: str) -> bool:
    """Whether a value makes its column one of texts, whatever Arrow takes it for; an integer that has no place in 64
    bits would become a double."""
    if _LONG_NUMBER.fullmatch(value):
        return abs(int(value)) > _LARGEST
    return _NO_NUMBER.fullmatch(value) is not None


def _as_kept(field: pa.Field) -> pa.Field:
    """Times have microseconds, and nothing is of no type."""
    if pa.types.is_null(field.type):
        return field.with_type(pa.string())
    return field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field


def _parsed(name: str, read: Callable[[], pa.Table], where: Where | None) -> pa.Table:
    try:
        return read()
    except RecursionError as error:
        raise UsageError(Code.INVALID_VALUE, f"{name} can't be read: it is nested too deeply", where=where) from error
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise UsageError(Code.INVALID_VALUE, f"{name} can't be read: {error}", where=where) from error


def _check_keys(rows: pa.Table, keys: Sequence[str], name: str, lines: list[_Line] | None) -> None:
    for key in keys:
        if key not in rows.column_names:
            hint = did_you_mean(key, rows.column_names)
            raise UsageError(Code.INVALID_VALUE, f"no column '{key}', which is a key", where=Where(name, 1), hint=hint)
    if not keys:
        return
    seen: dict[tuple[object, ...], int] = {}
    for at, values in enumerate(zip(*(rows[key].to_pylist() for key in keys), strict=True)):
        where = Where(name, at + 1 if lines is None else lines[at + 1].number)
        if any(value is None for value in values):
            raise UsageError(Code.NULL_KEY, f"no value for the key ({', '.join(keys)})", where=where)
        if values in seen:
            shown = _shown(dict(zip(keys, values, strict=True)))
            raise UsageError(Code.DUPLICATE_KEY, f"{shown} occurs twice, first on line {seen[values]}", where=where)
        seen[values] = where.line or 0


def _typed(frame: DataFrame, declared: StructType, name: str, lines: list[_Line] | None) -> DataFrame:
    """By the declared types; a value that is none of its type is told with its line."""
    unknown = [field for field in frame.columns if field not in declared.names]
    if unknown:
        hint = did_you_mean(unknown[0], declared.names)
        raise UsageError(
            Code.SCHEMA_MISMATCH, f"the declared schema has no column '{unknown[0]}'", where=Where(name, 1), hint=hint
        )
    numbered = frame.coalesce(1).withColumn(_LINE, F.monotonically_increasing_id())
    casts: dict[str, Column] = {}
    for field in (one for one in declared.fields if one.name in frame.columns):
        value = column(field.name)
        cast_failures: list[Column] = []
        casts[field.name] = _cast(frame.schema[field.name], field.dataType, cast_failures)
        failed = numbered.where(F.coalesce(*cast_failures, F.lit(None)).isNotNull())
        first = failed.select(column(_LINE), value).orderBy(_LINE).first() if cast_failures else None
        if first is not None:
            line = first[0] + 1 if lines is None else lines[first[0] + 1].number
            message = f"'{first[1]}' is no {field.dataType.simpleString()}, which '{field.name}' is"
            raise UsageError(Code.SCHEMA_MISMATCH, message, where=Where(name, line))
    return frame.select(*(value.alias(name) for name, value in casts.items()))


def _cast(sent: StructField, wanted: DataType, cast_failures: list[Column]) -> Column:
    """The column under another type; `cast_failures` gets what finds the values that are not exactly of it."""
    value = column(sent.name)
    if isinstance(sent.dataType, NullType):
        return value.cast(wanted)
    return conform(value, sent.dataType, wanted, sent.name, cast_failures).cast(wanted)


def _shown(key: dict[str, object]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in key.items())
