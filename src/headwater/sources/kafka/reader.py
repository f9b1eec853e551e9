"""Kafka topics by ranges of offsets, each fixed before it is read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.logs import get_logger
from headwater.sources.decoders.base import Decoder
from headwater.sources.kafka.cluster import Cluster
from headwater.sources.kafka.config import KafkaSource
from headwater.sources.kafka.generations import Generations
from headwater.sources.kafka.offsets import (
    BrokerTopics,
    KafkaPartition,
    KafkaPosition,
    Loss,
    Offsets,
    Slice,
    resumed,
    shared,
    slices,
    still_there,
)
from headwater.sources.kafka.settings import spark_options
from headwater.sources.kafka.values import KEY, KEY_RAW, decoder_of, key_column
from headwater.sources.reader import POSITION, RAW, Lag, OffsetRange, Position, Reader, ReaderContext
from headwater.spark.arrow_bridge import Selection
from headwater.spark.errors import reason, without_plan

_SILENCE = re.compile(
    r"kafka\.common\.errors\.\w*(Timeout|Disconnect|Network|Unavailable|NotAvailable|NotLeader|Coordinator|Retriable)"
    r"|Cannot fetch record for offset|Timeout of \d+ ?ms expired|TimeoutException.*[Kk]afka|DisconnectException"
)
"""What Spark's tasks say of brokers that don't answer."""
LISTING_SECONDS = 2.0
"""How old a list of all topics may be when new ones that fit a pattern are looked for."""
SURVEY_SECONDS = 2.0
"""How old what the brokers told may be when a range is read that was fixed by it."""
LARGE = 100_000
"""Records from which a range is worth more tasks than it has partitions."""
BEGUN = "begun.json"
PARTITION = "_topic_partition"
"""Not `_partition`: Iceberg keeps that name for itself, and can't read a table that has it."""

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

log = get_logger(__name__)


class KafkaReader(Reader):
    """The position is a dict; a record's `_position` is `<topic>/<partition>/<offset>`, numbers of fixed width.

    Of a topic that was made again it is `<topic>@<how often it was made>/…`: the same offsets are other records.
    """

    def __init__(self, spec: KafkaSource, context: ReaderContext) -> None:
        self._spec = spec
        self._spark = context.spark
        self._notes = context.notes
        self._cluster = Cluster(spec, context.locate)
        self._options = spark_options(spec, context.flow, context.locate)
        self._decoder = decoder_of(spec, context)
        self._pattern = re.compile(spec.topic_pattern) if spec.topic_pattern else None
        self._listed: tuple[float, list[str]] = (0.0, [])
        self._surveyed: tuple[float, BrokerTopics] = (0.0, BrokerTopics({}, {}, {}))
        self._frozen: BrokerTopics | None = None
        self._begun: Offsets | None = None
        self._generations = Generations(context.lasting or context.notes)
        self._described: set[Loss] = set()
        self._chosen_columns: tuple[dict[str, int], Selection] | None = None

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    @property
    def metadata_columns(self) -> StructType:
        key = BinaryType() if self._spec.key == "bytes" else StringType()
        return StructType(
            [
                StructField(KEY, key),
                StructField("_topic", StringType()),
                StructField(PARTITION, IntegerType()),
                StructField("_offset", LongType()),
                StructField("_timestamp", TimestampType()),
                StructField("_headers", HEADERS),
            ]
        )

    @property
    def hidden(self) -> StructType:
        return StructType([StructField(KEY_RAW, BinaryType())] if self._spec.key in ("avro", "protobuf") else [])

    # --- ranges

    def next(self, start: Position | None) -> OffsetRange | None:
        known = KafkaPosition.of(start)
        seen = self._survey(known)
        wanted = self._wanted(known)
        offsets, losses = resumed(known, seen, wanted)
        self._report(losses)
        found = [one for one in seen.end if one not in offsets]
        offsets |= self._first(found, seen, known, is_new_flow=start is None)
        ends = seen.end if self._frozen is None else self._frozen.end
        waiting = {one: max(0, ends.get(one, at) - at) for one, at in offsets.items()}
        total = sum(waiting.values())
        if total == 0:
            return None
        taken = shared(waiting, self._spec.max_rows)
        elsewhere = {one: at for one, at in known.offsets.items() if one.topic not in wanted}
        end = KafkaPosition(
            offsets={**elsewhere, **{one: at + taken[one] for one, at in offsets.items()}},
            ids={**known.ids, **seen.ids},  # one that is gone stays known: it may be made again
            begin={one: at for one, at in offsets.items() if known.offsets.get(one) != at},
            lost=tuple(map(str, losses)),
            made=self._generations.counted(known, seen.ids),
        )
        return OffsetRange(end.to_json(), rows=sum(taken.values()), full=total > self._spec.max_rows)

    def fix_range(self, start: Position | None, ahead: OffsetRange) -> Position:
        self._generations.keep(KafkaPosition.of(start), KafkaPosition.of(ahead.end))
        return ahead.end

    def inspect(self, start: Position | None, end: Position, error: Exception) -> bool:
        """What Spark's tasks met at the brokers is told like what we meet there ourselves, by the brokers' names."""
        said = "" if isinstance(error, HeadwaterError) else reason(error)
        if _SILENCE.search(said):
            self._cluster.names()  # still away: that is told
            raise self._cluster.gone(without_plan(said)) from error
        return False

    def probe(self) -> None:
        self._cluster.names()

    def freeze(self) -> None:
        self._frozen = None
        self._frozen = self._cluster.survey(sorted(self._wanted(KafkaPosition())))

    def lag(self, start: Position | None) -> Lag:
        known = KafkaPosition.of(start)
        seen = self._survey(known)
        offsets, _ = resumed(known, seen, self._wanted(known))
        found = [one for one in seen.end if one not in offsets]
        offsets |= self._first(found, seen, known, is_new_flow=start is None)
        waiting = {one: max(0, seen.end[one] - at) for one, at in sorted(offsets.items())}
        detail = {f"{one.topic}/{one.number}": records for one, records in waiting.items()}
        return Lag(records=sum(waiting.values()), detail=detail)

    def close(self) -> None:
        self._cluster.close()

    # --- records

    def read(self, start: Position | None, end: Position) -> DataFrame:
        place = KafkaPosition.of(end)
        asked = slices(KafkaPosition.of(start), place)
        found, losses = still_there(asked, place.ids, self._recent(asked))
        self._report(losses)
        records = self._records(found) if found else self._spark.createDataFrame([], _KAFKA)
        rows = self._columns(place.made).of(records)
        return rows.where(F.col(RAW).isNotNull()) if self._spec.drops_tombstones else rows

    def _records(self, asked: list[Slice]) -> DataFrame:
        topics: dict[str, list[int]] = {}
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for one in asked:
            topic, number = one.partition
            topics.setdefault(topic, []).append(number)
            starts.setdefault(topic, {})[str(number)] = one.start
            ends.setdefault(topic, {})[str(number)] = one.end
        tasks = self._spark.sparkContext.defaultParallelism
        size = sum(one.end - one.start for one in asked)
        reader = self._spark.read.format("kafka")
        if size >= LARGE and len(asked) < tasks:
            reader = reader.option("minPartitions", str(tasks))
        records = (
            reader.options(**self._options)
            .option("assign", json.dumps(topics))
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true")
            .load()
        )
        return records.coalesce(tasks) if size < LARGE and len(asked) > tasks else records

    def _columns(self, made: dict[str, int]) -> Selection:
        """Made once, as long as no topic is made again; see `JsonDecoder`."""
        if self._chosen_columns is None or self._chosen_columns[0] != made:
            self._chosen_columns = (dict(made), self._columns_of(made))
        return self._chosen_columns[1]

    def _columns_of(self, made: dict[str, int]) -> Selection:
        topic = F.col("topic")
        for name, times in made.items():
            topic = F.when(F.col("topic") == name, F.lit(f"{name}@{times:05d}")).otherwise(topic)
        position = F.concat_ws("/", topic, _padded("partition", 5), _padded("offset", 20))
        columns = [
            F.col("value").alias(RAW),
            position.alias(POSITION),
            key_column(self._spec.key).alias(KEY),
            F.col("topic").alias("_topic"),
            F.col("partition").alias(PARTITION),
            F.col("offset").alias("_offset"),
            F.col("timestamp").alias("_timestamp"),
            F.col("headers").cast(HEADERS).alias("_headers"),
        ]
        if self._spec.key in ("avro", "protobuf"):
            columns.append(F.col("key").alias(KEY_RAW))
        return Selection(self._spark, columns)

    # --- what the brokers have

    def _wanted(self, known: KafkaPosition) -> set[str]:
        """The topics to read: those named, or those that fit the pattern and are there or have been."""
        if self._pattern is None:
            return set(self._spec.topic)
        if self._frozen is not None:
            there: Iterable[str] = self._frozen.ids
        else:
            at, there = self._listed
            if time.monotonic() - at > LISTING_SECONDS or not at:
                there = self._cluster.names()
                self._listed = (time.monotonic(), there)
        pattern = self._pattern
        return {topic for topic in {*there, *known.ids} if pattern.fullmatch(topic)}

    def _survey(self, known: KafkaPosition) -> BrokerTopics:
        wanted = self._wanted(known)
        need = [] if self._pattern else [topic for topic in sorted(wanted) if topic not in known.ids]
        seen = self._cluster.survey(sorted(wanted), need=need)
        self._surveyed = (time.monotonic(), seen)
        return seen

    def _recent(self, asked: list[Slice]) -> BrokerTopics:
        """What the brokers told a moment ago when the range was made, else what they tell now."""
        at, seen = self._surveyed
        fresh = time.monotonic() - at < SURVEY_SECONDS
        if fresh and all(one.partition in seen.end and seen.end[one.partition] >= one.end for one in asked):
            return seen
        return self._cluster.survey({one.partition.topic for one in asked})

    def _first(
        self, found: list[KafkaPartition], seen: BrokerTopics, known: KafkaPosition, *, is_new_flow: bool
    ) -> Offsets:
        """Where partitions that have not been read yet begin. `start` is said of topics as the flow first saw them: of
        one that was made again meanwhile all is news."""
        again = {topic for topic, id in known.ids.items() if seen.ids.get(topic, id) != id}
        restarted = {one: seen.first[one] for one in found if one.topic in again}
        return restarted | self._started([one for one in found if one not in restarted], seen, is_new_flow)

    def _started(self, found: list[KafkaPartition], seen: BrokerTopics, is_new_flow: bool) -> Offsets:
        start = self._spec.start
        if not found:
            return {}
        if isinstance(start, datetime):
            at = self._cluster.offsets_at(found, int(start.timestamp() * 1000))
            return {one: seen.end[one] if at[one] is None else at[one] or 0 for one in found}
        if isinstance(start, dict):
            return self._chosen(start, found, seen)
        # A partition that came after the flow had begun is read whole: all of it is news.
        begun = self._begin(found, seen, is_new_flow) if start == "latest" else {}
        return {one: begun.get(one, seen.first[one]) for one in found}

    def _chosen(
        self, start: Mapping[str, Mapping[int, int]], found: list[KafkaPartition], seen: BrokerTopics
    ) -> Offsets:
        offsets: Offsets = {}
        for one in found:
            at = start.get(one.topic, {}).get(one.number, seen.first[one])
            if at > seen.end[one]:
                raise UsageError(
                    Code.INVALID_VALUE,
                    f"`start` says offset {at} of topic '{one.topic}', partition {one.number},"
                    f" which ends at {seen.end[one]}",
                    where=self._spec.where,
                )
            if at < seen.first[one]:
                self._report([Loss(one.topic, "they have expired", one.number, at, seen.first[one])])
            offsets[one] = max(at, seen.first[one])
        return offsets

    def _begin(self, found: list[KafkaPartition], seen: BrokerTopics, is_new_flow: bool) -> Offsets:
        """`latest` is the end when the flow was first started, not when its first record comes: it is written down."""
        if self._begun is None:
            kept = self._notes.find(BEGUN)
            if kept is not None:
                self._begun = KafkaPosition.of(json.loads(kept)).offsets
            elif is_new_flow:
                self._begun = {one: seen.end[one] for one in found}
                self._notes.write_atomic(BEGUN, json.dumps(KafkaPosition(self._begun).to_json()))
        return self._begun or {}

    # --- loss

    def _report(self, losses: list[Loss]) -> None:
        """Stop, or say it once and go on."""
        if not losses:
            return
        if self._spec.on_data_loss == "fail":
            raise TerminalError(
                Code.DATA_LOSS,
                "records are gone before they were read: " + "; ".join(map(str, losses)),
                where=self._spec.where,
                hint="set `on_data_loss: continue` to continue with what is left, or reset the flow",
            )
        for loss in losses:
            if loss not in self._described:
                self._described.add(loss)
                log.warning("records are gone before they were read", source=self._spec.name, lost=str(loss))


_KAFKA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", HEADERS),
    ]
)
"""What Spark's reader gives, as far as it is used."""


def _padded(name: str, width: int) -> Column:
    return F.lpad(F.col(name).cast("string"), width, "0")
