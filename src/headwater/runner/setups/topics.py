"""Puts a topic's flow together: its source, its pipeline, its table, its ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Unsupported
from headwater.core.model import Kind
from headwater.core.spec import Topic
from headwater.core.storage import Files
from headwater.flows.flow import Flow, FlowInput
from headwater.flows.ledger import Ledger, Positions, flow_name
from headwater.formats.base import Address, Capability
from headwater.formats.spark_table import SparkTable
from headwater.ingest.dead_letters import DeadLetters
from headwater.ingest.forgotten import ForgottenRows
from headwater.ingest.pipeline import Pipeline
from headwater.ingest.schemas import SchemaLog
from headwater.ingest.topic import TopicTarget
from headwater.project.definition import ProjectDefinition
from headwater.project.load.code import code_digest
from headwater.runner.pace import Pace
from headwater.runner.preflight import empty, notes_of, require_fence
from headwater.runner.setups.setup import FlowSetup
from headwater.schema.types import parse_ddl
from headwater.sources.decoders.base import Decoder
from headwater.sources.decoders.bounded import BoundedDecoder
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.reader import Lag, OffsetRange, ReadableTable, Reader, ReaderContext, Sharing, open_reader
from headwater.warehouse import Warehouse, fingerprint


class SourceInput(FlowInput[DataFrame]):
    """One source as a flow's input: its position stands under its name."""

    def __init__(self, name: str, reader: Reader) -> None:
        self._name = name
        self._reader = reader

    def next(self, start: Positions) -> OffsetRange | None:
        ahead = self._reader.next(start.get(self._name))
        return (
            None
            if ahead is None
            else OffsetRange({self._name: ahead.end}, ahead.rows, ahead.bytes, ahead.full, ahead.due)
        )

    def fix_range(self, start: Positions, range: OffsetRange) -> Positions:
        ahead = replace(range, end=range.end[self._name])
        return {self._name: self._reader.fix_range(start.get(self._name), ahead)}

    def read(self, start: Positions, end: Positions) -> DataFrame:
        return self._reader.read(start.get(self._name), end[self._name])

    def inspect(self, start: Positions, end: Positions, error: Exception) -> bool:
        return self._reader.inspect(start.get(self._name), end[self._name], error)

    def committed(self, end: Positions) -> None:
        if self._name in end:  # else it is the end of another source, which the topic had before
            self._reader.committed(end[self._name])

    def freeze(self) -> None:
        self._reader.freeze()

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        self._reader.wait(stopping, seconds)

    def lag(self, start: Positions) -> Lag | None:
        return self._reader.lag(start.get(self._name))

    def probe(self) -> None:
        self._reader.probe()

    def close(self) -> None:
        self._reader.close()


def topic_setup(warehouse: Warehouse, topic: Topic) -> FlowSetup:
    """How a topic is run."""
    source = warehouse.project.sources[topic.from_]
    return FlowSetup(
        flow=flow_name(topic.name),
        trigger=warehouse.project.trigger_of(topic),
        pace=Pace(topic.batch_size, topic.flush_interval or source.flush_interval_default),
        open=lambda spark, guard: topic_flow(warehouse, topic.name, spark, guard),
        made_of=_made_of(warehouse.project, topic),
    )


def _made_of(project: ProjectDefinition, topic: Topic) -> object:
    source = project.sources[topic.from_]
    uses_code = bool(topic.mappers) or topic.filter is not None or any(f.role == "upcaster" for f in project.functions)
    code = code_digest(project.root, project.settings.code) if uses_code else None
    # The topics of a replication slot agree on how far it is done with.
    along = [other.name for other in project.topics.values() if other.from_ == topic.from_]
    shared = sorted(along) if isinstance(source, PostgresCdcSource) else []
    settings = (project.format_of(topic), project.trigger_of(topic))
    return (topic.model_dump(), source.type, source.model_dump(), *settings, shared, code)


@dataclass(frozen=True)
class OpenTopic:
    """A topic's reader and table, in a session of their own, and its flow's notes."""

    definition: Topic
    reader: Reader
    table: SparkTable
    notes: Files
    ledger: Ledger


def open_topic(warehouse: Warehouse, name: str, spark: SparkSession) -> OpenTopic:
    """What a topic is put together from."""
    definition = warehouse.definition(Kind.TOPIC, name)
    assert isinstance(definition, Topic)
    ledger = Ledger(warehouse.files, flow_name(name))
    table = warehouse.table(Kind.TOPIC, name, spark)
    context = reader_context(warehouse, definition, ledger, spark)
    reader = open_reader(warehouse.project.sources[definition.from_], context)
    return OpenTopic(definition, reader, table, context.notes, ledger)


def reader_context(warehouse: Warehouse, topic: Topic, ledger: Ledger, spark: SparkSession) -> ReaderContext:
    """What the reader of a topic's source works with."""
    flow = flow_name(topic.name)
    folder = warehouse.files.join("_headwater/flows", flow)
    storage = dict(warehouse.context.storage)
    return ReaderContext(
        spark,
        flow,
        Files("/".join([folder, *notes_of(ledger.epoch())]), storage),
        warehouse.project.location,
        storage,
        Files(folder, storage),
        partial(_open_table, warehouse, spark),
        sharing=sharing(warehouse, topic),
    )


def sharing(warehouse: Warehouse, topic: Topic) -> Sharing:
    """What a topic's flow has in common with those that read the same source."""
    project = warehouse.project
    flows = tuple(flow_name(other.name) for other in project.topics.values() if other.from_ == topic.from_)
    folder = warehouse.files.join("_headwater/sources", topic.from_)
    return Sharing(project.name, Files(folder, dict(warehouse.context.storage)), flows, topic.table)


def _open_table(
    warehouse: Warehouse, spark: SparkSession, format: str, path: str | None, table: str | None
) -> ReadableTable:
    """A table that a source names, in the flow's session."""
    address = Address(None if path is None else warehouse.project.location(path), table)
    source_table = warehouse.foreign(format, address, spark)
    if not source_table.format.can(Capability.CHANGES):
        raise Unsupported(
            f"{address} can't be followed: {source_table.format.refusal(Capability.CHANGES)}",
            hint="take its files in with a source of type `files`, `file_format: parquet`",
        )
    return source_table


def topic_flow(warehouse: Warehouse, name: str, spark: SparkSession, guard: Callable[[], None]) -> Flow[DataFrame]:
    """The flow that keeps a topic, in a session of its own."""
    definition = warehouse.definition(Kind.TOPIC, name)
    assert isinstance(definition, Topic)
    require_fence(warehouse, definition)
    opened = open_topic(warehouse, name, spark)
    if warehouse.record(Kind.TOPIC, name) is None and opened.table.exists():
        warehouse.remember(Kind.TOPIC, name)  # the process that made it ended before it could
    if opened.ledger.epoch().empty and opened.ledger.last() is None:
        empty(opened.table)
        dead_letters = DeadLetters(spark, warehouse.context)  # their events come again
        dead_letters.drop(name, dead_letters.ids(name, whole=True))
    reader, flow = opened.reader, flow_name(name)

    def confirmed() -> None:
        guard()
        reader.confirm()

    target = topic_target(warehouse, definition, reader, reader.decoder, opened.table, opened.notes, confirmed)
    source = SourceInput(definition.from_, reader)
    made_by = made_by_topic(warehouse, definition)
    return Flow(flow, made_by, source, target, opened.ledger, guard, record=warehouse.state.note)


def made_by_topic(warehouse: Warehouse, topic: Topic) -> str:
    """What a topic's intents say of the definition that they are of: its fingerprint, and the type of its source."""
    return f"{fingerprint(topic)}:{warehouse.project.sources[topic.from_].type}"


def topic_target(
    warehouse: Warehouse,
    topic: Topic,
    reader: Reader,
    decoder: Decoder,
    table: SparkTable,
    notes: Files,
    guard: Callable[[], None],
    *,
    remembered: bool = True,
    dead_letters: DeadLetters | None = None,
) -> TopicTarget:
    """What takes a topic's records in; `remembered`: a table that is made is the topic's own. `dead_letters` keeps
    what can't be ingested, the lake's own table if it is not given."""
    source = warehouse.project.sources[topic.from_]
    declared = parse_ddl(table.spark, getattr(source, "schema_", None))
    required = [f.name for f in declared.fields if not f.nullable] if declared is not None else []
    return TopicTarget(
        Pipeline(topic, source, reader.metadata_columns, warehouse.project.functions, required, reader.hidden),
        # What the topic has already is not measured again.
        BoundedDecoder(decoder, source.max_record_size) if remembered else decoder,
        table,
        dead_letters or DeadLetters(table.spark, warehouse.context),
        SchemaLog(notes),
        created=(lambda: warehouse.remember(Kind.TOPIC, topic.name)) if remembered else (lambda: None),
        declared=declared,
        hints=parse_ddl(table.spark, getattr(source, "schema_hints", None)),
        guard=guard,
        forgotten=ForgottenRows(warehouse.files, topic.name).all(),
    )


def schemas_of(warehouse: Warehouse, topic: str) -> SchemaLog:
    """What is known of a topic's payload."""
    flow = flow_name(topic)
    folder = "/".join(
        [warehouse.files.join("_headwater/flows", flow), *notes_of(Ledger(warehouse.files, flow).epoch())]
    )
    return SchemaLog(Files(folder, warehouse.context.storage))
