"""Puts a topic's flow together: its source, its pipeline, its table, its ledger."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headwater.deadletters import DeadLetters
from headwater.errors import Code, UsageError
from headwater.flows import Flow, Ledger, Positions
from headwater.ingest.topic import TopicTarget
from headwater.model import Kind
from headwater.project.runnable import not_runnable_because
from headwater.sources.readers import open_reader
from headwater.sources.reading import Reader, ReaderContext
from headwater.spec import Topic
from headwater.storage import Files
from headwater.warehouse import Warehouse, fingerprint


class SourceInput:
    """One source as a flow's input: its position stands under its name."""

    def __init__(self, name: str, reader: Reader) -> None:
        self._name = name
        self._reader = reader

    def next(self, start: Positions) -> Positions | None:
        end = self._reader.next(start.get(self._name))
        return None if end is None else {self._name: end}

    def read(self, start: Positions, end: Positions) -> DataFrame:
        return self._reader.read(start.get(self._name), end[self._name])

    def committed(self, end: Positions) -> None:
        self._reader.committed(end[self._name])


def topic_flow(warehouse: Warehouse, name: str, spark: SparkSession) -> Flow:
    """The flow that keeps a topic, in a session of its own."""
    definition = warehouse.definition(Kind.TOPIC, name)
    assert isinstance(definition, Topic)
    project = warehouse.project
    because = not_runnable_because(project, definition)
    if because is not None:
        raise UsageError(Code.NOT_RUNNABLE_YET, because, where=definition.where)
    source = project.sources[definition.from_]
    flow = flow_name(name)
    notes = Files(warehouse.files.join("_headwater/flows", flow), warehouse.around.storage)
    context = ReaderContext(spark, notes, project.location, dict(warehouse.around.storage))
    target = TopicTarget(
        definition,
        source,
        warehouse.table(Kind.TOPIC, name, spark),
        DeadLetters(spark, warehouse.around),
        created=lambda: warehouse.remember(Kind.TOPIC, name),
    )
    reader = open_reader(source, context)
    ledger = Ledger(warehouse.files, flow)
    return Flow(flow, fingerprint(definition), SourceInput(source.name, reader), target, ledger)


def flow_name(topic: str) -> str:
    return f"{Kind.TOPIC.plural}.{topic}"


def topic_name(flow: str) -> str:
    return flow.split(".", 1)[1]
