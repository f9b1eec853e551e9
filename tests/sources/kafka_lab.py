"""A Kafka source and its reader, as a flow uses them."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Where
from headwater.core.spec.base import placed
from headwater.core.storage import Files
from headwater.sources.decoders.base import EVENT, PROBLEM
from headwater.sources.decoders.bounded import BoundedDecoder
from headwater.sources.kafka.config import KafkaSource
from headwater.sources.kafka.reader import KafkaReader
from headwater.sources.reader import OffsetRange, Position, ReaderContext


def framed(id: int, body: bytes) -> bytes:
    """As producers that use a registry write a value."""
    return b"\x00" + struct.pack(">I", id) + body


def rows_of(**columns: Any) -> dict[str, Any]:
    return {"value": json.dumps(columns).encode()}


@dataclass
class Flow:
    """The steps of one source, as far as its reader is concerned."""

    spark: SparkSession
    folder: Path
    settings: dict[str, Any]
    position: Position = None
    reader: KafkaReader = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.restart()

    def restart(self, **settings: Any) -> None:
        """A new process: only the position and the notes are left."""
        self.settings = {**self.settings, **settings}
        spec = placed(KafkaSource.model_validate({"type": "kafka", **self.settings}), "clicks", Where("headwater.yml"))
        notes = Files(str(self.folder / "notes"))
        locate = lambda path: str(self.folder / path)  # noqa: E731
        self.reader = KafkaReader(spec, ReaderContext(self.spark, "topics.clicks", notes, locate, {}))

    def ahead(self) -> OffsetRange | None:
        return self.reader.next(self.position)

    def step(self) -> DataFrame | None:
        """The next range's records."""
        ahead = self.ahead()
        if ahead is None:
            return None
        end = json.loads(json.dumps(self.reader.fix_range(self.position, ahead)))
        records = self.reader.read(self.position, end)
        self.position = end
        return records

    def offsets(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of every record that is there."""
        found: list[tuple[str, int, int]] = []
        while (records := self.step()) is not None:
            found += [tuple(row) for row in records.select("_topic", "_topic_partition", "_offset").collect()]
        return sorted(found)

    def decoded(self) -> Decoded:
        records = self.step()
        assert records is not None
        return self.decode(records)

    def decode(self, records: DataFrame) -> Decoded:
        decoder = BoundedDecoder(self.reader.decoder, self.settings.get("max_record_size", 64 << 20))
        schema = decoder.detect(records)
        rows = decoder.decode(records, schema)
        unknown = decoder.unknown(schema)
        # Not as a filter: pushed down through the projections it becomes an expression of enormous size.
        new = (F.lit(False) if unknown is None else unknown).alias("new")
        kept = sorted(rows.select("_position", "_key", EVENT, PROBLEM, new).collect(), key=lambda row: row["_position"])
        return Decoded(
            [f"{f.name}:{f.dataType.simpleString()}" for f in schema.fields],
            [row[EVENT] and row[EVENT].asDict(recursive=True) for row in kept],
            [row[PROBLEM] and tuple(row[PROBLEM]) for row in kept],
            [row["_key"] for row in kept],
            sum(row["new"] for row in kept),
        )


def new_offsets(flow: Flow, records: DataFrame, schema: StructType) -> list[int]:
    """The records that may hold something that the schema lacks."""
    decoder = flow.reader.decoder
    unknown = decoder.unknown(schema)
    assert unknown is not None
    rows = decoder.decode(records, schema).select("_offset", unknown.alias("new")).collect()
    return sorted(row["_offset"] for row in rows if row["new"])


@dataclass(frozen=True)
class Decoded:
    fields: list[str]
    events: list[dict[str, Any] | None]
    problems: list[tuple[str, str] | None]
    keys: list[Any]
    unknown: int
    """Rows that may still hold something that the schema lacks."""
