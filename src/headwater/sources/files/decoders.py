"""What the files source adds to decoding: lines of text, whole files, values from paths, files that can't be read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headwater.core.model import HINT_MARK
from headwater.sources.decoders.base import CAST_FAILURES, DECODE, EVENT, POSITION, PROBLEM, RAW, SCHEMA, Decoder
from headwater.sources.decoders.cast_failures import texts_of, unless_none, with_more
from headwater.sources.decoders.csv import not_utf8
from headwater.sources.decoders.text_values import parse
from headwater.sources.decoders.typed import PROBLEM_TYPE, TypedDecoder, problem
from headwater.sources.files.endings import PACKED, others
from headwater.sources.files.frames import BINARY
from headwater.sources.files.partitions import Partitions, value_in

TEXT = StructType([StructField("value", StringType())])
_GIVEN = "_headwater_file_problem"
_UNKNOWN = "_headwater_file_unknown"


class LineDecoder(Decoder):
    """A line is a column `value`."""

    def detect(self, records: DataFrame) -> StructType:
        return TEXT

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        event = F.struct(F.col(RAW).cast(StringType()).alias("value"))
        typed = records.withColumn(EVENT, F.when(~not_utf8(F.col(RAW)), event))
        why = F.when(not_utf8(F.col(RAW)), problem(DECODE, "not valid UTF-8"))
        return TypedDecoder().decode(typed.withColumn(PROBLEM, why), schema)


class BinaryDecoder(Decoder):
    """A file is a row. From its bytes alone the time of its last change is not known."""

    def detect(self, records: DataFrame) -> StructType:
        return BINARY

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        if EVENT in records.columns:
            return TypedDecoder().decode(records, schema)
        path = F.regexp_extract(POSITION, r"^\d+/(.*)#[^#]*$", 1) if POSITION in records.columns else F.lit(None)
        values = (path, F.lit(None), F.length(RAW), F.col(RAW))
        fields = [one.cast(f.dataType).alias(f.name) for one, f in zip(values, BINARY.fields, strict=True)]
        return TypedDecoder().decode(records.withColumn(EVENT, F.struct(*fields)), schema)


class FileDecoder(Decoder):
    """Another decoder, with the values from the path, which stands in `_position`.

    A record of a file that could not be read comes with its PROBLEM and is not decoded.
    """

    def __init__(self, inner: Decoder, partitions: Partitions, file_format: str, flow: str) -> None:
        self._inner = inner
        self._partitions = partitions
        self._with_hint = "" if file_format in ("text", "binary") else _with_hints(file_format, flow)
        self.textual = inner.textual

    def detect(self, records: DataFrame) -> StructType:
        found = self._inner.detect(_sound(records))
        added = [f for f in self._partitions.schema.fields if f.name not in found.names]
        return StructType([*found.fields, *added])

    def agreed(self, records: DataFrame, found: StructType) -> tuple[StructType, tuple[str, ...]]:
        return self._inner.agreed(_sound(records), found)

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        given = PROBLEM in records.columns
        inner = records.withColumnRenamed(PROBLEM, _GIVEN) if given else records
        decoded = self._inner.decode(inner, schema)
        unknown = self._inner.unknown(schema)
        if self._names(schema) and unknown is not None:
            # Asked of the event as the record gives it: values from the path would count as the record's.
            decoded = decoded.withColumn(_UNKNOWN, unknown)
        decoded = self._hinted(self._with_values(decoded, schema))
        if not given:
            return decoded
        sound = F.col(_GIVEN).isNull()
        return (
            decoded.withColumn(EVENT, F.when(sound, F.col(EVENT)))
            .withColumn(PROBLEM, F.coalesce(_GIVEN, PROBLEM))
            .drop(_GIVEN)
        )

    def quick(self, records: DataFrame, schema: StructType) -> DataFrame | None:
        if PROBLEM in records.columns or self._partitions.schema.fields:
            return None
        return self._inner.quick(records, schema)

    def beyond(self, schema: StructType, raw: Column) -> Column | None:
        return self._inner.beyond(schema, raw)

    @property
    def width(self) -> Column | None:
        return self._inner.width

    def unknown(self, schema: StructType) -> Column | None:
        found = self._inner.unknown(schema)
        if self._names(schema) and found is not None:
            found = F.col(_UNKNOWN)
        for name in self._partitions.schema.names:
            if name not in schema.names:
                here = value_in(F.col(POSITION), name).isNotNull()
                found = here if found is None else found | here
        return found

    def _hinted(self, decoded: DataFrame) -> DataFrame:
        """What can't be decoded, in a file whose name says that it is of another format: that is told."""
        if POSITION not in decoded.columns or not self._with_hint:
            return decoded
        return decoded.withColumn(PROBLEM, F.expr(self._with_hint).cast(PROBLEM_TYPE))

    def _names(self, schema: StructType) -> list[str]:
        return [name for name in self._partitions.schema.names if name in schema.names]

    def _with_values(self, decoded: DataFrame, schema: StructType) -> DataFrame:
        """What the record itself says comes first."""
        names = self._names(schema)
        if not names or POSITION not in decoded.columns:
            return decoded
        fields, cast_failures = [], {}
        for f in schema.fields:
            value = F.col(EVENT).getField(f.name)
            if f.name in names:
                text = value_in(F.col(POSITION), f.name)
                told = parse(text, f.dataType)
                cast_failures[f.name] = (F.when(value.isNull() & told.isNull(), text), f.dataType.simpleString())
                value = F.coalesce(value, told)
            fields.append(value.alias(f.name))
        event = F.when(F.col(EVENT).isNotNull(), F.struct(*fields))
        why = [
            F.when(text.isNotNull(), problem(SCHEMA, f"{name} in the path does not fit {wanted}"))
            for name, (text, wanted) in cast_failures.items()
        ]
        known = F.col(CAST_FAILURES) if CAST_FAILURES in decoded.columns else F.lit(None)
        texts = with_more(known, texts_of({name: text for name, (text, _) in cast_failures.items()}))
        return (
            decoded.withColumn(PROBLEM, F.coalesce(F.col(PROBLEM), *why).cast(PROBLEM_TYPE))
            .withColumn(CAST_FAILURES, unless_none(texts))
            .withColumn(EVENT, event)
        )


def _with_hints(file_format: str, flow: str) -> str:
    """The problem of a record, in SQL, with what to do where its file is read as what it is not. One expression, made
    once: live steps are small, and to build them takes longer than to run them."""
    topic = flow.partition(".")[2] or flow
    again = f"then `headwater flow rebuild {topic} --yes`"
    hints = {
        ending[1:]: f"{HINT_MARK}set `file_format: {kind}` in its source, {again}"
        for ending, kind in others(file_format).items()
    }
    endings = f"[.]({'|'.join(hints)})([.]({'|'.join(packed[1:] for packed in PACKED)}))?#[^#]*$"
    pairs = ", ".join(f"'{ending}', '{text}'" for ending, text in hints.items())
    found = f"try_element_at(map({pairs}), regexp_extract(lower({POSITION}), '{endings}', 1))"
    told = f"named_struct('reason', {PROBLEM}.reason, 'message', {PROBLEM}.message || coalesce({found}, ''))"
    return f"CASE WHEN {PROBLEM}.reason = '{DECODE}' THEN {told} ELSE {PROBLEM} END"


def _sound(records: DataFrame) -> DataFrame:
    """Those that can be read."""
    if PROBLEM not in records.columns:
        return records
    return records.where(F.col(PROBLEM).isNull() | (F.col(f"{PROBLEM}.reason") != DECODE)).drop(PROBLEM)
