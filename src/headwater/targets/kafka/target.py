"""A copy in a topic of Kafka: each snapshot and each step is one transaction, with its position in it.

A snapshot's transaction is open while a consumer reads it back, and is committed after that. Consumers with
`isolation.level=read_committed` see all of it at once, or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pyarrow as pa

from headwater.core.errors import Code, TerminalError, Unsupported, UsageError, did_you_mean
from headwater.core.model import DELETED, CommitTag
from headwater.core.storage import Files
from headwater.spark.frames import column
from headwater.targets.base import (
    Checksum,
    Destination,
    ExportTarget,
    ForeignReader,
    SourceState,
    StagedCopy,
    TargetKind,
)
from headwater.targets.json_columns import with_sorted_maps
from headwater.targets.kafka.address import parse_address
from headwater.targets.kafka.clients import Clients
from headwater.targets.kafka.positions import TOPIC, TopicPosition, last_position, prepare, read
from headwater.targets.kafka.transactions import Headers, Ranges, Transactions
from headwater.targets.kafka.values import AvroValues, JsonValues, Values, batches_of, records
from headwater.targets.spool import RowSpool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

HEADER = "headwater"
SNAPSHOT = "snapshot"
_SNAPSHOT_SECONDS = 900
"""The longest that brokers let a transaction be open by default."""
_STEP_SECONDS = 120


class KafkaTarget(ExportTarget):
    """One topic, by one producer."""

    def __init__(self, kind: TargetKind, destination: Destination) -> None:
        super().__init__(kind, destination)
        context = destination.context
        self._address = parse_address(self.definition.to, destination.sources)
        self._clients = Clients(self._address, str(Path(context.home).parent))
        self._spool = RowSpool(Files(context.warehouse, context.storage), self.definition.to)
        self.checks_whole = False
        self._producer: Transactions | None = None
        self._position: TopicPosition | None = None
        self._known = False
        self._staged = False
        self._written: Ranges = {}
        self._headers: Headers = []

    @property
    def _topic(self) -> str:
        return self._address.topic

    @cached_property
    def _values(self) -> Values:
        return AvroValues(self._address, self.destination.context.home) if self._address.is_avro else JsonValues()

    def _partitions(self) -> list[tuple[str, int]]:
        found = self._clients.partitions(self._topic)
        if not found:
            raise UsageError(
                Code.EXPORT_REFUSED,
                f"there is no topic '{self._topic}' at {self._address.cluster.brokers}",
                where=self._address.where,
                hint=f"make it there first; {did_you_mean(self._topic, self._clients.topics())}",
            )
        return found

    def exists(self) -> bool:
        """Whether the topic has records: a topic itself is always there before."""
        return any(begin < end for begin, end in self._clients.ends(self._partitions()).values())

    def check(self, schema: StructType) -> None:
        if self.definition.if_exists == "overwrite":
            raise Unsupported("a topic of Kafka can't be overwritten", hint="export to an empty topic")
        self._partitions()
        self._values.check(schema)

    def prepared(self, rows: DataFrame) -> DataFrame:
        return with_sorted_maps(rows)

    # --- snapshots

    def stage(self, rows: DataFrame, source: SourceState) -> StagedCopy:
        producer = self._open(f"{SNAPSHOT}-{self._topic}", _SNAPSHOT_SECONDS)
        with self._spool.holding(records(rows, self.definition.primary_key, self._values)):
            self._staged = True
            count, size = self._send(producer, source.to_json())
        return StagedCopy(count, size, len(self._written))

    def readers(self, *, sample: bool = False) -> Iterator[ForeignReader]:
        yield ForeignReader("librdkafka", confluent_kafka.libversion()[0], batches=self._batches)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """What this process has written last: while its transaction is open by a reader that does not wait for it."""
        messages = read(self._clients, self._written, committed=not self._staged)
        mine = self._headers
        values = (one.value() for one in messages if one.headers() == mine and one.value() is not None)
        return batches_of(values, schema, self._values)

    def publish(self, written: StagedCopy, source: SourceState, checksum: Checksum | None) -> None:
        producer = self._producer
        assert producer is not None
        position = TopicPosition(SNAPSHOT, self._topic, None, None, source.to_json())
        producer.note(TOPIC, position.key, position.value())
        producer.commit()
        self._staged = False

    def discard(self) -> None:
        self._spool.clear()
        self._staged = False
        if self._producer is not None:
            self._producer.abort()
            self._producer = None

    # --- streams

    def landed(self, commit_tag: CommitTag) -> bool:
        self._begin(commit_tag)
        return self._position is not None and self._position.has(commit_tag)

    def apply(self, change: DataFrame, commit_tag: CommitTag, *, first: bool) -> StagedCopy:
        producer = self._begin(commit_tag)
        if self._position is not None and self._position.has(commit_tag):
            return StagedCopy(0, 0, 0)
        if first and self._position is not None:
            raise Unsupported(
                f"{self._topic} has an earlier copy of {commit_tag.flow}, and a topic of Kafka can't be emptied",
                hint="export to an empty topic",
            )
        with self._spool.holding(records(change, self.definition.primary_key, self._values)):
            try:
                told = {"flow": commit_tag.flow, "epoch": commit_tag.epoch, "step": commit_tag.step}
                count, size = self._send(producer, {**told, "source": dict(commit_tag.positions)})
                self._check_step(change)
                position = TopicPosition(
                    commit_tag.flow, self._topic, commit_tag.epoch, commit_tag.step, dict(commit_tag.positions)
                )
                producer.note(TOPIC, position.key, position.value())
                producer.commit()
            except BaseException:
                # Whether it has landed after all is looked up before the next try.
                self._known = False
                producer.abort()
                self._producer = None
                raise
        self._position = position
        return StagedCopy(count, size, len(self._written))

    def _check_step(self, change: DataFrame) -> None:
        """Have the step read back while its transaction is open."""
        if self.verify_step is None:
            return
        rows = change.where(~column(DELETED)).drop(DELETED) if DELETED in change.columns else change
        self._staged = True
        try:
            self.verify_step(next(self.readers()), rows)
        finally:
            self._staged = False

    def _begin(self, tag: CommitTag) -> Transactions:
        """The flow's producer. With it open nobody else can write a step, so that the position is looked up once."""
        producer = self._open(f"{tag.flow}-{self._topic}", _STEP_SECONDS)
        if not self._known:
            key = (tag.flow, self._topic)
            self._position = last_position(self._clients, lambda one: (one.flow, one.topic) == key)
            self._known = True
        return producer

    def _open(self, id: str, seconds: int) -> Transactions:
        if self._producer is None:
            self._partitions()
            prepare(self._clients)
            producer = Transactions(self._clients, f"headwater-{id}", seconds)
            producer.open()
            self._producer = producer
        return self._producer

    def _send(self, producer: Transactions, source: Mapping[str, object]) -> tuple[int, int]:
        """Begin a transaction and write the spooled rows in it."""
        self._headers = [(HEADER, json.dumps(dict(source), sort_keys=True).encode())]
        producer.begin()
        sent = producer.send(self._topic, self._spool.batches(), self._headers)
        producer.flush()
        self._written = dict(producer.ranges)
        if sum(sent[:1]) and not self._written:
            raise TerminalError(Code.EXPORT_REFUSED, f"the brokers have taken no record for {self._topic}")
        return sent

    def visible(self) -> Mapping[str, object]:
        found = last_position(self._clients, lambda one: one.topic == self._topic)
        return {} if found is None else found.source

    def close(self) -> None:
        if self._producer is not None:
            self._producer.abort()
            self._producer = None
