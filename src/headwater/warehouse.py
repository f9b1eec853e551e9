"""The lake as a whole: which relations it has, where they are, and a handle on each."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Code, HeadwaterError, ProjectError, Unsupported, UsageError, Where, did_you_mean
from headwater.core.logs import log_to
from headwater.core.model import WEIGHT, At, Kind
from headwater.core.progress import Ticker, byte_bar, say, ticking
from headwater.core.spec import RelationSpec, Table, Topic, View
from headwater.core.spec.base import placed
from headwater.core.state import STORED, RelationRecord, State
from headwater.core.state.paths import Roots
from headwater.core.storage import Files
from headwater.flows.ledger import flow_name
from headwater.formats.base import Address, Format, LakeContext
from headwater.formats.detection import found_in
from headwater.formats.lookup import TableLookup
from headwater.formats.registry import FORMATS, SYSTEM_FORMAT
from headwater.project.definition import ProjectDefinition
from headwater.project.fingerprint import fingerprint as fingerprint
from headwater.project.fingerprint import source_text
from headwater.recovery.reconciliation import reconcile, require_lake, require_readable
from headwater.sources.table.config import TableSource
from headwater.spark.internals import gateway_of
from headwater.spark.jvm import Restarts, bury, is_gone
from headwater.spark.object_stores import storage_needs
from headwater.spark.progress import work_of
from headwater.spark.session import (
    SessionNeeds,
    activate,
    close_session,
    end_queries,
    is_running,
    open_session,
    opening,
)
from headwater.spark.workers import send_modules
from headwater.targets.registry import TARGETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp  # loaded where a query is looked into: many commands have none

    from headwater.core.spec.settings import SparkSpec
    from headwater.formats.native import NativeTable
    from headwater.formats.spark_table import SparkTable


_MODELS: Mapping[Kind, type[RelationSpec]] = {Kind.TOPIC: Topic, Kind.TABLE: Table, Kind.VIEW: View}


class Warehouse:
    """One project's lake. Spark starts with the first thing that needs it."""

    def __init__(
        self,
        project: ProjectDefinition,
        spark: SparkSpec | None = None,
        spark_home: Path | None = None,
        *,
        quick: bool = False,
    ) -> None:
        """With `spark` and `spark_home`: a Spark with other settings than the project's, and another folder for it.

        `quick`: an embedded Spark is for one command.
        """
        self._quick = quick
        self.project = project
        self._spark_spec = spark or project.settings.spark
        self._spark_home = spark_home or project.home
        self.restarts: Restarts | None = Restarts(project.settings.runtime.spark_restarts)
        """How often a Spark of this lake that has died is started again by whoever asks for it; None: never."""
        self.context: LakeContext = project.lake_context
        self._spark: SparkSession | None = None
        self._started_spark = False
        self._state: State | None = None
        self._lock = threading.RLock()
        self._foreign_formats: set[str] = set()
        self._more_needs: list[SessionNeeds] = []
        """What exports want of Spark, alongside the project's formats and sources."""
        self._places: set[str] = set()
        """Where exports go: the stores that Spark has to reach."""
        self._work: Ticker | None = None
        """Tells of the work of a Spark that one command has started."""
        self._refreshes = threading.BoundedSemaphore(project.settings.runtime.max_concurrent_refreshes)
        self._asked = False
        """Whether a lake in a store has been compared with its state: not before it is used."""
        self.committed = threading.Condition()
        """Notified by every commit that a flow of this process makes."""

    @property
    def files(self) -> Files:
        return Files(self.context.warehouse, self.context.storage)

    @property
    def state(self) -> State:
        with self._lock:
            if self._state is None:
                roots = Roots(self.context.warehouse, str(self.project.root))
                state = State.of(self.project.settings.state, self.project.home, roots)
                log_to(self.project.home)
                try:
                    if self.project.problems:
                        require_readable(self.project, state)
                        state.refusal = ProjectError(self.project.problems)
                    else:
                        reconcile(self.project, state)
                except BaseException:
                    state.close()
                    raise
                self._state = state
            return self._state

    @property
    def spark(self) -> SparkSession:
        """The one Spark of this process, with what the project's formats need and nothing else."""
        with self._lock:
            if self._spark is not None and self._started_spark and self.restarts is not None and is_gone():
                ending = bury(gateway_of(self._spark.sparkContext))
                if not self.restarts.allow():
                    raise self.restarts.exhausted(ending)
                return self.restart_spark()
            if self._spark is None:
                self._require_writable()
                self._started_spark = self._started_spark or not is_running()
                if self._started_spark:
                    say("Starting Spark …")
                with byte_bar("Fetching connectors") as progress, ticking("starting Spark"):
                    self._spark = open_session(
                        f"headwater {self.project.name}",
                        self.needs(),
                        self._spark_spec,
                        home=self._spark_home,
                        quick=self._quick,
                        progress=progress,
                    )
                if self._quick and self._started_spark:
                    self._work = Ticker(partial(work_of, self._spark))
                    self._work.start()
                send_modules(self._spark, {Path(f.file) for f in self.project.functions}, self.project.home)
            return self._spark

    def restart_spark(self) -> SparkSession:
        """A new Spark in the place of this lake's own, which has died; whoever asks for one meanwhile waits for it."""
        with self._lock, opening:
            if self._spark is not None:
                close_session(self._spark)
                self._spark = None
            return self.spark

    @property
    def owns_spark(self) -> bool:
        """Whether the Spark that is used was started for this lake."""
        return self._started_spark and self._spark is not None

    def needs(self) -> Iterable[SessionNeeds]:
        names = {SYSTEM_FORMAT.name, *self._foreign_formats, *(record.format for record in self.state.relations())}
        for kind in Kind:
            names.update(map(self.project.format_of, self.project.relations(kind).values()))
        read = [source for source in self.project.sources.values() if isinstance(source, TableSource)]
        names.update(source.format for source in read)
        paths = (self.project.location(source.path) for source in read if source.path is not None)
        places = [*self._places, *(self.project.location(one.to) for one in self.project.exports.values())]
        stores = storage_needs(self.project.settings.storage, [self.context.warehouse, *paths, *places])
        formats = {one.format for one in self.project.exports.values() if one.format in TARGETS}
        outlets = (TARGETS.get(name).needs(self.context) for name in sorted(formats))
        sources = (SessionNeeds(connectors=source.connectors) for source in self.project.sources.values())
        return [
            stores,
            *sources,
            *outlets,
            *self._more_needs,
            *(FORMATS.get(name).needs(self.context) for name in sorted(names)),
        ]

    # --- relations

    def names(self, kind: Kind) -> list[str]:
        """The relations of a kind: defined by the project, or made and recorded."""
        recorded = (record.name for record in self.state.relations(kind))
        return sorted({*self.project.relations(kind), *recorded})

    def views(self) -> list[str]:
        """Those that something keeps: of the project, or made by a statement. What left the project is left alone."""
        whole = not self.project.problems
        made = (one.name for one in self.state.relations(Kind.VIEW) if one.statement is not None or not whole)
        return sorted({*self.project.views, *made})

    def definition(self, kind: Kind, name: str) -> RelationSpec:
        """What the project says of a relation, or the statement that made it."""
        definition = self.project.relations(kind).get(name)
        if definition is not None:
            return definition
        record = self.record(kind, name)
        if kind is Kind.VIEW and record is not None and record.statement is not None:
            return placed(View.model_validate_json(record.statement), name, Where("statement"))
        if self.project.problems and record is not None and record.made_from is not None:
            return placed(_MODELS[kind].model_validate_json(record.made_from), name, Where("state"))
        raise self.unknown(kind, name)

    def record(self, kind: Kind, name: str) -> RelationRecord | None:
        return self.state.relation(kind, name)

    def format(self, kind: Kind, name: str) -> Format:
        record = self.record(kind, name)
        return FORMATS.get(record.format if record else self.project.format_of(self.definition(kind, name)))

    def address(self, kind: Kind, name: str) -> Address:
        """Where a relation is recorded to be, else where its definition puts it."""
        record = self.record(kind, name)
        if record is not None:
            return Address(record.path, record.table)
        definition = self.definition(kind, name)
        if definition.path is not None:
            return Address(path=self.project.location(definition.path))
        if definition.table is not None and not _names_a_source_table(self.project, definition):
            return Address(table=definition.table)
        return self.format(kind, name).address(self.context, kind.plural, name)

    def table(self, kind: Kind, name: str, spark: SparkSession | None = None) -> SparkTable:
        """A handle; the table itself may not have been made yet."""
        session = spark or self.spark
        activate(session)
        return self.format(kind, name).spark(session, self.address(kind, name), self.context)

    def existing(self, kind: Kind, name: str, spark: SparkSession | None = None) -> SparkTable:
        """A handle on a table that is there."""
        if name not in self.names(kind):
            raise self.unknown(kind, name)
        self.require_lake()
        table = self.table(kind, name, spark)
        if not table.exists():
            raise self.without_data(kind, name)
        return table

    def lookup(self, kind: Kind, name: str) -> TableLookup:
        """What commands ask of a table that is there, besides its rows: mostly answered without Spark."""
        if name not in self.names(kind):
            raise self.unknown(kind, name)
        self.require_lake()
        format = self.format(kind, name)
        native = None if format.native is None else self._native(format, self.address(kind, name))
        if native is not None and not native.exists():
            raise self.without_data(kind, name)
        return TableLookup(format, native, lambda: self.existing(kind, name))

    def _native(self, format: Format, address: Address) -> NativeTable | None:
        """A table's native reader; None where it can't open such a table."""
        assert format.native is not None
        try:
            native = format.native(address, self.context)
            native.exists()
        except Unsupported as refused:
            say(f"{refused.problem.message}: asking Spark")
            return None
        return native

    def rows(self, kind: Kind, name: str, spark: SparkSession | None = None, at: At | None = None) -> DataFrame:
        """A relation's rows as people see them: without hidden columns, in the order that a view's query asks for."""
        stored = self.existing(kind, name, spark).read(at)
        record = self.record(kind, name)
        return stored if record is None or record.shown is None else shown(stored, record.shown)

    def changes(
        self, kind: Kind, name: str, spark: SparkSession | None = None, start: At | None = None, end: At | None = None
    ) -> DataFrame:
        """What people see come (+1) and go (-1) from a version or time (None: nothing) to another (None: latest)."""
        table = self.existing(kind, name, spark)
        record = self.record(kind, name)
        first = None if start is None else table.version_at(start)
        last = table.version() if end is None else table.version_at(end)
        if last is None:
            raise UsageError(Code.NO_SUCH_VERSION, f"{kind.value} '{name}' has no version yet")
        if record is None or record.shown is None:
            return table.changes(first, last)
        from headwater.spark.frames import diff

        query = unordered(record.shown)
        if first is not None and query.args.get("limit") is None and query.args.get("offset") is None:
            # Row by row: what changed in hidden columns alone has come and gone alike, and cancels out.
            weighted = query.select(quoted_column(WEIGHT)).sql(dialect="spark")
            seen = shown(table.changes(first, last), weighted)
            return diff(seen.where(seen[WEIGHT] < 0).drop(WEIGHT), seen.where(seen[WEIGHT] > 0).drop(WEIGHT))
        new = shown(table.read(last), record.shown)
        return diff(new.limit(0) if first is None else shown(table.read(first), record.shown), new)

    def columns(self, kind: Kind, name: str) -> list[str]:
        """The columns that people see, as far as they are known without Spark."""
        record, format = self.record(kind, name), self.format(kind, name)
        if record is None or format.native is None:
            return []
        try:
            stored = format.native(self.address(kind, name), self.context).read().schema.names
        except HeadwaterError:
            return []
        return [column for column in stored if column not in record.hidden]

    def stream(
        self, kind: Kind, name: str, *, changes: bool = False, start: At | None = None, consumer: str = "stream"
    ) -> DataFrame:
        """A streaming frame of what people see; what is cut off by LIMIT can't be followed."""
        rows = self.existing(kind, name).read_stream(changes=changes, start=start, consumer=consumer)
        record = self.record(kind, name)
        if record is None or record.shown is None:
            return rows
        query = unordered(record.shown)
        if query.args.get("limit") is not None:
            raise Unsupported(f"{kind.value} '{name}' is cut off by LIMIT: what comes in and falls out is not recorded")
        return shown(rows, (query.select(quoted_column(WEIGHT)) if changes else query).sql(dialect="spark"))

    def need_format(self, format: str) -> None:
        """Have Spark know a format that the project may not name. Called before the session is used for it."""
        with self._lock:
            if format not in self._foreign_formats:
                self._foreign_formats.add(format)
                self._spark = None  # the next session has what this format needs, or says what it lacks

    def need(self, needs: SessionNeeds, place: str) -> None:
        """Have Spark know what a target of an export needs, and the store that it lies in. Called before the session
        is used for it."""
        with self._lock:
            if needs not in self._more_needs and needs != SessionNeeds():
                self._more_needs.append(needs)
                self._spark = None  # the next session has it, or says what it lacks
            if place not in self._places:
                self._places.add(place)
                if "://" in place:
                    self._spark = None

    def foreign(self, format: str, address: Address, spark: SparkSession | None = None) -> SparkTable:
        """A handle on somebody else's table."""
        of = FORMATS.get(format)
        if spark is None:
            self.need_format(format)
        session = spark or self.spark
        activate(session)
        table = of.spark(session, address, self.context)
        if not table.exists():
            there = None if address.path is None else found_in(Files(address.path, self.context.storage))
            hint = None if there is None else f"what lies there is {there}"
            raise UsageError(Code.NO_SUCH_RELATION, f"there is no {of.title} table at {address}", hint=hint)
        return table

    def remember(self, kind: Kind, name: str, *, hidden: tuple[str, ...] = (), shown: str | None = None) -> None:
        """Record a relation that has just been made, or what has changed of it."""
        address = self.address(kind, name)
        definition = self.definition(kind, name)
        known = self.record(kind, name)
        record = RelationRecord(
            kind, name, self.format(kind, name).name, address.path, address.table,
            hidden=hidden, definition=fingerprint(definition), shown=shown, made_from=definition.model_dump_json(),
            source=source_text(self.project, definition) if isinstance(definition, Topic) else None,
        )  # fmt: skip
        self.state.put(record if known is None else replace(record, created_at=known.created_at))

    def refreshing(self) -> AbstractContextManager[object]:
        """A place among the refreshes that may run at once."""
        return self._refreshes

    def how_to_fill(self, kind: Kind, name: str) -> str:
        """What gives a relation its first rows: the hint of an error that misses them."""
        definition = self.definition(kind, name)
        if isinstance(definition, View) and definition.refresh.mode in ("manual", "on_query"):
            return f"refresh it first: headwater mv refresh {name}"
        if isinstance(definition, Table) and not any(definition.origins.values()):
            return f"load it first: headwater table load {name} FILE"
        source = self.project.sources.get(definition.from_) if isinstance(definition, Topic) else None
        if source is not None and source.takes_rows:
            return f"append to it first: headwater topic append {name} FILE"
        if flow_name(name, kind) in self.state.statuses():
            return "nothing has come yet: `headwater check` says if its source is not as it should be"
        return "run it first: headwater run --once"

    def without_data(self, kind: Kind, name: str) -> UsageError:
        return UsageError(
            Code.NO_SUCH_RELATION, f"{kind.value} '{name}' has no data yet", hint=self.how_to_fill(kind, name)
        )

    def unknown(self, kind: Kind, name: str) -> UsageError:
        return UsageError(
            Code.NO_SUCH_RELATION,
            f"there is no {kind.value} '{name}'",
            hint=did_you_mean(name, self.names(kind)),
        )

    def close(self) -> None:
        """Let go of everything; a Spark that was there before is left running."""
        if self._work is not None:
            self._work.stop()
            self._work = None
        if self._spark is not None and self._started_spark:
            end_queries(self._spark)  # outside of the lock: their last batches may ask this warehouse for something
        with self._lock:
            if self._spark is not None and self._started_spark:
                close_session(self._spark)
            self._spark, self._started_spark = None, False
            if self._state is not None:
                self._state.close()
                self._state = None

    def require_lake(self) -> None:
        """Raise where the lake was, and is no more: its disk may not be mounted."""
        state = self.state
        require_lake(self.project, state)
        if not self._asked and not self.files.is_local and not self.project.problems:
            reconcile(self.project, state, reading=True)
        self._asked = True

    def _require_writable(self) -> None:
        """A warehouse that can't be written is said before Spark starts."""
        self.require_lake()
        state = self.state
        if self.project.problems:
            return  # nothing is written
        self.files.make_folder("_headwater")
        reconcile(self.project, state, making=True)


def unordered(shown: str) -> exp.Select:
    """What is shown of a relation, without its order: for rows that come one by one."""
    import sqlglot
    from sqlglot import exp

    query = sqlglot.parse_one(shown, dialect="spark")
    assert isinstance(query, exp.Select)
    query.set("order", None)
    return query


def quoted_column(name: str) -> exp.Column:
    from sqlglot import exp

    return exp.column(name, quoted=True)


def shown(stored: DataFrame, sql: str) -> DataFrame:
    """What a query over STORED makes of the stored rows; of a version before a column was added, without that."""
    frames: dict[str, Any] = {STORED: stored}
    # Names may have braces, which would stand for what is given.
    text = without_later_columns(sql, stored.columns).replace("{", "{{").replace("}", "}}")
    return stored.sparkSession.sql(text.replace(STORED, "{" + STORED + "}"), **frames)


def without_later_columns(sql: str, columns: Iterable[str]) -> str:
    """What is shown of a version from before some columns were added: without them, and where it is asked whether one
    of them is NULL, it is."""
    import sqlglot
    from sqlglot import exp

    query = sqlglot.parse_one(sql, dialect="spark")
    known = {name.lower() for name in columns}

    def is_later(each: exp.Expr) -> bool:
        return isinstance(each, exp.Column) and each.name.lower() not in known

    asked = query.expressions if isinstance(query, exp.Select) else []
    later = [each for each in asked if is_later(each)]
    where = query.args.get("where")
    tests = [] if where is None else [one for one in where.find_all(exp.Is) if is_later(one.this)]
    for each in later:
        each.pop()
    for test in tests:
        test.replace(exp.true())
    return query.sql(dialect="spark") if later or tests else sql


def _names_a_source_table(project: ProjectDefinition, definition: RelationSpec) -> bool:
    """A CDC topic's `table` is the captured table, not its own name."""
    if not isinstance(definition, Topic):
        return False
    source = project.sources.get(definition.from_)
    return source is not None and source.captures_tables
