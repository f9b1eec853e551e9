"""From raw records to rows of a topic, one commit a step; what can't be taken in becomes a dead letter."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from headwater.deadletters import DeadLetters
from headwater.flows import Landed
from headwater.formats.base import SparkTable
from headwater.formats.frames import column
from headwater.ingest.columns import (
    EVENT_DATE,
    INGESTED_AT,
    SOURCE,
    TopicColumn,
    known_payload,
    topic_columns,
    topic_schema,
    with_standard_as_text,
)
from headwater.ingest.detect import CORRUPT, detect, joined, parse_hints
from headwater.model import Mark, Version
from headwater.sources.base import EventColumns, SourceSpec
from headwater.sources.reading import POSITION, RAW
from headwater.spec import Topic, layout_of

_EVENT = "_event"
_REASON = "reason"
_MESSAGE = "message"
_ANY_OBJECT = "map<string,string>"


class TopicTarget:
    """Decodes records, shapes them into rows and appends them."""

    def __init__(
        self,
        topic: Topic,
        source: SourceSpec,
        table: SparkTable,
        dead_letters: DeadLetters,
        created: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._source = source
        self._mapped: EventColumns = getattr(source, "columns", EventColumns())
        self._table = table
        self._dead_letters = dead_letters
        self._created = created

    def landed(self, mark: Mark) -> Version | None:
        return self._table.landed(mark) if self._table.exists() else None

    def commit(self, raw: DataFrame, mark: Mark) -> Landed:
        """Keep what can't be taken in, then append the rest: a step whose commit has landed has both."""
        payload = self._payload_of(raw)
        columns = topic_columns(payload, self._mapped)
        decoded = _decode(raw, payload, columns)
        total, rejected = _count(decoded)
        self._make_room(topic_schema(columns, self._topic.keep_raw))
        if rejected:
            bad = decoded.where(F.col(_REASON).isNotNull())
            kept = bad.select(F.col(RAW).alias("raw"), F.col(POSITION).alias("position"), _REASON, _MESSAGE)
            self._dead_letters.put(kept, self._topic.name, self._source.name, mark)
        version = self._table.append(self._rows(decoded, columns), mark)
        return Landed(version, total - rejected, rejected)

    def _payload_of(self, raw: DataFrame) -> StructType:
        """The payload's schema: what the table has, and what these records bring."""
        hints = parse_hints(raw.sparkSession, getattr(self._source, "schema_hints", None))
        declared = parse_hints(raw.sparkSession, getattr(self._source, "schema_", None))
        found = declared or detect(raw.select(F.col(RAW).cast(StringType())), hints)
        known = known_payload(self._table.schema()) if self._table.exists() else StructType()
        return with_standard_as_text(joined(known, found, self._table.format))

    def _make_room(self, schema: StructType) -> None:
        if self._table.exists():
            self._table.evolve(schema)
            return
        self._table.create(schema, layout_of(self._topic))
        self._created()

    def _rows(self, decoded: DataFrame, columns: list[TopicColumn]) -> DataFrame:
        good = decoded.where(F.col(_REASON).isNull())
        shaped = good.select(
            *[one.value(_EVENT).cast(one.type).alias(one.name) for one in columns],
            F.lit(self._source.name).alias(SOURCE),
            column(POSITION),
            F.current_timestamp().alias(INGESTED_AT),
            *([column(RAW)] if self._topic.keep_raw else []),
        )
        happened = column("event_timestamp") if "event_timestamp" in shaped.columns else F.lit(None)
        return shaped.withColumn(EVENT_DATE, F.to_date(F.coalesce(happened, column(INGESTED_AT))))


def _decode(raw: DataFrame, payload: StructType, columns: list[TopicColumn]) -> DataFrame:
    """Adds the event as a struct and, where it can't be taken in, the reason and a sentence about it."""
    schema = StructType([*payload.fields, StructField(CORRUPT, StringType())])
    text = F.col(RAW).cast(StringType())
    event = F.from_json(text, schema, {"columnNameOfCorruptRecord": CORRUPT})
    decoded = raw.withColumn(_EVENT, event)
    broken = F.col(f"{_EVENT}.{CORRUPT}").isNotNull()
    no_object = F.col(_EVENT).isNull() | (broken & F.from_json(text, _ANY_OBJECT).isNull())
    reason = F.when(no_object, F.lit("decode")).when(broken, F.lit("schema"))
    message = F.when(no_object, F.lit("not a JSON object")).when(
        broken, F.lit("a value does not fit its column's type")
    )
    for one in columns:
        if one.is_standard:
            unreadable = one.is_unreadable(_EVENT)
            reason = reason.when(unreadable, "schema")
            message = message.when(unreadable, f"{one.name} can't be read as {one.type.simpleString()}")
    return decoded.withColumn(_REASON, reason).withColumn(_MESSAGE, message)


def _count(decoded: DataFrame) -> tuple[int, int]:
    found = decoded.agg(F.count(F.lit(1)), F.count(_REASON)).first()
    assert found is not None
    return int(found[0]), int(found[1])
