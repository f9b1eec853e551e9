"""From events to a topic's rows by the project's mappers, in one pass over the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from headwater.core.errors import Code, Problem, ProjectError, UsageError
from headwater.core.spec import Topic
from headwater.ingest.code.batches import MAPPER, REASON, ROW, Rows
from headwater.ingest.code.event import HIDDEN
from headwater.ingest.code.functions import empty, expressions, types_of
from headwater.ingest.code.shipment import packed_as
from headwater.ingest.columns import EVENT_DATE, SOURCE, STANDARD
from headwater.project.decorators import Registered
from headwater.project.signatures import Mode, Signature, code_location, mappers_of, signature_of
from headwater.schema.arrow import arrow_type
from headwater.schema.cast import conformed
from headwater.schema.merge import exact_type
from headwater.schema.types import nullable, parse_ddl, without_untyped
from headwater.sources.decoders.base import EVENT, POSITION, PROBLEM, RAW
from headwater.sources.decoders.typed import PROBLEM_TYPE, problem
from headwater.spark.frames import column

EVENT_TYPE = "event_type"


@dataclass(frozen=True)
class _Made:
    """What one mapper makes: types by column, and the expressions where it works by them."""

    function: Registered
    mode: Mode
    types: StructType
    columns: Mapping[str, Column]


class TopicMapping:
    """The mappers of a topic, as one transformation of its records."""

    def __init__(self, topic: Topic, made: Sequence[_Made], schema: StructType) -> None:
        self._topic = topic
        self._made = made
        self.schema = schema
        """The columns of the rows that the mappers make together."""

    def apply(self, df: DataFrame) -> DataFrame:
        """Adds `_row`, a struct of exactly `schema`; where a mapper raises, or there is none, a problem instead."""
        if EVENT_TYPE not in df.columns and all(one.function.events for one in self._made) and _has_payload(df):
            raise _no_event_type(self._topic)
        numbered = df.withColumn(MAPPER, self._number(df))
        in_python = {number: one for number, one in enumerate(self._made) if one.mode is not Mode.COLUMN}
        if in_python:
            numbered = self._by_python(numbered, in_python)
        else:
            numbered = numbered.withColumn(ROW, F.lit(None).cast(self.schema))
        row = self._by_columns().otherwise(column(ROW)) if len(in_python) < len(self._made) else column(ROW)
        return numbered.select(
            *[column(name) for name in df.columns if name != PROBLEM],
            F.coalesce(column(PROBLEM), self._unmapped(df)).cast(PROBLEM_TYPE).alias(PROBLEM),
            row.alias(ROW),
        )

    def _number(self, df: DataFrame) -> Column:
        """Which mapper a record is for: by its type, else the default; NULL where it has a problem already."""
        number: Column = F.lit(None).cast(IntegerType())
        for index, one in enumerate(self._made):
            if not one.function.events:
                number = F.lit(index)
        if EVENT_TYPE in df.columns:
            for index, one in enumerate(self._made):
                if one.function.events:
                    number = F.when(column(EVENT_TYPE).isin(*one.function.events), F.lit(index)).otherwise(number)
        return F.when(column(PROBLEM).isNull(), number).cast(IntegerType())

    def _by_python(self, df: DataFrame, in_python: Mapping[int, _Made]) -> DataFrame:
        packed = {
            number: packed_as(one.function, one.mode, arrow_type(one.types.jsonValue()))
            for number, one in in_python.items()
        }
        schema = StructType([*df.schema.fields, StructField(ROW, self.schema)])
        rows = Rows(packed, arrow_type(self.schema.jsonValue()), HIDDEN | {MAPPER})
        return df.mapInArrow(rows, nullable(schema))

    def _by_columns(self) -> Column:
        cases: Column | None = None
        for number, one in enumerate(self._made):
            if one.mode is not Mode.COLUMN:
                continue
            fields = [
                conformed(one.columns[f.name], one.types[f.name].dataType, f.dataType)
                if f.name in one.columns
                else F.lit(None).cast(f.dataType)
                for f in self.schema.fields
            ]
            row = F.struct(*[value.alias(f.name) for value, f in zip(fields, self.schema.fields, strict=True)])
            condition = column(MAPPER) == number
            cases = F.when(condition, row) if cases is None else cases.when(condition, row)
        assert cases is not None
        return cases

    def _unmapped(self, df: DataFrame) -> Column:
        """Nothing is dropped for want of a mapper."""
        name = F.coalesce(column(EVENT_TYPE), F.lit("an event without a type")) if EVENT_TYPE in df.columns else None
        hint = f"write one, or a default @mapper, in {' or '.join(self._topic.mappers)}; or leave the type out by"
        what = F.concat(F.lit("no mapper for "), F.lit("any event") if name is None else name)
        message = F.concat(what, F.lit(f": {hint} exclude_events"))
        return F.when(column(MAPPER).isNull() & column(PROBLEM).isNull(), problem(REASON, message))


def mapping_for(
    topic: Topic,
    functions: Sequence[Registered],
    spark: SparkSession,
    payload_schema: StructType,
    metadata_columns: StructType | None = None,
) -> TopicMapping | None:
    """The topic's mapping of payloads of this schema (after upcasting); None if it keeps the decoded columns.

    `metadata_columns` are the columns that the source gives alongside `_raw` and `_position`.
    """
    if not topic.mappers:
        return None
    frame = empty(spark, _frame(payload_schema, metadata_columns))
    made = [_made(function, signature_of(function), frame) for function in mappers_of(topic, functions)]
    return TopicMapping(topic, made, _joined(made))


def _frame(payload: StructType, metadata_columns: StructType | None) -> StructType:
    """The frame that a mapper may find: what is known of it before there are records."""
    fields = [StructField(RAW, BinaryType()), StructField(POSITION, StringType()), StructField(SOURCE, StringType())]
    standard = [StructField(name, data_type) for name, (_, data_type) in STANDARD.items()]
    return StructType(
        [*fields, *standard, *(metadata_columns.fields if metadata_columns else []), StructField(EVENT, payload)]
    )


def _made(function: Registered, signature: Signature, frame: DataFrame) -> _Made:
    declared = parse_ddl(frame.sparkSession, signature.schema)
    if signature.mode is not Mode.COLUMN:
        assert declared is not None
        return _Made(function, signature.mode, _allowed(function, declared), {})
    values = {name: value for name, value in expressions(function, frame.schema).items() if value is not None}
    if declared is not None:
        values = _as_declared(function, values, declared)
    data_types = types_of(function, values, frame)
    known = [(name, without_untyped(data_type)) for name, data_type in data_types.items()]
    types = StructType([StructField(name, data_type) for name, data_type in known if data_type is not None])
    columns = {name: conformed(values[name], data_types[name], types[name].dataType) for name in types.names}
    return _Made(function, signature.mode, _allowed(function, types), columns)


def _as_declared(function: Registered, values: Mapping[str, Column], declared: StructType) -> dict[str, Column]:
    undeclared = [name for name in values if name not in declared.names]
    if undeclared:
        message = f"mapper '{function.name}' gives '{undeclared[0]}', which is not in its schema"
        raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function), hint="declare it")
    return {f.name: values.get(f.name, F.lit(None)).cast(f.dataType) for f in declared.fields}


def _allowed(function: Registered, types: StructType) -> StructType:
    for name in types.names:
        if name.startswith("_") or name == EVENT_DATE:
            message = f"mapper '{function.name}' gives '{name}', which is a column of the topic's own"
            raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function), hint="give it another name")
    return types


def _joined(made: Sequence[_Made]) -> StructType:
    """The columns of all mappers, by name; two that disagree on a type are refused."""
    types: dict[str, tuple[DataType, Registered]] = {}
    problems: list[Problem] = []
    for one in made:
        for f in one.types.fields:
            known, first = types.get(f.name, (f.dataType, one.function))
            both = exact_type(known, f.dataType)
            if both is None:
                problems.append(_disagreement(f, one.function, known, first))
                continue
            types[f.name] = (both, first)
    spelt: dict[str, str] = {}
    for name, (_, function) in types.items():
        if spelt.setdefault(name.lower(), name) != name:
            message = f"mapper '{function.name}' gives '{name}', and there is '{spelt[name.lower()]}' already"
            problems.append(
                Problem(Code.INVALID_FUNCTION, message, code_location(function), "names differ in more than case")
            )
    if problems:
        raise ProjectError(problems)
    return StructType([StructField(name, data_type) for name, (data_type, _) in types.items()])


def _disagreement(field: StructField, function: Registered, known: DataType, first: Registered) -> Problem:
    message = (
        f"mapper '{function.name}' gives '{field.name}' as {field.dataType.simpleString()}, "
        f"and mapper '{first.name}' ({code_location(first)}) as {known.simpleString()}"
    )
    hint = "cast one of them, declare a schema, or give it another name"
    return Problem(Code.INVALID_FUNCTION, message, code_location(function), hint)


def _no_event_type(topic: Topic) -> UsageError:
    return UsageError(
        Code.INVALID_VALUE,
        f"topics.{topic.name} has mappers by event type, and its records have no event_type",
        where=topic.where,
        hint="say where it comes from (`columns: {type: kind}` on the source), or write a default @mapper",
    )


def _has_payload(df: DataFrame) -> bool:
    payload = df.schema[EVENT].dataType
    return isinstance(payload, StructType) and bool(payload.fields)
