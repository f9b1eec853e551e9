"""Reads a batch of files in the way that their format asks for."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.storage import Files
from headwater.sources.decoders.base import EVENT, POSITION, RAW, SIZE, Decoder
from headwater.sources.decoders.csv import DEFAULTS, CsvDecoder
from headwater.sources.decoders.json import TYPED_ROWS, JsonDecoder
from headwater.sources.decoders.typed import TypedDecoder
from headwater.sources.files import frames
from headwater.sources.files import headers as peeking
from headwater.sources.files import unreadable as probing
from headwater.sources.files.config import FilesSource
from headwater.sources.files.decoders import BinaryDecoder, FileDecoder, LineDecoder
from headwater.sources.files.frames import FILE, MODIFIED, BatchLocation
from headwater.sources.files.headers import Peek
from headwater.sources.files.log import FileBatch, InputFile
from headwater.sources.files.options import UTF8, decoding
from headwater.sources.files.partitions import Partitions
from headwater.sources.files.pieces.compression import may_exceed
from headwater.sources.files.pieces.lengths import LONG, line_lengths
from headwater.sources.files.pieces.splitter import Splitter

ONLY_IN_PYTHON = (".zst", ".lz4")
"""Hadoop's own codecs for these need native libraries, which Spark's packages lack or write in another framing."""

_FOOTERS: dict[str, Callable[[Files, InputFile, int], Peek]] = {
    "parquet": peeking.parquet_schema,
    "orc": peeking.orc_schema,
    "avro": peeking.avro_schema,
}
_NANOSECONDS = "spark.sql.legacy.parquet.nanosAsLong"


class BatchReader:
    """One source's way of reading."""

    def __init__(self, spec: FilesSource, spark: SparkSession, files: Files, flow: str) -> None:
        self._spec = spec
        self._spark = spark
        self._files = files
        self.partitions = Partitions()
        self._headers: set[str] = set()
        self._lengths: dict[InputFile, Peek] = {}
        """What is known of the lines of the files that were read last."""
        self._decoding = decoding(spec.file_format, spec.options)
        self._splitter = splitter_of(spec)
        self.decoder: Decoder = FileDecoder(self._decoder(from_raw=False), self.partitions, spec.file_format, flow)
        self.raw_decoder: Decoder = FileDecoder(self._decoder(from_raw=True), self.partitions, spec.file_format, flow)

    def learn(self, paths: Iterable[str]) -> None:
        """Names and types in the paths of all files so far."""
        if self._spec.partition_columns:
            for path in paths:
                self.partitions.learn(path)

    def read(self, number: int, batch: FileBatch) -> tuple[DataFrame, dict[str, str]]:
        """The records of a batch, with one for each file that can't be read; and these files with the cause."""
        frames.pin_blocks(self._spark, batch.block)
        place = BatchLocation(self._spark, self._files, number)
        sound = [file for file in batch.files if file.path not in batch.problems]
        problems = {file: batch.problems[file.path] for file in batch.files if file.path in batch.problems}
        self._headers.clear()
        parts, broken = self._parts(place, sound)
        problems |= {file: f"the file can't be read: {cause}" for file, cause in broken.items()}
        if problems or not parts:
            parts.append(frames.unreadable(place, problems))
        records = frames.together(parts)
        if self._spec.file_format in _FOOTERS and EVENT not in records.columns:
            records = records.withColumn(EVENT, F.lit(None).cast(StructType()))
        records = records if self._spec.file_columns else records.drop(FILE, MODIFIED)
        return records, {file.path: cause for file, cause in problems.items()}

    def unreadable(self, number: int, batch: FileBatch, taken: Sequence[InputFile]) -> dict[InputFile, str]:
        """Which of a batch's files Spark can't read, with the cause."""
        frames.pin_blocks(self._spark, batch.block)
        place = BatchLocation(self._spark, self._files, number)

        def read(some: Sequence[InputFile]) -> DataFrame:
            return frames.together(self._parts(place, some)[0] or [frames.unreadable(place, {})])

        return probing.unreadable(taken, read)

    def with_large_records(self, number: int, batch: FileBatch, taken: Sequence[InputFile]) -> set[str]:
        """Those of a batch's files that have a record of which only the beginning is kept."""
        suspects = tuple(file for file in taken if self._may_be_large(file))
        if not suspects:
            return set()
        records, _ = self.read(number, FileBatch(suspects, batch.block))
        large = F.octet_length(RAW) > self._spec.max_record_size
        if SIZE in records.columns:
            large |= F.col(SIZE).isNotNull()
        positions = records.where(large).select(F.regexp_extract(POSITION, "^[^/]*/((?s).*)#[^#]*$", 1)).distinct()
        return {row[0] for row in positions.collect()}

    # --- inside

    def _may_be_large(self, file: InputFile) -> bool:
        """Whether it may have such a record, by its size."""
        if self._spec.file_format in _FOOTERS:
            return True
        # A character of another encoding has up to four bytes in UTF-8.
        size = file.bytes if self._splitter.encoding == UTF8 else 4 * file.bytes
        name = "" if self._spec.file_format == "binary" else file.path
        return may_exceed(name, size, self._spec.max_record_size)

    def _decoder(self, from_raw: bool) -> Decoder:
        match self._spec.file_format:
            case "json":
                return JsonDecoder(self._decoding)
            case "csv":
                if not self._splitter.header:
                    return CsvDecoder(self._decoding, self._declared_names())
                return CsvDecoder(self._decoding, headed=True, headers=None if from_raw else lambda: self._headers)
            case "text":
                return LineDecoder()
            case "binary":
                return BinaryDecoder()
            case _:
                return JsonDecoder(TYPED_ROWS) if from_raw else TypedDecoder()

    def _declared_names(self) -> list[str] | None:
        ddl = self._spec.schema_
        return None if ddl is None else self._spark.createDataFrame([], ddl).schema.names

    def _parts(self, place: BatchLocation, taken: Sequence[InputFile]) -> tuple[list[DataFrame], dict[InputFile, str]]:
        """The frames of these files, and the files that are known to be broken without reading them."""
        format = self._spec.file_format
        if format == "binary":
            return ([frames.binary(place, taken, self._spec.max_record_size)] if taken else []), {}
        full = [file for file in taken if file.bytes > 0]
        if format in _FOOTERS:
            return self._typed(place, full)
        return self._lines(place, full)

    def _lines(self, place: BatchLocation, taken: Sequence[InputFile]) -> tuple[list[DataFrame], dict[InputFile, str]]:
        headers = {"": list(taken)}
        broken: dict[InputFile, str] = {}
        is_headed = self._spec.file_format == "csv" and self._splitter.header
        if is_headed:
            peeks = peeking.peek(self._files, taken, peeking.csv_header(self._splitter))
            headers, broken = _grouped(taken, peeks)
            headers.pop("", None)  # nothing but blank lines
            self._headers.update(headers)
        in_python = {file for file in taken if self._splitter.in_python or file.path.endswith(ONLY_IN_PYTHON)}
        if self._splitter.kind == "json" and self._splitter.multi_line is None:
            unknown = [file for file in taken if file not in in_python]
            peeks = peeking.peek(self._files, unknown, peeking.json_layout)
            broken |= {file: cause for file in unknown if (cause := peeks[file.path].cause) is not None}
            in_python |= {file for file in unknown if peeks[file.path].says == peeking.SPANNING}
        long, unpacked_badly = self._with_long_lines([one for one in taken if one not in {*in_python, *broken}])
        in_python |= long
        broken |= unpacked_badly
        parts = []
        for header, files in headers.items():
            whole = [file for file in files if file in in_python and file not in broken]
            by_line = [file for file in files if file not in in_python and file not in broken]
            if whole:
                parts.append(frames.whole(place, whole, self._splitter))
            if by_line:
                line = frames.lines(
                    place,
                    by_line,
                    separator=self._splitter.separator,
                    header=header if is_headed else None,
                    comment=self._splitter.comment,
                    blank=self._spec.file_format == "text",
                )
                parts.append(line)
        return parts, broken

    def _with_long_lines(self, taken: Sequence[InputFile]) -> tuple[set[InputFile], dict[InputFile, str]]:
        """Files with a line that is too large for a record: Spark would hold all of it. And those that can't be
        unpacked."""
        limit = self._spec.max_record_size
        suspects = [file for file in taken if may_exceed(file.path, file.bytes, limit)]
        unknown = [file for file in suspects if file not in self._lengths]
        if unknown:
            look = line_lengths(self._splitter.separator, limit)
            peeks = peeking.peek(self._files, unknown, look)
            self._lengths = {file: peeks.get(file.path) or self._lengths[file] for file in suspects}
        found = {file: self._lengths[file] for file in suspects}
        broken = {file: one.cause for file, one in found.items() if one.cause is not None}
        return {file for file, one in found.items() if one.says == LONG}, broken

    def _typed(self, place: BatchLocation, taken: Sequence[InputFile]) -> tuple[list[DataFrame], dict[InputFile, str]]:
        format = self._spec.file_format
        look, limit = _FOOTERS[format], self._spec.max_record_size
        peeks = peeking.peek(self._files, taken, lambda files, file: look(files, file, limit))
        groups, broken = _grouped([file for file in taken if peeks[file.path].large is None], peeks)
        large = [(file, block) for file in taken if (block := peeks[file.path].large) is not None]
        if any(one.nanoseconds for one in peeks.values()):
            self._spark.conf.set(_NANOSECONDS, "true")
        if peeking.have_twins(peeks.values()):
            # Only so can they be told apart; the topic's own columns have other names.
            self._spark.conf.set("spark.sql.caseSensitive", "true")
        parts = [frames.large_blocks(place, large)] if large else []
        for files in groups.values():
            nanoseconds = peeks[files[0].path].nanoseconds
            try:
                parts.append(frames.typed(place, files, format, self._decoding, nanoseconds))
            except AnalysisException as error:
                if error.getErrorClass() == "PATH_NOT_FOUND":
                    raise
                broken |= dict.fromkeys(files, probing.root_cause(error))
        return parts, broken


def splitter_of(spec: FilesSource) -> Splitter:
    """How a source's files fall into records."""
    csv = {name: spec.option(name, default) for name, default in DEFAULTS.items()}
    return Splitter(
        "json" if spec.file_format == "json" else "csv" if spec.file_format == "csv" else "text",
        multi_line=_multi_line(spec),
        header=spec.is_on("header", True),
        comment=spec.option("comment"),
        separator=spec.option("lineSep"),
        whole=spec.is_on("wholetext"),
        encoding=codecs.lookup(spec.option("encoding", UTF8)).name,
        loose=any(name.startswith("allow") and spec.is_on(name) for name in spec.reader_options),
        comments=spec.is_on("allowComments"),
        single_quotes=spec.is_on("allowSingleQuotes"),
        limit=spec.max_record_size,
        **csv,
    )


def _multi_line(spec: FilesSource) -> bool | None:
    """As the option says; without it a JSON file tells by how it begins, unless its lines end in a way of their own."""
    by_itself = spec.file_format == "json" and not spec.option("multiLine") and not spec.option("lineSep")
    return None if by_itself else spec.is_on("multiLine")


def _grouped(
    taken: Sequence[InputFile], peeks: dict[str, Peek]
) -> tuple[dict[str, list[InputFile]], dict[InputFile, str]]:
    """Files that say the same of themselves, and those that are broken."""
    groups: dict[str, list[InputFile]] = {}
    broken: dict[InputFile, str] = {}
    for file in taken:
        found = peeks[file.path]
        if found.cause is not None:
            broken[file] = found.cause
        else:
            groups.setdefault(found.says, []).append(file)
    return groups, broken
