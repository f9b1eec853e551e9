"""Protobuf: by the schema that each record names in its registry, or by one message of a file. Spark 3.5 has no reader
of its own for it, so the bytes go through Python, as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from headwater.core.errors import Code, UsageError
from headwater.core.extras import require_extra
from headwater.schema.merge import widened
from headwater.schema.types import covers
from headwater.sources.decoders.base import DECODE, EVENT, PROBLEM, RAW, SCHEMA, Decoder
from headwater.sources.decoders.typed import PROBLEM_TYPE, conform
from headwater.sources.kafka.proto import Files, file_set, file_set_of
from headwater.sources.kafka.protobuf import (
    MessageType,
    json_of,
    message_at,
    message_class,
    reader_of,
)
from headwater.sources.kafka.registry import Schema, SchemaRegistry
from headwater.sources.kafka.wire_format import HEAD, message_head
from headwater.spark.arrow_types import arrow_type_of

_MESSAGE = "_headwater_message"
_MAIN = "main.proto"
Batches = Iterable[pa.RecordBatch]


class ProtobufDecoder(Decoder):
    """Which messages there are is learned when a new id, or another message of a known one, shows up."""

    def __init__(self, registry: SchemaRegistry | None, fixed: MessageType | None = None) -> None:
        self._registry = registry
        self._fixed = fixed
        self._files: dict[int, Files | str] = {}
        self._types: dict[bytes, StructType] = {}
        """By the head of the records."""

    @staticmethod
    def of_file(path: Path, content: bytes, message: str) -> ProtobufDecoder:
        try:
            fixed = MessageType(file_set_of(path, content), message)
            message_class(fixed)
        except (ValueError, KeyError, TypeError, OSError, _decode_error()) as error:
            raise UsageError(Code.INVALID_VALUE, f"{path.name} has no usable message '{message}': {error}") from error
        return ProtobufDecoder(None, fixed)

    @property
    def inferred(self) -> int:
        return len(self._types)

    def detect(self, records: DataFrame) -> StructType:
        if self._fixed is not None:
            return self._fixed.type
        found: DataType = StructType()
        for head in self._learn(records, F.col(RAW)):
            found = widened(found, self._types.get(head, StructType()))
        assert isinstance(found, StructType)
        return found

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        wanted: DataType = self._fixed.type if self._fixed is not None else StructType()
        for one in self._types.values():
            wanted = widened(wanted, one)
        assert isinstance(wanted, StructType)
        shipped = wanted if wanted.fields else StructType([StructField("nothing", StringType())])
        decoded = self._mapped(records, RAW, _MESSAGE, PROBLEM, shipped)
        cast_failures: list[Column] = []
        event = conform(F.col(_MESSAGE), shipped, schema, "", cast_failures)
        told = F.coalesce(F.col(PROBLEM), *cast_failures) if cast_failures else F.col(PROBLEM)
        columns = [F.col(name) for name in records.columns]
        there = F.when(F.col(_MESSAGE).isNotNull(), event).cast(schema)
        return decoded.select(*columns, there.alias(EVENT), told.alias(PROBLEM))

    def unknown(self, schema: StructType) -> Column | None:
        if self._fixed is not None:
            return None if covers(schema, self._fixed.type) else F.lit(True)
        return _is_new(F.col(RAW), [head for head, one in self._types.items() if covers(schema, one)])

    # --- keys

    def learn_keys(self, records: DataFrame, column: str) -> None:
        if self._fixed is None:
            self._learn(records, F.col(column))

    def new_key(self, column: str) -> Column:
        return F.lit(False) if self._fixed is not None else _is_new(F.col(column), list(self._types))

    def with_key_texts(self, records: DataFrame, column: str, text: str, why: str) -> DataFrame:
        """Keys as JSON."""
        rest = [name for name in records.columns if name != text]
        found = self._mapped(records.select(*rest), column, text, why, StringType())
        return found.select(*records.columns, why)

    # --- inside

    def _learn(self, records: DataFrame, raw: Column) -> list[bytes]:
        heads = records.select(message_head(raw).alias("head")).where("head IS NOT NULL").distinct().collect()
        found = sorted(bytes(row.head) for row in heads)
        assert self._registry is not None
        self._registry.learn({int.from_bytes(head[1:HEAD], "big") for head in found})
        for head in found:
            files = self._file_sets.get(int.from_bytes(head[1:HEAD], "big"))
            if head not in self._types and isinstance(files, bytes):
                try:
                    _, indexes, _ = unframed_message(head)
                    self._types[head] = message_at(files, indexes).type
                except ValueError:
                    continue  # the records themselves say what is wrong with them
        return found

    @property
    def _file_sets(self) -> dict[int, Files | str]:
        """The files of each known id, or why it has none."""
        if self._registry is not None:
            for id, schema in self._registry.known.items():
                if id not in self._files:
                    self._files[id] = _files_of(schema)
        return self._files

    def _mapped(self, records: DataFrame, column: str, into: str, why: str, wanted: DataType) -> DataFrame:
        """The records with what a column's bytes hold and, where they hold nothing, why."""
        fields = [*records.schema.fields, StructField(into, wanted), StructField(why, PROBLEM_TYPE)]
        address = "" if self._registry is None else self._registry.address
        work = _work(column, into, why, wanted, self._fixed, dict(self._file_sets), address)
        return records.mapInArrow(work, StructType(fields))


def unframed_message(raw: bytes) -> tuple[int, tuple[int, ...], bytes]:
    """The schema's id, the message's indexes in it, and the body."""
    if len(raw) <= HEAD or raw[0] != 0:
        raise ValueError("no registry framing: the first byte is not 0")
    at = HEAD

    def number() -> int:
        nonlocal at
        shift = found = 0
        while True:
            if at >= len(raw):
                raise ValueError("the registry framing ends in the middle")
            byte = raw[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)

    count = number()
    indexes = tuple(number() for _ in range(count)) or (0,)
    return int.from_bytes(raw[1:HEAD], "big"), indexes, raw[at:]


def _is_new(raw: Column, known: list[bytes]) -> Column:
    head = message_head(raw)
    return head.isNotNull() & ~head.isin(known) if known else head.isNotNull()


def _files_of(schema: Schema) -> Files | str:
    if schema.kind != "PROTOBUF":
        return f"it is {schema.kind} and not Protobuf"
    try:
        return file_set([*schema.references, (_MAIN, schema.text)])
    except ValueError as error:
        return str(error)


def _work(
    column: str,
    into: str,
    why: str,
    wanted: DataType,
    fixed: MessageType | None,
    files: dict[int, Files | str],
    address: str,
) -> Callable[[Batches], Batches]:
    """What Spark's Python workers do with their batches."""

    def found(raw: bytes) -> tuple[MessageType, bytes]:
        if fixed is not None:
            return fixed, raw
        id, indexes, body = unframed_message(raw)
        known = files.get(id)
        if known is None:
            raise ValueError(f"schema id {id} is not in the registry {address}")
        if isinstance(known, str):
            raise ValueError(f"schema id {id} can't be used: {known}")
        return message_at(known, indexes), body

    def work(batches: Batches) -> Batches:
        readers: dict[MessageType, Any] = {}

        def value(message: MessageType, body: bytes, cast_failures: list[str]) -> Any:
            if not isinstance(wanted, StructType):
                return json_of(message, body)
            if message not in readers:
                readers[message] = reader_of(message, wanted)
            return readers[message](body, cast_failures)

        broken = (ValueError, TypeError, KeyError, _decode_error())
        for batch in batches:
            values: list[Any] = []
            problems: list[dict[str, str] | None] = []
            for raw in batch.column(batch.schema.get_field_index(column)).to_pylist():
                cast_failures: list[str] = []
                one, told = None, None
                if raw is not None:
                    try:
                        message, body = found(raw)
                        one = value(message, body, cast_failures)
                    except broken as error:
                        told = {"reason": DECODE, "message": str(error)}
                values.append(one)
                problems.append({"reason": SCHEMA, "message": cast_failures[0]} if cast_failures else told)
            arrays = [
                *batch.columns,
                pa.array(values, arrow_type_of(wanted)),
                pa.array(problems, arrow_type_of(PROBLEM_TYPE)),
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, into, why])

    return work


def _decode_error() -> type[Exception]:
    error: type[Exception] = require_extra("kafka", "google.protobuf.message").DecodeError
    return error
