"""Erasure: rows of a topic are removed, with everything in the lake that was made of them, and proved to be gone.

The condition is written down first: from then on ingest lets no such row in, and the command, given again after it was
cut off, finds what is left to do by looking for the values. Each relation is written again without them, in the order
in which the rows went through the lake; when all that read it have read on, its past is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.errors import Code, Unsupported, UsageError
from headwater.core.model import Kind
from headwater.core.progress import say
from headwater.core.spec import Topic
from headwater.exports.interop.sync import drop_targets
from headwater.flows.ledger import Ledger, flow_name
from headwater.flows.retention import removed_before
from headwater.formats.base import Capability
from headwater.formats.feed import advance_feeds
from headwater.formats.registry import FORMATS
from headwater.formats.spark_table import SparkTable
from headwater.ingest.dead_letters import DeadLetters
from headwater.ingest.forgotten import ForgottenCondition, ForgottenRows
from headwater.operations import tags
from headwater.operations.erasure.condition import ErasureCondition
from headwater.operations.erasure.exports import ErasedExport, erase_in_stream, snapshots_of, streams_of
from headwater.operations.erasure.feeds import clean_feeds
from headwater.operations.erasure.places import (
    drop_empty_folders,
    held_by,
    is_of_conditions,
    is_of_letters,
    lies_in,
    notes_folder,
    search_lake,
)
from headwater.operations.erasure.readers import catch_up, is_kept, made_from, old_checkpoints, reads_only_now
from headwater.operations.erasure.receipt import ErasedRelation, ErasureCheck, ErasureReceipt, keep
from headwater.operations.erasure.search import Holding, Searched
from headwater.project.graph import Name, graph_of
from headwater.project.transforms import streaming_tables
from headwater.query import gathered
from headwater.runner.holds import alone
from headwater.runner.setups.setup import Guard
from headwater.runner.setups.stream_inputs import restart_streams
from headwater.spark.errors import reason, spark_errors
from headwater.spark.session import fork
from headwater.views.retired import Retired
from headwater.warehouse import Warehouse


def check(warehouse: Warehouse, topic: str, where: str) -> ErasureCheck:
    """Look for the values of a condition in every file of the lake; changes nothing, and needs no Spark."""
    if topic not in warehouse.names(Kind.TOPIC):
        raise warehouse.unknown(Kind.TOPIC, topic)
    warehouse.require_lake()
    condition = ErasureCondition(where)
    clauses = condition.clauses
    say("Decoding every file of the lake …")
    found = search_lake(warehouse, condition)
    held = tuple(one for one in found.holding if not is_of_conditions(one))
    return ErasureCheck(
        topic,
        found.files,
        found.bytes,
        held,
        tuple(found.undecoded),
        not all(clauses),
        tuple(one.path for one in found.holding if is_of_conditions(one)),
        clean=not held and not found.undecoded,
    )


def forget(warehouse: Warehouse, topic: str, where: str, *, dry_run: bool = False, yes: bool = False) -> ErasureReceipt:
    """Remove the rows of a topic that meet a condition, and all that was made of them; see the module. `yes`: also if
    all rows meet it, or versions with labels go. With `dry_run` nothing is changed."""
    if topic not in warehouse.names(Kind.TOPIC):
        raise warehouse.unknown(Kind.TOPIC, topic)
    condition = ErasureCondition(where)
    assert condition.clauses is not None
    _require_erasable(warehouse, topic)
    erasure = Erasure(warehouse, topic, condition)
    erasure.look()
    if dry_run or not erasure.is_needed:
        return erasure.receipt(done=False)
    if not yes:
        erasure.require_meant()
    with erasure.everything_held() as guard, spark_errors(f"topic '{topic}'"):
        erasure.erase(guard)
    return erasure.receipt(done=True)


@dataclass
class _Before:
    """One relation as it was."""

    rows: int
    labels: tuple[str, ...]
    files: set[str]


@dataclass
class Erasure:
    """One condition on its way through the lake."""

    warehouse: Warehouse
    topic: str
    condition: ErasureCondition
    rows: int = 0
    rows_before: int = 0
    letters: list[str] = field(default_factory=list)
    found: Searched = field(default_factory=Searched)
    held: dict[Name, list[Holding]] = field(default_factory=dict)
    expired: dict[Name, int] = field(default_factory=dict)
    before: dict[Name, _Before] = field(default_factory=dict)
    entry: ForgottenCondition | None = None
    was_begun: bool = False
    copies: list[ErasedExport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._name = Name(Kind.TOPIC, self.topic)
        self._definition = self.warehouse.definition(Kind.TOPIC, self.topic)
        assert isinstance(self._definition, Topic)
        self._list = ForgottenRows(self.warehouse.files, self.topic)
        self._spark: SparkSession = fork(self.warehouse.spark)
        self._table = self.warehouse.existing(Kind.TOPIC, self.topic, self._spark)
        for capability in (Capability.REPLACE, Capability.EXPIRE):
            self._table.format.require(capability)
        self._readers = made_from(self.warehouse, self.topic)
        self._relations = [self._name, *self._readers]
        self._streams = streams_of(self.warehouse, self._relations)
        self._at = datetime.now(timezone.utc).isoformat(timespec="seconds")

    # --- what there is

    def look(self) -> None:
        """Find what meets the condition, and every file that holds one of its values."""
        rows = self._table.read()
        self.rows_before, self.rows = _counted(rows, self.condition)
        schema = self._table.schema()
        known = self.condition.continues(schema, self._list.all())
        self.was_begun = known is not None and known.done_at is None
        self.entry = known or self.condition.kept(schema)
        self.letters = list(DeadLetters(self._spark, self.warehouse.context).to_forget(self.topic, [self.entry]))
        say("Looking for it in every file of the lake …")
        self.found = search_lake(self.warehouse, self.condition)
        self.held = held_by(self.warehouse, [self._name, *self._readers], self.found)
        if self.rows or self.was_begun:
            self.held.setdefault(self._name, [])
        for name in self.held:
            table = self.warehouse.table(name.kind, name.name, self._spark)
            labels = tuple(one.label for one in tags.tags_of(self.warehouse, *name))
            self.before[name] = _Before(table.read().count(), labels, self._files_of(name, self.found))

    @property
    def is_needed(self) -> bool:
        return bool(self.rows or self.letters or self.held or self.was_begun)

    def require_meant(self) -> None:
        """Refuse what may be a slip."""
        if self.rows_before and self.rows == self.rows_before:
            raise UsageError(
                Code.USAGE,
                f"all {self.rows} rows of topic '{self.topic}' meet the condition",
                hint="confirm with --yes",
            )
        restarted = ", ".join(map(str, self._begins_again))
        if restarted:
            raise UsageError(
                Code.USAGE,
                f"{restarted} would begin again from what topic '{self.topic}' has now, and `retain.rows` has removed"
                " rows of it before",
                hint="confirm with --yes",
            )
        labels = [f"{name}: {', '.join(one.labels)}" for name, one in self.before.items() if one.labels]
        if labels:
            raise UsageError(
                Code.USAGE,
                f"versions with labels hold what is to be forgotten, and go with it ({'; '.join(labels)})",
                hint="confirm with --yes",
            )

    @property
    def _is_retained(self) -> bool:
        """Whether what is made of the topic has rows that the topic has lost by their age."""
        return removed_before(self.warehouse.files, str(self._name)) is not None

    @property
    def _begins_again(self) -> list[Name]:
        """Tables whose state would be that of the rows which the topic still has."""
        if not (self.rows or self.was_begun) or not self._is_retained:
            return []
        tables, streaming = self.warehouse.project.tables, streaming_tables(self.warehouse.project)
        direct = [name for name in self._readers if name.kind is Kind.TABLE and self._reads_topic(name)]
        return [name for name in direct if tables[name.name].apply is not None or name.name in streaming]

    def _reads_topic(self, name: Name) -> bool:
        return any(each.of == self._name for each in graph_of(self.warehouse.project).inputs.get(name, ()))

    # --- what is done

    @contextmanager
    def everything_held(self) -> Iterator[Guard]:
        """No runner has the topic's flow, or one of what is made of it."""
        with ExitStack() as held:
            flows = [self._name, *(name for name in self._readers if is_kept(self.warehouse, name))]
            names = [*(flow_name(one.name, one.kind) for one in flows), *self._streams]
            guards = [held.enter_context(alone(self.warehouse, one)) for one in names]

            def guard() -> None:
                for each in guards:
                    each()

            yield guard

    def erase(self, guard: Guard) -> None:
        """All of it; what was done before a crash is done again, and finds less."""
        assert self.entry is not None
        self._list.put(self.entry)
        notes = notes_folder(self.warehouse, flow_name(self.topic))
        if self._takes_rows and any(one.path.startswith(notes) for one in self.found.holding):
            catch_up(self.warehouse, self._name, guard)  # appended rows that wait: those to forget are not let in
        for name in (self._name, *self._readers):  # their metadata tell of the rows; the next sync makes them again
            drop_targets(self.warehouse, name.kind, name.name)
        letters = DeadLetters(self._spark, self.warehouse.context)
        if self.letters or any(is_of_letters(one.path) for one in self.found.holding):
            letters.erase(self.topic, letters.to_forget(self.topic, [self.entry]))
        if self._name in self.held:
            say(f"Writing {self._name} again …")
            restart_streams(self.warehouse, self._name)
            guard()
            told = F.coalesce(F.expr(self.condition.sql), F.lit(False))
            self._table.renew(self._table.read().where(~told))
        for name in self._readers:
            self._follow(name, guard)
        for flow, definition in self._streams.items():
            say(f"Bringing {flow} up to date …")
            self.copies.append(erase_in_stream(self.warehouse, flow, definition, guard))
        self.copies += snapshots_of(self.warehouse, self._relations)
        for name in self.held:
            self._erase_past(name)

    @property
    def _takes_rows(self) -> bool:
        assert isinstance(self._definition, Topic)
        return self.warehouse.project.sources[self._definition.from_].takes_rows

    def _follow(self, name: Name, guard: Guard) -> None:
        """Let what is made of the rows take the removal in, and write it again where it held a value."""
        say(f"Bringing {name} up to date …")
        flow = flow_name(name.name, name.kind)
        if name in self._begins_again and name.name not in streaming_tables(self.warehouse.project):
            Ledger(self.warehouse.files, flow).restart(empty=True)
        if is_kept(self.warehouse, name):
            catch_up(self.warehouse, name, guard)
            if not reads_only_now(self.warehouse, name):  # nothing of it changed, and it still reads an old version
                Ledger(self.warehouse.files, flow).restart(empty=name.kind is Kind.TABLE)
                catch_up(self.warehouse, name, guard)
        Retired(self.warehouse.files, flow).drop(self._spark, self.warehouse.context, at_once=True)
        for path in old_checkpoints(self.warehouse, name):
            self.warehouse.files.delete(path)
        if name in self.held:
            restart_streams(self.warehouse, name)
            guard()
            table = self._table_of(name)
            table.renew(self._without(table.read()) if name.kind is Kind.TABLE and self._is_retained else None)

    def _without(self, rows: DataFrame) -> DataFrame:
        """Rows of a table that has what the topic has lost by its age, without those that meet the condition; all of
        them where the table has other columns: what it still holds of them is told."""
        try:
            return rows.where(~F.coalesce(F.expr(self.condition.sql), F.lit(False)))
        except AnalysisException:
            return rows

    def _erase_past(self, name: Name) -> None:
        """Nobody needs the versions before any more."""
        table = self._table_of(name)
        advance_feeds(table)
        clean_feeds(self.warehouse, name, self.condition)
        for label in self.before[name].labels:
            tags.untag(self.warehouse, name.kind, name.name, label)
        gathered.forget(self.warehouse, name.kind, name.name)
        self.expired[name] = len(table.erase_past())
        drop_empty_folders(self.warehouse, name)

    def _table_of(self, name: Name) -> SparkTable:
        return self.warehouse.table(name.kind, name.name, self._spark)

    # --- what is told

    def receipt(self, *, done: bool) -> ErasureReceipt:
        """What was done, after another look at every file; or what would be."""
        assert self.entry is not None
        if done:
            say("Proving that it is gone …")
        after = search_lake(self.warehouse, self.condition) if done else self.found
        relations = tuple(self._erased(name, after, done=done) for name in self.held)
        held = tuple(one for one in after.holding if not is_of_conditions(one))
        made = ErasureReceipt(
            id=self.entry.id if done else None,
            topic=self.topic,
            at=self._at,
            rows=self.rows,
            rows_before=self.rows_before,
            dead_letters=len(self.letters),
            relations=relations,
            files_checked=after.files,
            held=held if done else tuple(one for one in held if not self._is_covered(one)),
            undecoded=tuple(after.undecoded),
            legible=self.entry.legible,
            done=done,
            exports=tuple(self.copies),
        )
        if done:
            self._list.done(self.entry)
            keep(self.warehouse.files, made)
        return made

    def _is_covered(self, holding: Holding) -> bool:
        return any(holding in mine for mine in self.held.values()) or is_of_letters(holding.path)

    def _erased(self, name: Name, after: Searched, *, done: bool) -> ErasedRelation:
        before = self.before[name]
        return ErasedRelation(
            name=str(name),
            rows_found=sum(one.records for one in self.held[name]),
            rows_removed=before.rows - self._table_of(name).read().count() if done else 0,
            versions_expired=self.expired.get(name, 0),
            files_deleted=len(before.files - after.paths) if done else 0,
            labels=before.labels,
        )

    def _files_of(self, name: Name, found: Searched) -> set[str]:
        return {path for path in found.paths if lies_in(self.warehouse, name, path)}


def _require_erasable(warehouse: Warehouse, topic: str) -> None:
    """Refused before anything is looked at: what can't be proved to be gone is not called erased."""
    for name in [Name(Kind.TOPIC, topic), *made_from(warehouse, topic)]:
        format = warehouse.format(name.kind, name.name)
        if not format.erases:
            able = ", ".join(each.title for each in FORMATS if each.erases)
            raise Unsupported(
                f"{name} is kept in {format.title}, and rows can be erased from {able} only",
                where=warehouse.project.where(str(name)),
            )


def _counted(rows: DataFrame, condition: ErasureCondition) -> tuple[int, int]:
    """How many rows there are, and how many meet the condition; refused where Spark can't tell."""
    try:
        found = rows.agg(F.count(F.lit(1)), F.count_if(F.expr(condition.sql))).first()
    except AnalysisException as error:
        unknown = "UNRESOLVED" in (error.getErrorClass() or "")
        code = Code.UNKNOWN_COLUMN if unknown else Code.INVALID_SQL
        raise UsageError(
            code,
            f"the condition {condition.text} does not fit the topic: {reason(error)}",
            hint="a condition is true or false for each row of the topic, by its columns",
        ) from error
    assert found is not None
    return int(found[0]), int(found[1])
