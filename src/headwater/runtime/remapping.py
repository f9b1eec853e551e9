"""A topic's rows made anew from their raw bytes, by today's selection and mapping; built beside and swapped in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql import DataFrame

from headwater.errors import Code, UsageError
from headwater.flows import Intent, flow_name
from headwater.formats.base import Address, Capability
from headwater.formats.frames import column
from headwater.formats.locks import writing
from headwater.ingest.columns import INGESTED_AT
from headwater.ingest.topic import TopicTarget
from headwater.model import WEIGHT, Kind, Mark, Version
from headwater.runtime.holding import holding
from headwater.runtime.topics import open_topic, topic_target
from headwater.session import fork
from headwater.sources.decoding.base import POSITION, RAW
from headwater.spec import Topic
from headwater.spec.base import placed
from headwater.warehouse import Warehouse

BESIDE = "__remap"


@dataclass(frozen=True)
class Remapped:
    """What a remap did."""

    topic: str
    version: Version
    rows_before: int
    rows_after: int
    rejected: int


def remap(warehouse: Warehouse, topic: str) -> Remapped:
    """Reapply today's selection, upcasters, mappers and schema policy to `_raw`.

    The new rows are built beside the topic while it goes on; what was appended meanwhile follows under the table's
    lock, and one commit puts them in place. Older versions stay readable.
    """
    definition = warehouse.definition(Kind.TOPIC, topic)
    assert isinstance(definition, Topic)
    spark = fork(warehouse.spark)
    live = warehouse.existing(Kind.TOPIC, topic, spark)
    live.format.require(Capability.REPLACE)
    if RAW not in live.schema().names:
        raise UsageError(
            Code.USAGE,
            f"topic '{topic}' has not kept its payloads, so they can't be mapped again",
            where=definition.where,
            hint="`keep_raw: true` keeps them from now on; `headwater flow rebuild` reads the source again",
        )
    with holding(warehouse, flow_name(topic)) as guard:
        opened = open_topic(warehouse, topic, spark)
        reader = opened.reader
        beside = live.format.spark(spark, _beside(live.address), warehouse.around)
        beside.drop()
        if definition.deduplicate_within is not None:  # they were told apart by when they came, which is over
            definition = without_deduplication(definition)
        target = topic_target(
            warehouse, definition, reader, reader.raw_decoder, beside, opened.notes, guard, remembered=False
        )
        extras = [f.name for f in reader.extras.fields if f.name in live.schema().names]
        recalled = reader.recalled(live.schema().names)

        def records(df: DataFrame) -> DataFrame:
            return df.select(*map(column, (RAW, POSITION, INGESTED_AT, *extras)), *recalled)

        try:
            begun = live.version()
            assert begun is not None
            before = live.read(begun).count()
            rejected = _take(target, records(live.read(begun)), 0, topic)
            with writing(live.address):
                now = live.version()
                assert now is not None
                if now != begun:
                    late = live.changes(begun, now).where(column(WEIGHT) > 0)
                    before += late.count()
                    rejected += _take(target, records(late), 1, topic)
                guard()
                live.evolve(beside.schema())
                version = live.replace(beside.read())
            after = beside.read().count()
        finally:
            beside.drop()
            reader.close()
    return Remapped(topic, version, before, after, rejected)


def _take(target: TopicTarget, records: DataFrame, step: int, topic: str) -> int:
    now = datetime.now(timezone.utc)
    intent = Intent(1, step, {}, {}, "", now)
    mark = Mark(f"remap.{topic}.{now.timestamp():.0f}", 1, step)
    return target.commit(records, intent, mark).rejected


def without_deduplication(topic: Topic) -> Topic:
    """The topic as it is but for that."""
    plain = topic.model_copy(update={"deduplicate_by": (), "deduplicate_within": None})
    return placed(plain, topic.name, topic.where)


def _beside(address: Address) -> Address:
    if address.table is not None:
        return Address(table=address.table + BESIDE)
    return Address(path=(address.path or "").rstrip("/") + BESIDE)
