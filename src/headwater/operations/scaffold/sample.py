"""`headwater init --from`: a project for data that are there already, with the types that the ingest finds in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.core.errors import Code, Problem, ProjectError, UsageError
from headwater.core.model import Kind
from headwater.core.spec import Topic
from headwater.ingest.detection import Detection
from headwater.ingest.pipeline import Pipeline
from headwater.operations.scaffold.texts import quoted
from headwater.project.definition import ProjectDefinition
from headwater.project.load.build import build
from headwater.project.load.tree import from_python
from headwater.project.names import slug
from headwater.runner.setups.topics import open_topic
from headwater.sources.decoders.base import EVENT
from headwater.sources.decoders.bounded import BoundedDecoder
from headwater.sources.discovery import Discovered
from headwater.sources.reader import Reader
from headwater.sources.registry import discovered
from headwater.warehouse import Warehouse

RECORDS = 1000
"""Records that a look reads, as many as the ingest looks at first."""


@dataclass(frozen=True)
class SampleColumn:
    """A column of the records, its type as the ingest takes it, and values of it."""

    name: str
    type: str
    values: Sequence[Any]


@dataclass(frozen=True)
class Look:
    """What was found at an address."""

    source: Discovered
    columns: Sequence[SampleColumn] = ()
    records: int = 0
    rejected: Sequence[str] = ()
    """What the records that can't be ingested would be dead letters for."""
    has_types: bool = False
    """The records themselves say of which types their values are."""

    @property
    def topic(self) -> str:
        return slug(str(self.source.topic.get("name", self.source.name)))


def look_at(address: str) -> Look:
    """Look at an address; starts Spark where types have to be found in records."""
    found = discovered(address)
    if found.columns is None:
        return _sampled(found)
    return Look(found, [SampleColumn(one.name, one.type, ()) for one in found.columns], has_types=True)


def _sampled(found: Discovered) -> Look:
    with tempfile.TemporaryDirectory(prefix="headwater-init-") as folder:
        project = _project(found, Path(folder))
        warehouse = Warehouse(project, quick=True)
        try:
            return _look(found, warehouse, project)
        finally:
            warehouse.close()


def _project(found: Discovered, folder: Path) -> ProjectDefinition:
    """A project that reads a little, in a folder of its own."""
    keys = {
        "name": "look",
        "format": "parquet",
        "sources": {"found": {**found.keys, **found.sampled_by}},
        "topics": {"found": {"from": "found"}},
    }
    problems: list[Problem] = []
    file = folder / "headwater.yml"
    built = build(
        from_python(keys, "--from", 1), file, None, {**os.environ, **found.variables}, problems, fallback="look"
    )
    if built.project is None or built.problems:
        raise ProjectError(built.problems)
    return built.project


def _look(found: Discovered, warehouse: Warehouse, project: ProjectDefinition) -> Look:
    from headwater.spark.arrow_bridge import first_of

    opened = open_topic(warehouse, "found", warehouse.spark)
    reader = opened.reader
    try:
        reader.freeze()
        ahead = reader.next(None)
        if ahead is None:
            raise UsageError(
                Code.USAGE, "there is nothing to look at yet", hint="try again when the first records are there"
            )
        end = reader.fix_range(None, ahead)
        some = first_of(reader.read(None, end), RECORDS)
        return _detected(found, reader, some, warehouse.definition(Kind.TOPIC, "found"), project)
    finally:
        reader.close()


def _detected(found: Discovered, reader: Reader, some: Any, topic: Any, project: ProjectDefinition) -> Look:
    from pyspark.sql.types import StructType

    assert isinstance(topic, Topic)
    source = project.sources["found"]
    pipeline = Pipeline(topic, source, reader.metadata_columns, (), (), reader.hidden)
    decoder = BoundedDecoder(reader.decoder, source.max_record_size)
    detected = Detection(decoder, topic.schema_.max_columns, pipeline.rejected).of(some, StructType(), lambda one: one)
    schema = detected.schema
    events = [row[0] for row in decoder.decode(some, schema).select(EVENT).collect()]
    whole = [event for event in events if event is not None]
    columns = [
        SampleColumn(f.name, _type_text(f.dataType), [event[f.name] for event in whole if event[f.name] is not None])
        for f in schema.fields
    ]
    bad = pipeline.rejected(some, decoder, schema).collect()
    return Look(found, columns, len(events), [str(row[2]) for row in bad], has_types=not decoder.textual)


def _type_text(data_type: Any) -> str:
    """A type as hints have it: names inside of it quoted where they have to be."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(data_type, StructType):
        inner = ",".join(f"{quoted(f.name)}:{_type_text(f.dataType)}" for f in data_type.fields)
        return f"struct<{inner}>"
    if isinstance(data_type, ArrayType):
        return f"array<{_type_text(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{_type_text(data_type.keyType)},{_type_text(data_type.valueType)}>"
    return str(data_type.simpleString())
