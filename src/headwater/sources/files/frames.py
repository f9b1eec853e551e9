"""Frames of records from lists of files, one function for each way of reading them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headwater.core.quotes import backticked
from headwater.core.storage import Files
from headwater.sources.decoders.base import DECODE, EVENT, HEAD, POSITION, PROBLEM, RAW, SIZE
from headwater.sources.decoders.typed import PROBLEM_TYPE
from headwater.sources.files.log import InputFile
from headwater.sources.files.paths import is_plain, shown
from headwater.sources.files.pieces.blocks import LargeBlock
from headwater.sources.files.pieces.splitter import FileSplitter, Splitter
from headwater.spark.internals import java_session

FILE = "_file_path"
"""Not `_file`: Iceberg keeps that name, and `_partition`, `_pos`, `_deleted`, `_spec_id`, for itself."""
MODIFIED = "_file_modified"
BINARY = StructType(
    [
        StructField("path", StringType()),
        StructField("modified", TimestampType()),
        StructField("length", LongType()),
        StructField("content", BinaryType()),
    ]
)
"""The event of a file that is taken as it is."""
EXTRAS = StructType([StructField(FILE, StringType()), StructField(MODIFIED, TimestampType())])

_FILES = "file string, modified timestamp"
_SPLIT = f"{_FILES}, number bigint, raw binary, size bigint"
_BEGINNINGS = StructType(
    [
        StructField(RAW, BinaryType()),
        StructField(POSITION, StringType()),
        *EXTRAS.fields,
        StructField(SIZE, LongType()),
    ]
)
_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""The row as JSON keeps microseconds."""
_OPEN_COST = 4 << 20
_ADDRESS = re.compile("^[A-Za-z0-9+.-]+:(//[^/]*)?")
"""What stands before the path in an address."""
_AS_NAMED = {
    "__globPaths__": "false",
    # Hadoop's other file system for local files looks for checksums alongside them, under names that it can't make.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""For the reader: paths are names and no patterns, and any character may stand in them."""


@dataclass(frozen=True)
class BatchLocation:
    """Where the files of one batch lie, and how they are named in positions."""

    spark: SparkSession
    files: Files
    batch: int

    def load(
        self, taken: Sequence[InputFile], format: str, chosen: Callable[[DataFrame], DataFrame], **options: str
    ) -> DataFrame:
        """What is `chosen` of what Spark reads in these files; those with unusual names are read in a way of their
        own."""
        reader = self.spark.read.format(format).options(recursiveFileLookup="true", **options)
        plain = [self.files.spark_pattern(file.path) for file in taken if self._is_plain(file)]
        unusual = [self.files.spark_uri(file.path) for file in taken if not self._is_plain(file)]
        frames = [chosen(reader.load(plain))] if plain else []
        if unusual:
            frames.append(chosen(reader.options(**_AS_NAMED).load(unusual)))
        return reduce(DataFrame.unionByName, frames)

    def _is_plain(self, file: InputFile) -> bool:
        return is_plain(self.files.inside(file.path))

    def prefix(self) -> Column:
        return F.lit(f"{self.batch:012d}/")

    def position(self, file: InputFile) -> str:
        """Of a record that is a whole file."""
        return f"{self.batch:012d}/{shown(file.path)}#"

    def file(self) -> Column:
        """The path below the root, of a frame that has `_metadata`."""
        root = posixpath.normpath(_ADDRESS.sub("", self.files.spark_uri()))
        start = len(root.rstrip("/")) + 2
        encoded = F.regexp_replace(F.col("_metadata.file_path"), _ADDRESS.pattern, "")
        path = F.url_decode(F.replace(encoded, F.lit("+"), F.lit("%2B")))
        return F.substring(path, start, 1 << 30)

    def columns(self, number: Column) -> list[Column]:
        file = self.file()
        position = F.concat(self.prefix(), file, F.lit("#"), number).alias(POSITION)
        return [position, file.alias(FILE), F.col("_metadata.file_modification_time").alias(MODIFIED)]


def block_size(spark: SparkSession, taken: Sequence[InputFile]) -> int:
    """How large the blocks are that Spark would read these files in, by its own rule."""
    conf = java_session(spark).sessionState().conf()
    size = sum(file.bytes + _OPEN_COST for file in taken)
    return int(min(conf.filesMaxPartitionBytes(), max(_OPEN_COST, size // spark.sparkContext.defaultParallelism)))


def pin_blocks(spark: SparkSession, size: int) -> None:
    """Files fall into the same blocks, and blocks into the same tasks, whatever machine reads them."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(size))
    spark.conf.set("spark.sql.files.openCostInBytes", str(_OPEN_COST))
    spark.conf.set("spark.sql.files.minPartitionNum", "1")


def lines(
    place: BatchLocation,
    taken: Sequence[InputFile],
    *,
    separator: str = "",
    header: str | None = None,
    comment: str = "",
    blank: bool = False,
) -> DataFrame:
    """A record a line; a header is put before each, and lines that repeat it are left out."""
    options = {"lineSep": separator} if separator else {}
    line = F.col("value")
    # Numbered before any of them is left out.
    rows = place.load(taken, "text", lambda read: read.select(line, *place.columns(_in_task())), **options)
    if not blank:
        rows = rows.where(F.length(F.trim(line)) > 0)
    if comment:
        rows = rows.where(~line.startswith(comment))
    raw = line
    if header is not None:
        rows = rows.where(line != header)
        raw = F.concat(F.lit(f"{header}\n"), line)
    return rows.select(raw.cast("binary").alias(RAW), POSITION, FILE, MODIFIED)


def whole(place: BatchLocation, taken: Sequence[InputFile], splitter: Splitter) -> DataFrame:
    """Records that Python finds in files which Spark can't split; SIZE of those that are too large."""
    # To the millisecond, as Spark tells the time of a change.
    rows = [(file.path, _instant(file.modified // 1000 * 1000)) for file in taken]
    files = place.spark.createDataFrame(rows, _FILES)
    split = files.mapInArrow(FileSplitter(splitter, place.files).split, _SPLIT)  # type: ignore[arg-type]
    number = F.lpad(F.col("number").cast("string"), 12, "0")
    position = F.concat(place.prefix(), F.col("file"), F.lit("#"), number)
    return split.select(
        F.col("raw").alias(RAW),
        position.alias(POSITION),
        F.col("file").alias(FILE),
        F.col("modified").alias(MODIFIED),
        F.col("size").alias(SIZE),
    )


def typed(
    place: BatchLocation,
    taken: Sequence[InputFile],
    format: str,
    options: Mapping[str, str],
    nanoseconds: Sequence[str],
) -> DataFrame:
    """Rows of files that all have one schema: the event, and the row as JSON."""
    row = F.lpad(F.col("_metadata.row_index").cast("string"), 12, "0") if format == "parquet" else _in_task()

    def chosen(read: DataFrame) -> DataFrame:
        values = [_value(f, f.name in nanoseconds).alias(f.name) for f in read.schema.fields]
        event = F.struct(*values) if values else F.struct()
        return read.select(event.alias(EVENT), *place.columns(row)).select(
            F.to_json(EVENT, _JSON).cast("binary").alias(RAW), EVENT, POSITION, FILE, MODIFIED
        )

    return place.load(taken, format, chosen, **options)


def binary(place: BatchLocation, taken: Sequence[InputFile], limit: int) -> DataFrame:
    """A row a file. Spark passes over empty ones, so that theirs are made here, as are those of too large ones."""
    full, empty = [file for file in taken if 0 < file.bytes <= limit], [file for file in taken if not file.bytes]
    large = [file for file in taken if file.bytes > limit]
    frames = [_contents(place, full)] if full else []
    if large:
        frames.append(_beginnings(place, large))
    if empty or not frames:
        schema = StructType([*BINARY.fields, StructField(POSITION, StringType())])
        rows = [(shown(file.path), _instant(file.modified), 0, bytearray(), place.position(file)) for file in empty]
        given = place.spark.createDataFrame(rows, schema).select(F.struct(*BINARY.names).alias(EVENT), POSITION)
        columns = (F.col(f"{EVENT}.content").alias(RAW), EVENT, POSITION)
        frames.append(
            given.select(*columns, F.col(f"{EVENT}.path").alias(FILE), F.col(f"{EVENT}.modified").alias(MODIFIED))
        )
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _beginnings(place: BatchLocation, taken: Sequence[InputFile]) -> DataFrame:
    """Of files that are too large to be records."""
    rows = []
    for file in taken:
        with place.files.reading(file.path) as opened:
            head = bytearray(opened.read(HEAD))
        rows.append((head, place.position(file), file.path, _instant(file.modified), file.bytes))
    return place.spark.createDataFrame(rows, _BEGINNINGS).withColumn(EVENT, F.lit(None).cast(BINARY))


def large_blocks(place: BatchLocation, found: Sequence[tuple[InputFile, LargeBlock]]) -> DataFrame:
    """A record for each file with a block or page that is too large to be read, by where that begins."""
    rows = [
        (
            bytearray(block.content.head),
            f"{place.position(file)}{block.place:012d}",
            file.path,
            _instant(file.modified),
            block.content.size,
        )
        for file, block in found
    ]
    return place.spark.createDataFrame(rows, _BEGINNINGS)


def _contents(place: BatchLocation, taken: Sequence[InputFile]) -> DataFrame:
    columns = [F.col("content"), F.col("length"), *place.columns(F.lit(""))]
    found = place.load(taken, "binaryFile", lambda read: read.select(*columns))
    event = F.struct(F.col(FILE).alias("path"), F.col(MODIFIED).alias("modified"), "length", "content")
    return found.select(F.col("content").alias(RAW), event.alias(EVENT), POSITION, FILE, MODIFIED)


def unreadable(place: BatchLocation, problems: Mapping[InputFile, str]) -> DataFrame:
    """A record without bytes for each file that can't be read."""
    rows = [
        (bytearray(), place.position(file), shown(file.path), _instant(file.modified), (DECODE, cause))
        for file, cause in problems.items()
    ]
    fields = [StructField(RAW, BinaryType()), StructField(POSITION, StringType()), *EXTRAS.fields]
    return place.spark.createDataFrame(rows, StructType([*fields, StructField(PROBLEM, PROBLEM_TYPE)]))


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """One frame of several; a column of the event that has types which can't be joined becomes text."""
    if len(frames) == 1:
        return frames[0]
    if not any(EVENT in frame.columns for frame in frames):
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    types: dict[str, set[str]] = {}
    for frame in frames:
        for f in _event_fields(frame):
            types.setdefault(f.name, set()).add("nested" if _is_nested(f.dataType) else "plain")
    mixed = {name for name, kinds in types.items() if len(kinds) > 1}
    apart = [_apart(frame, mixed) for frame in frames]
    joined = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), apart)
    names = [name for name in joined.columns if name.startswith(_PART)]
    values = [F.col(backticked(name)).alias(name.removeprefix(_PART)) for name in names]
    event = F.when(F.col(_HAS_EVENT), F.struct(*values)).alias(EVENT)
    return joined.select(*[c for c in joined.columns if c not in names and c != _HAS_EVENT], event)


_PART = "_headwater_part_"
_HAS_EVENT = "_headwater_has_event"


def _apart(frame: DataFrame, mixed: set[str]) -> DataFrame:
    """The event's fields as columns: a union finds a common type for columns, not for fields of a struct."""
    rest = [c for c in frame.columns if c != EVENT]
    if EVENT not in frame.columns:
        return frame.select(*rest, F.lit(False).alias(_HAS_EVENT))
    parts = []
    for f in _event_fields(frame):
        value = F.col(EVENT).getField(f.name)
        if f.name in mixed:
            value = F.to_json(value, _JSON) if _is_nested(f.dataType) else value.cast(StringType())
        parts.append(value.alias(f"{_PART}{f.name}"))
    return frame.select(*rest, F.lit(True).alias(_HAS_EVENT), *parts)


def _event_fields(frame: DataFrame) -> list[StructField]:
    if EVENT not in frame.columns:
        return []
    event = frame.schema[EVENT].dataType
    assert isinstance(event, StructType)
    return event.fields


def _in_task() -> Column:
    """Block and number in the task that reads it; the same whenever the blocks are (`pin_blocks`)."""
    block = F.lpad(F.col("_metadata.file_block_start").cast("string"), 12, "0")
    number = F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)
    return F.concat(block, F.lit("+"), F.lpad(number.cast("string"), 10, "0"))


def _value(field: StructField, in_nanoseconds: bool) -> Column:
    """Times without a zone are taken as UTC, and nanoseconds are cut to microseconds: Spark has nothing finer."""
    value = F.col(backticked(field.name))
    if in_nanoseconds and isinstance(field.dataType, LongType):
        name = backticked(field.name)
        return F.timestamp_micros(F.expr(f"({name} - pmod({name}, 1000)) div 1000"))
    zoned = _zoned(field.dataType)
    return value if zoned == field.dataType else value.cast(zoned)


def _zoned(one: DataType) -> DataType:
    if isinstance(one, TimestampNTZType):
        return TimestampType()
    if isinstance(one, StructType):
        return StructType([StructField(f.name, _zoned(f.dataType), f.nullable) for f in one.fields])
    if isinstance(one, ArrayType):
        return ArrayType(_zoned(one.elementType), one.containsNull)
    if isinstance(one, MapType):
        return MapType(_zoned(one.keyType), _zoned(one.valueType), one.valueContainsNull)
    return one


def _is_nested(one: DataType) -> bool:
    return isinstance(one, (ArrayType, MapType, StructType))


def _instant(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)
