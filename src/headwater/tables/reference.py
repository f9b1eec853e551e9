"""Reference tables: small, loaded from a file or by hand, each key once."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
import pyarrow.parquet as arrow_parquet
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.errors import Code, UsageError, Where, did_you_mean
from headwater.formats.frames import column
from headwater.handover import local_frame

ENDINGS = (".csv", ".json", ".ndjson", ".jsonl", ".parquet")
_LEADING_ZERO = re.compile(r"[+-]?0\d")
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
    return frame if declared is None else _typed(frame, declared, name, lines)


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
    casts = {name: F.expr(_try_cast(name, wanted[name].simpleString())) for name in rows.columns}
    changing = [f.name for f in rows.schema.fields if f.dataType != wanted[f.name]]
    try:
        odd = [column(name).isNotNull() & casts[name].isNull() for name in changing]
        first = (
            rows.where(reduce(lambda a, b: a | b, odd)).select(*odd, *map(column, changing)).first() if odd else None
        )
    except AnalysisException:
        # One of them has no cast at all: which one is seen one by one.
        for name in changing:
            try:
                rows.select(casts[name])
            except AnalysisException as error:
                told, type_ = rows.schema[name].dataType.simpleString(), wanted[name].simpleString()
                message = f"column '{name}' of {table} is {type_}, and can't be given {told}"
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
        return pa.Table.from_pylist(json.loads(content))
    return arrow_json.read_json(io.BytesIO(content))


class _Line:
    """A record of a CSV file and the line it ends on."""

    def __init__(self, number: int, values: list[str]) -> None:
        self.number = number
        self.values = values


def _csv_lines(content: bytes, name: str) -> list[_Line]:
    """The header and the records."""
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        found = [_Line(reader.line_num, values) for values in reader if values]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(Code.INVALID_VALUE, f"not a CSV file: {error}", where=Where(name)) from error
    if not found:
        raise UsageError(Code.INVALID_VALUE, "the file is empty: its first line names the columns", where=Where(name))
    header = found[0].values
    for column_name in header:
        if not column_name or header.count(column_name) > 1:
            message = f"the header has the column '{column_name}' twice" if column_name else "a column has no name"
            raise UsageError(Code.INVALID_VALUE, message, where=Where(name, found[0].number))
    for line in found[1:]:
        if len(line.values) != len(header):
            message = f"{len(line.values)} values for {len(header)} columns"
            raise UsageError(Code.INVALID_VALUE, message, where=Where(name, line.number))
    return found


def _csv(content: bytes, lines: list[_Line], declared: bool) -> pa.Table:
    header = lines[0].values
    # 007 is no number, whatever it looks like.
    text = [
        name
        for at, name in enumerate(header)
        if declared or any(_LEADING_ZERO.match(line.values[at]) for line in lines[1:])
    ]
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.string() for name in text},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    plain = content.decode("utf-8-sig").encode()
    rows = arrow_csv.read_csv(io.BytesIO(plain), parse_options=parse, convert_options=convert)
    return rows.cast(pa.schema([_as_kept(field) for field in rows.schema]))


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
    except (pa.ArrowException, ValueError) as error:
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
            raise UsageError(Code.DUPLICATE_KEY, f"{shown} is there twice, first on line {seen[values]}", where=where)
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
    for field in (one for one in declared.fields if one.name in frame.columns):
        value = column(field.name)
        odd = numbered.where(value.isNotNull() & F.expr(_try_cast(field.name, field.dataType.simpleString())).isNull())
        first = odd.select(column(_LINE), value).orderBy(_LINE).first()
        if first is not None:
            line = first[0] + 1 if lines is None else lines[first[0] + 1].number
            message = f"'{first[1]}' is no {field.dataType.simpleString()}, which '{field.name}' is"
            raise UsageError(Code.SCHEMA_MISMATCH, message, where=Where(name, line))
    there = [field for field in declared.fields if field.name in frame.columns]
    return frame.select(*(column(field.name).cast(field.dataType).alias(field.name) for field in there))


def _try_cast(name: str, type_: str) -> str:
    return f"TRY_CAST(`{name.replace('`', '``')}` AS {type_})"


def _shown(key: dict[str, object]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in key.items())
