"""A topic's rows made again from their raw bytes, by today's selection and mapping; built alongside and swapped in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql import DataFrame

from headwater.core.errors import Code, UsageError
from headwater.core.model import WEIGHT, CommitTag, Kind, Row, Version
from headwater.core.record import Record
from headwater.core.spec import Topic
from headwater.core.spec.base import placed
from headwater.flows.ledger import Intent, flow_name
from headwater.flows.step import Step
from headwater.formats.base import Address, Capability
from headwater.formats.locks import writing
from headwater.ingest.columns import INGESTED_AT
from headwater.ingest.dead_letters import DeadLetters
from headwater.ingest.topic import TopicTarget
from headwater.operations.differences import Differences, differences, examples_of
from headwater.project.graph import Name
from headwater.runner.holds import holding
from headwater.runner.leases import require_free
from headwater.runner.setups.stream_inputs import restart_streams
from headwater.runner.setups.topics import open_topic, topic_target
from headwater.sources.decoders.base import POSITION, RAW
from headwater.spark.frames import column
from headwater.spark.session import fork
from headwater.warehouse import Warehouse

REPLAY_SUFFIX = "__remap"


@dataclass(frozen=True)
class Remapped(Record):
    """What a remap did, or would do."""

    topic: str
    version: Version | None
    """The version that it made; None: it has not been done."""
    rows_before: int
    rows_after: int
    rows_new: int
    rows_gone: int
    rows_changed: int
    rejected: int
    examples: tuple[Row, ...] = ()
    """Of a remap that was only tried: some rows that would come, go and change, as they are and as they would be."""


class _NotKept(DeadLetters):
    """Counts what can't be ingested, while it is not yet known whether that is meant."""

    def put(self, rejected: DataFrame, topic: str, source: str, commit_tag: CommitTag) -> int:
        return rejected.count()


def remap(warehouse: Warehouse, topic: str, *, dry_run: bool = False, may_remove: bool = False) -> Remapped:
    """Reapply today's selection, upcasters, mappers and schema policy to `_raw`.

    The new rows are built alongside the topic while it goes on; what was appended meanwhile follows under the table's
    lock, and one commit puts them in place. Older versions stay readable. Where rows would go it is refused unless
    `may_remove`; with `dry_run` nothing is changed, and the answer says what would be.
    """
    definition = warehouse.definition(Kind.TOPIC, topic)
    assert isinstance(definition, Topic)
    _require_possible(warehouse, definition)
    spark = fork(warehouse.spark)
    live = warehouse.existing(Kind.TOPIC, topic, spark)
    _require_payloads(definition, live.schema().names)
    with holding(warehouse, flow_name(topic)) as guard:
        opened = open_topic(warehouse, topic, spark)
        reader = opened.reader
        staging = live.format.spark(spark, _alongside(live.address), warehouse.context)
        staging.drop()
        if definition.deduplicate_within is not None:  # they were told apart by when they came, which is over
            definition = without_deduplication(definition)
        dead_letters = DeadLetters if may_remove and not dry_run else _NotKept
        target = topic_target(
            warehouse,
            definition,
            reader,
            reader.raw_decoder,
            staging,
            opened.notes,
            guard,
            remembered=False,
            dead_letters=dead_letters(spark, warehouse.context),
        )
        metadata_columns = [f.name for f in reader.metadata_columns.fields if f.name in live.schema().names]
        recalled = reader.recalled(live.schema().names)

        def records(df: DataFrame) -> DataFrame:
            return df.select(*map(column, (RAW, POSITION, INGESTED_AT, *metadata_columns)), *recalled)

        try:
            begun = live.version()
            assert begun is not None
            rejected = _take(target, records(live.read(begun)), 0, topic)
            found = differences(live.read(begun), staging.read())
            if dry_run:
                return _outcome(topic, None, found, rejected, examples_of(live.read(begun), staging.read()))
            if not may_remove:
                _require_none_gone(topic, found)
            with writing(live.address):
                now = live.version()
                assert now is not None
                if now != begun:
                    late = live.changes(begun, now).where(column(WEIGHT) > 0).drop(WEIGHT)
                    rejected += _take(target, records(late), 1, topic)
                    made = staging.read().join(late.select(column(POSITION)).distinct(), POSITION, "left_semi")
                    found += differences(late, made)
                    if not may_remove:
                        _require_none_gone(topic, found)
                guard()
                if found.gone or found.changed:
                    restart_streams(warehouse, Name(Kind.TOPIC, topic))
                live.evolve(staging.schema())
                version = live.replace(staging.read())
        finally:
            staging.drop()
            reader.close()
    return _outcome(topic, version, found, rejected)


def _require_possible(warehouse: Warehouse, topic: Topic) -> None:
    """Refuse what can't be done before anything is computed, and before Spark starts."""
    warehouse.format(Kind.TOPIC, topic.name).require(Capability.REPLACE)
    if warehouse.record(Kind.TOPIC, topic.name) is None:
        raise warehouse.without_data(Kind.TOPIC, topic.name)
    require_free(warehouse.state, flow_name(topic.name))
    if columns := warehouse.columns(Kind.TOPIC, topic.name):
        _require_payloads(topic, columns)


def _require_payloads(topic: Topic, columns: Sequence[str]) -> None:
    if RAW not in columns:
        raise UsageError(
            Code.USAGE,
            f"topic '{topic.name}' doesn't store its payloads, so they can't be mapped again",
            where=topic.where,
            hint="`keep_raw: true` keeps them from now on; "
            f"`headwater flow rebuild {topic.name} --yes` reads the source again",
        )


def _outcome(
    topic: str, version: Version | None, found: Differences, rejected: int, examples: Sequence[Row] = ()
) -> Remapped:
    counts = (found.before, found.after, found.new, found.gone, found.changed)
    return Remapped(topic, version, *counts, rejected, tuple(examples))


def _require_none_gone(topic: str, found: Differences) -> None:
    if found.gone:
        raise UsageError(
            Code.USAGE,
            f"{found.gone} of {found.before} rows of topic '{topic}' would go, and with them what tables and views made"
            " of them",
            hint="--dry-run shows which; confirm with --yes",
        )


def _take(target: TopicTarget, records: DataFrame, step: int, topic: str) -> int:
    now = datetime.now(timezone.utc)
    flow = f"remap.{topic}.{now.timestamp():.0f}"
    return target.commit(records, Step(flow, Intent(1, step, {}, {}, "", now))).rejected


def without_deduplication(topic: Topic) -> Topic:
    """The topic as it is but for that."""
    plain = topic.model_copy(update={"deduplicate_by": (), "deduplicate_within": None})
    return placed(plain, topic.name, topic.where)


def _alongside(address: Address) -> Address:
    if address.table is not None:
        return Address(table=address.table + REPLAY_SUFFIX)
    return Address(path=(address.path or "").rstrip("/") + REPLAY_SUFFIX)
