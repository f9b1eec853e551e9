"""From records to rows: decode, select, upcast, map; what can't be ingested carries its problem along."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType, TimestampType

from headwater.core.quotes import backticked
from headwater.core.spec import Topic
from headwater.ingest.code.batches import REASON
from headwater.ingest.columns import (
    CONTEXT,
    EVENT_DATE,
    INGESTED_AT,
    RESCUED,
    ROW,
    SOURCE,
    StandardColumn,
    has_twins,
    payload_columns,
    standard_columns,
    system_fields,
    with_standard_as_text,
)
from headwater.ingest.detection import DEEPEST, TOO_MANY
from headwater.ingest.hints import REQUIRED, UNREADABLE
from headwater.ingest.mappers import TopicMapping, mapping_for
from headwater.ingest.selection import is_only_cast_failure, keeps_without_values, select
from headwater.ingest.upcast import upcast
from headwater.project.decorators import Registered
from headwater.schema.merge import beyond, within
from headwater.sources.base import SourceSpec
from headwater.sources.decoders.base import (
    CAST_FAILURES,
    DECODE,
    EVENT,
    POSITION,
    PROBLEM,
    RAW,
    SCHEMA,
    UNKNOWN,
    Decoder,
)
from headwater.sources.decoders.cast_failures import texts_of, texts_or_none, with_more
from headwater.sources.decoders.typed import PROBLEM_TYPE, problem
from headwater.spark.arrow_bridge import Additions, Selection
from headwater.spark.frames import column

NO_ROOM = f"at most {{}} (`schema.max_columns`), and structs {DEEPEST} deep"


@dataclass(frozen=True)
class Shaped:
    """Rows as the topic has them, alongside PROBLEM, UNKNOWN and RAW."""

    frame: DataFrame
    schema: StructType
    """The topic's columns."""
    quick: bool = False
    """Whoever has a problem is UNKNOWN too."""

    @property
    def is_suspect(self) -> Column:
        """Whether a row is not to be ingested as it is."""
        return F.col(UNKNOWN) if self.quick else F.col(PROBLEM).isNotNull() | F.col(UNKNOWN)

    @property
    def rows(self) -> list[Column]:
        return [column(name) for name in self.schema.names]


@dataclass(frozen=True)
class _Standard:
    """The standard columns of one payload, and what is wrong with those that can't be read."""

    payload: StructType
    columns: list[StandardColumn]
    values: Additions
    problem: Column
    marked: Additions
    """Whether something is wrong, or unknown, and a problem for it until it is known which."""


@dataclass(frozen=True)
class _Finish:
    """The topic's columns for one payload."""

    known: tuple[StructType, tuple[str, ...]]
    schema: StructType
    chosen: Selection


class Pipeline:
    """What a topic makes of its source's records."""

    def __init__(
        self,
        topic: Topic,
        source: SourceSpec,
        metadata_columns: StructType,
        functions: Sequence[Registered],
        required: Sequence[str] = (),
        hidden: StructType | None = None,
    ) -> None:
        """`hidden` are columns of the records that the topic itself does not keep: the decoder needs them, or standard
        columns are made of them."""
        self.topic = topic
        self.metadata_columns = metadata_columns
        self.source = source
        self._mapped = source.event_columns
        self._functions = functions
        self._required = required
        self._hidden = hidden or StructType()
        self._made: tuple[str, TopicMapping | None] | None = None
        self._standard: _Standard | None = None
        self._finish: _Finish | None = None

    @property
    def selects(self) -> bool:
        return bool(self.topic.include_events or self.topic.exclude_events or self.topic.filter)

    @property
    def calls_functions(self) -> bool:
        """Whether a user's function, or a condition of theirs, sees the events."""
        return bool(self._functions) or self.topic.filter is not None

    @property
    def rescues(self) -> bool:
        return self.topic.schema_.new_column == "rescue"

    def shaped(
        self,
        records: DataFrame,
        decoder: Decoder,
        payload: StructType,
        adopted: StructType,
        *,
        watch: bool,
        quick: bool = False,
        stamp: bool = True,
        refused: Mapping[str, str] | None = None,
        full: bool = False,
        rejected: Mapping[str, tuple[str, str]] | None = None,
    ) -> Shaped:
        """Rows of the records, read by what is known of the payload; `watch`: say which may hold more than that.

        `quick`: those with a problem are only said to be UNKNOWN, where the decoder can do that. Without `stamp` the
        time of arrival is left to the caller. `refused` are positions of events that no function is shown, with the
        reason. `full`: there is no room for another column, so that a record that has one can't be ingested.
        """
        asked = with_standard_as_text(payload) if decoder.textual else payload
        if quick and watch and not self.rescues and not self._required:
            decoded = decoder.quick(records, asked)
            if decoded is not None:
                return self._quickly(decoded, asked, stamp)
        df = decoder.decode(records, asked)
        unknown = decoder.unknown(asked) if watch else None
        df = df.withColumn(UNKNOWN, F.lit(False) if unknown is None else F.coalesce(unknown, F.lit(False)))
        if rejected:  # by a reason of their own; that there is no room for what they bring is none
            df = df.withColumn(PROBLEM, F.coalesce(F.col(PROBLEM), _known_of(rejected)))
        if full and unknown is not None:
            exact = decoder.beyond(asked, F.col(RAW))
            more = F.col(UNKNOWN) if exact is None else F.col(UNKNOWN) & exact
            limit = f"{self.topic.schema_.max_columns:,}"
            too_many = problem(TOO_MANY, f"it has columns that the topic has no room for: {NO_ROOM.format(limit)}")
            df = df.withColumn(PROBLEM, F.coalesce(F.col(PROBLEM), F.when(more, too_many)))
        # A filter would be pushed below the decoding, and everything decoded twice; metrics keep it where it is.
        df = df.observe("decoded", F.count(F.lit(1)).alias("records"))
        standard = self._standard_of(df.sparkSession, asked)
        df = standard.values.to(df).withColumn(PROBLEM, standard.problem)
        if refused:
            df = df.withColumn(PROBLEM, F.coalesce(F.col(PROBLEM), _told_of(refused)))
        df = select(df, self.topic, self._functions, asked)
        df = self._with_requirements(df, asked)
        rescued = self._rescued(df, asked, adopted, standard.columns) if self.rescues else None
        if rescued is not None:
            df = df.withColumn(RESCUED, rescued)
        df = self._without_values(df, asked)
        kept = within(asked, adopted)
        if kept != asked:
            df = df.withColumn(EVENT, _part(F.col(EVENT), asked, kept))
        df, lifted = upcast(df, self._functions, kept, self.topic)
        return self._finished(df, lifted, standard.columns, stamp)

    def rejected(self, records: DataFrame, decoder: Decoder, payload: StructType) -> DataFrame:
        """The records that can't be ingested by a schema, with the reason, before any function has seen them."""
        asked = with_standard_as_text(payload) if decoder.textual else payload
        tell_twins_apart(records.sparkSession, asked)
        standard = self._standard_of(records.sparkSession, asked)
        df = standard.values.to(decoder.decode(records, asked)).withColumn(PROBLEM, standard.problem)
        df = self._without_values(self._with_requirements(df, asked), asked)
        return df.where(F.col(PROBLEM).isNotNull()).select(POSITION, f"{PROBLEM}.reason", f"{PROBLEM}.message")

    def _quickly(self, df: DataFrame, asked: StructType, stamp: bool) -> Shaped:
        """The same on the assumption that all is well."""
        if self.selects:
            df = df.observe("decoded", F.count(F.lit(1)).alias("records"))
        if self.selects or self._functions:  # they are shown the payload as a whole
            df = df.withColumn(EVENT, _part(F.col(EVENT), df.schema[EVENT].dataType, asked))
        standard = self._standard_of(df.sparkSession, asked)
        # What is suspect has to come through the selection, whatever can be read of it.
        df = standard.marked.to(standard.values.to(df))
        df = select(df, self.topic, self._functions, asked)
        df, lifted = upcast(df, self._functions, asked, self.topic)
        shaped = self._finished(df, lifted, standard.columns, stamp)
        return replace(shaped, quick=not self._functions)

    def _standard_of(self, spark: SparkSession, payload: StructType) -> _Standard:
        """Made once for a schema; see `JsonDecoder`."""
        if self._standard is None or self._standard.payload != payload:
            others = StructType([*self.metadata_columns.fields, *self._hidden.fields])
            columns = standard_columns(payload, others, self._mapped)
            why = F.col(PROBLEM)
            for one in columns:
                unreadable = f"{one.name}{UNREADABLE}{one.type.simpleString()}"
                why = F.coalesce(why, F.when(one.is_unreadable, problem(SCHEMA, unreadable)))
            values = {**{one.name: one.value for one in columns}, SOURCE: F.lit(self.source.name)}
            suspect = reduce(operator.or_, (one.is_unreadable for one in columns), F.col(UNKNOWN))
            placeholder = F.when(suspect, problem(DECODE, "odd")).cast(PROBLEM_TYPE)
            marked = Additions(spark, {UNKNOWN: suspect, PROBLEM: placeholder})
            self._standard = _Standard(payload, columns, Additions(spark, values), why, marked)
        return self._standard

    def _with_requirements(self, df: DataFrame, payload: StructType) -> DataFrame:
        """Declared columns that must have a value."""
        why = F.col(PROBLEM)
        for name in self._required:
            value = F.col(f"{EVENT}.{backticked(name)}") if name in payload.names else F.lit(None)
            missing = F.col(EVENT).isNotNull() & value.isNull()
            why = F.coalesce(why, F.when(missing, problem(SCHEMA, f"{name} {REQUIRED}")))
        return df.withColumn(PROBLEM, why) if self._required else df

    def _rescued(
        self, df: DataFrame, payload: StructType, adopted: StructType, standard: Sequence[StandardColumn]
    ) -> Column:
        """Unknown fields, and values that do not fit, as JSON."""
        rest = beyond(payload, adopted)
        unknown = F.lit(None).cast(StringType())
        if isinstance(rest, StructType):
            unknown = F.to_json(_part(F.col(EVENT), payload, rest, sparse=True))
        failures = _cast_failures(standard, F.col(CAST_FAILURES) if CAST_FAILURES in df.columns else F.lit(None))
        cast_failures = F.when(F.size(failures) > 0, F.to_json(failures))
        rest_of = cast_failures.substr(F.lit(2), F.length(cast_failures))
        both = F.concat(unknown.substr(F.lit(1), F.length(unknown) - 1), F.lit(","), rest_of)
        return F.coalesce(F.when(unknown.isNotNull() & cast_failures.isNotNull(), both), unknown, cast_failures)

    def _without_values(self, df: DataFrame, payload: StructType) -> DataFrame:
        """Under `discard_value` and `rescue` an event stays without the value that does not fit."""
        if not keeps_without_values(self.topic):
            return df
        only_schema = is_only_cast_failure()
        for name in self._required:
            value = F.col(f"{EVENT}.{backticked(name)}") if name in payload.names else F.lit(None)
            only_schema = only_schema & value.isNotNull()
        return df.withColumn(PROBLEM, F.when(~F.coalesce(only_schema, F.lit(False)), F.col(PROBLEM)))

    def _finished(self, df: DataFrame, payload: StructType, standard: Sequence[StandardColumn], stamp: bool) -> Shaped:
        """The topic's own columns and nothing else, alongside what the commit has to know."""
        if stamp and INGESTED_AT not in df.columns:
            df = df.withColumn(INGESTED_AT, _moment(datetime.now(timezone.utc)))
        mapping = self._mapping(df, payload)
        known = (payload, tuple(df.columns))
        if self._finish is None or self._finish.known != known:
            schema, chosen = self._finish_of(df, payload, standard, mapping)
            self._finish = _Finish(known, schema, Selection(df.sparkSession, chosen))
        frame = df if mapping is None else mapping.apply(df)
        return Shaped(self._finish.chosen.of(frame), self._finish.schema)

    def _finish_of(
        self,
        df: DataFrame,
        payload: StructType,
        standard: Sequence[StandardColumn],
        mapping: TopicMapping | None,
    ) -> tuple[StructType, list[Column]]:
        """The topic's schema, and what makes its columns and those alongside them."""
        names = [one.name for one in standard]
        if "event_version" in df.columns and "event_version" not in names:
            names.append("event_version")
        fields = [StructField(name, df.schema[name].dataType) for name in names]
        values = {name: column(name) for name in names}
        if mapping is None:
            for one in payload_columns(payload, standard, self.metadata_columns.names):
                fields.append(StructField(one.name, one.type))
                values[one.name] = one.value
        else:
            for f in mapping.schema.fields:
                fields = [other for other in fields if other.name != f.name] + [StructField(f.name, f.dataType)]
                values[f.name] = F.col(f"{ROW}.{backticked(f.name)}")
        system = system_fields(self.metadata_columns, rescued=self.rescues, keep_raw=self.topic.keep_raw)
        schema = StructType(fields + [f for f in system if f.name not in values])
        happened = values.get("event_timestamp")
        if happened is not None and not isinstance(schema["event_timestamp"].dataType, TimestampType):
            happened = None
        now = column(INGESTED_AT) if INGESTED_AT in df.columns else F.lit(None).cast(TimestampType())
        values.setdefault(EVENT_DATE, F.to_date(F.coalesce(happened, now) if happened is not None else now))
        values[INGESTED_AT] = now
        chosen = [values.get(f.name, column(f.name)).cast(f.dataType).alias(f.name) for f in schema.fields]
        chosen += [column(name) for name in (RAW, PROBLEM, UNKNOWN) if name not in schema.names]
        names = [*self.metadata_columns.names, *(name for name in self._hidden.names if name in df.columns)]
        context = F.to_json(F.struct(*map(column, names))) if names else F.lit(None).cast("string")
        chosen.append(F.when(column(PROBLEM).isNotNull(), context).alias(CONTEXT))
        return schema, chosen

    def _mapping(self, df: DataFrame, payload: StructType) -> TopicMapping | None:
        """Rebuilt only when the payload changes: it asks Spark for the types of its expressions."""
        known = payload.json()
        if self._made is None or self._made[0] != known:
            self._made = (
                known,
                mapping_for(self.topic, self._functions, df.sparkSession, payload, self.metadata_columns),
            )
        return self._made[1]


def _cast_failures(standard: Sequence[StandardColumn], others: Column) -> Column:
    """Values that do not fit, as text by their names: of standard columns that nothing else keeps, and those that the
    decoder has found."""
    alone = [one for one in standard if one.from_source or one.path == (one.name,)]
    if not alone:
        return texts_or_none(others)
    return with_more(others, texts_of({one.name: F.when(one.is_unreadable, one.found.cast("string")) for one in alone}))


def tell_twins_apart(spark: SparkSession, payload: StructType) -> None:
    """Only so can two keys that differ in case be told apart; what is written has other names."""
    if has_twins(payload):
        spark.conf.set("spark.sql.caseSensitive", "true")


def _moment(now: datetime) -> Column:
    """A time that does not show in the code which Spark makes of the step: as a constant it would have every step
    compiled again. The index is always 0, and only Spark can't know it."""
    return F.array(F.lit(now))[F.pmod(F.octet_length(column(POSITION)), F.lit(1))]


def _told_of(refused: Mapping[str, str]) -> Column:
    """The problem of a refused event."""
    messages = F.create_map(*(F.lit(part) for pair in refused.items() for part in pair))
    message = F.element_at(messages, column(POSITION))
    return F.when(message.isNotNull(), problem(REASON, message)).cast(PROBLEM_TYPE)


def _known_of(rejected: Mapping[str, tuple[str, str]]) -> Column:
    """The problem that was found out before."""
    problems = {position: {"reason": reason, "message": message} for position, (reason, message) in rejected.items()}
    known = F.from_json(F.lit(json.dumps(problems)), "map<string,struct<reason:string,message:string>>")
    return F.element_at(known, column(POSITION)).cast(PROBLEM_TYPE)


def _part(value: Column, have: DataType, wanted: DataType, *, sparse: bool = False) -> Column:
    """Some fields of a value, at any depth; `sparse`: a struct in which none has a value is NULL."""
    if have == wanted:
        return value
    if isinstance(have, ArrayType) and isinstance(wanted, ArrayType):
        inner, part = have.elementType, wanted.elementType
        return F.transform(value, lambda one: _part(one, inner, part, sparse=sparse))
    assert isinstance(have, StructType) and isinstance(wanted, StructType)
    fields = [_part(value.getField(f.name), have[f.name].dataType, f.dataType, sparse=sparse) for f in wanted.fields]
    named = F.struct(*(field.alias(f.name) for field, f in zip(fields, wanted.fields, strict=True)))
    there = reduce(operator.or_, (field.isNotNull() for field in fields)) if sparse else value.isNotNull()
    return F.when(there, named)
