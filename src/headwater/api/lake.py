"""The Python API: a lake, its relations, its queries, its flows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.api.relations import ForeignTable, MaterializedView, Relation, TopicOrTable
from headwater.api.results import (
    DeadLetter,
    DeadLetterDetails,
    PreparedStatement,
    RelationSummary,
    SourcePreparation,
    SourceSummary,
    SystemTableSummary,
)
from headwater.core.errors import Code, ProjectError, TerminalError, Unsupported, UsageError, did_you_mean, require_text
from headwater.core.model import Kind
from headwater.core.record import html_table
from headwater.flows.ledger import flow_name
from headwater.formats.base import Address
from headwater.project.definition import ProjectDefinition
from headwater.project.load.loader import load_project
from headwater.project.partial import partial_project
from headwater.query.record_list import Listing
from headwater.query.settings import SqlSettings
from headwater.spark.errors import keep_words
from headwater.sql.names import FUNCTIONS, resolve
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.core.state.export_jobs import ExportJob
    from headwater.exports.interop.sync import SyncResult
    from headwater.exports.snapshot import Exported
    from headwater.ingest.dead_letter_list import DeadLetterList
    from headwater.ingest.dead_letters import DeadLetters
    from headwater.maintenance.report import MaintenanceReport
    from headwater.maintenance.subject import MaintenanceAction
    from headwater.operations.backup.restore import RestoreResult
    from headwater.operations.backup.take import BackupResult
    from headwater.operations.interop import InteropTargetState
    from headwater.operations.plan import PlannedAction
    from headwater.operations.replay import ReplayedLetters
    from headwater.query.engines import Engine
    from headwater.query.limits import Limits, QueryStop
    from headwater.query.result import Result
    from headwater.runner.reload import Reloaded
    from headwater.runner.reports import FlowEvent, FlowReport, FlowResult
    from headwater.runner.socket.server import Answers
    from headwater.runner.status import FlowStatus
    from headwater.views.descriptions import DroppedView, ViewSummary
    from headwater.views.records import Refreshed


class Lake:
    """A project's lake. Spark starts with the first call that needs it; `close` ends it."""

    def __init__(self, project: ProjectDefinition, *, quick: bool = False, checked: bool = False) -> None:
        """`quick`: an embedded Spark starts in half the time, and is slower once it has millions of rows to read."""
        if not checked and not project.problems:
            _require_right(project)
        self._project = project
        self._warehouse = Warehouse(project, quick=quick)
        self._settings = SqlSettings()

    def __repr__(self) -> str:
        counts = ", ".join(_count(self._warehouse.names(kind), kind) for kind in Kind)
        return f"<Lake '{self.project.name}' of {self.project.file}: {counts}>"

    def _repr_html_(self) -> str:
        """Its relations: what a notebook shows."""
        rows = [
            {
                "relation": f"{word}('{name}')",
                "format": self._warehouse.format(kind, name).name,
                "has data": "" if self._warehouse.record(kind, name) is None else "yes",
                "what it is": getattr(self.project.relations(kind).get(name), "description", ""),
            }
            for word, kind in FUNCTIONS.items()
            for name in self._warehouse.names(kind)
        ]
        return html_table(["relation", "format", "has data", "what it is"], rows, note=repr(self))

    @property
    def project(self) -> ProjectDefinition:
        """What the project's files say; `problems` are their mistakes."""
        return self._project

    @property
    def settings(self) -> SqlSettings:
        """What `SET` has set for this lake's queries."""
        return self._settings

    @classmethod
    def open(cls, path: Path | str = ".", target: str | None = None, *, quick: bool = False) -> Lake:
        """The lake of the project at or above a path."""
        _require_path(path)
        return cls(load_project(path, target), quick=quick)

    @classmethod
    def look(cls, path: Path | str = ".", target: str | None = None) -> Lake:
        """The lake of a project that may have mistakes: what is there can be read, and flows be paused and resumed.

        `project.problems` has the mistakes; whatever would be done by a definition raises them.
        """
        _require_path(path)
        return cls(partial_project(path, target), quick=True, checked=True)

    @staticmethod
    def restore(source: str | Path, path: Path | str = ".", target: str | None = None) -> RestoreResult:
        """Put a backup where the project at or above a path has its lake, which has to be empty."""
        from headwater.operations.backup.restore import restore_backup

        return restore_backup(load_project(path, target), str(source))

    def backup(self, destination: str | Path, *, metadata_only: bool = False) -> BackupResult:
        """Copy the lake, its state, catalog and ledger into an empty folder, while runners and readers go on."""
        from headwater.operations.backup.take import back_up

        return back_up(self._warehouse, str(destination), metadata_only=metadata_only)

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        keep_words(error)
        self.close()

    @property
    def spark(self) -> SparkSession:
        """The Spark session; starts Spark if nothing has yet."""
        return self._warehouse.spark

    def connectors(self) -> list[str]:
        """Names in the connector lock: what the project's session needs."""
        return sorted({name for need in self._warehouse.needs() for name in need.connectors})

    def close(self) -> None:
        """End what it has started; an embedded Spark with it."""
        self._warehouse.close()

    # --- sources

    def sources(self) -> Listing[SourceSummary]:
        """Every source: its type and the topics that it feeds."""
        fed: dict[str, list[str]] = {}
        for name, topic in self.project.topics.items():
            fed.setdefault(topic.from_, []).append(name)
        return Listing(
            SourceSummary(name, spec.type, tuple(fed.get(name, ())), spec.description)
            for name, spec in self.project.sources.items()
        )

    def prepare_source(self, name: str, *, run: bool = False) -> SourcePreparation:
        """What the other end of a source needs; `run` does what is not done yet."""
        from headwater.sources.registry import preparation

        spec = self.project.sources.get(name)
        if spec is None:
            hint = did_you_mean(name, self.project.sources)
            raise UsageError(Code.UNKNOWN_REFERENCE, f"there is no source '{name}'", hint=hint)
        needs = preparation(spec, self.project.name)
        if run:
            needs.run()
        statements = tuple(PreparedStatement(one.sql, one.why, one.done) for one in needs.statements)
        return SourcePreparation(name, run, statements, tuple(needs.notes))

    # --- relations

    def topic(self, name: str) -> TopicOrTable:
        """One of its topics, by name."""
        return TopicOrTable(self._warehouse, Kind.TOPIC, name)

    def table(self, name: str) -> TopicOrTable:
        """One of its tables, by name."""
        return TopicOrTable(self._warehouse, Kind.TABLE, name)

    def view(self, name: str) -> MaterializedView:
        """One of its materialized views, by name."""
        return MaterializedView(self._warehouse, Kind.VIEW, name)

    def relation(self, name: str) -> Relation:
        """A topic, table or view as SQL names it: `orders`, `tables.orders`, `mv('orders')`."""
        from headwater.sql.references import parse_reference

        require_text(name, "the name of a relation")
        reference = parse_reference(name)
        kind = resolve(reference, {kind: self._warehouse.names(kind) for kind in Kind})
        return (MaterializedView if kind is Kind.VIEW else TopicOrTable)(self._warehouse, kind, reference.name)

    def names(self) -> dict[str, list[str]]:
        """Every relation, by the word that SQL has for its kind: `topic`, `table`, `mv`."""
        return {word: self._warehouse.names(kind) for word, kind in FUNCTIONS.items()}

    def system_tables(self) -> Listing[SystemTableSummary]:
        """What the lake tells of its own work: the tables of the schema `system`."""
        from headwater.query.system.registry import SYSTEM_TABLES

        return Listing(SystemTableSummary(one.name, one.columns, one.description) for one in SYSTEM_TABLES.values())

    def foreign(self, format: str, *, path: str | None = None, table: str | None = None) -> ForeignTable:
        """Somebody else's table, by path or by name in a catalog: `foreign("iceberg", table="lake.sales.orders")`."""
        if (path is None) == (table is None):
            raise UsageError(Code.USAGE, "give the table's path or its name in a catalog, one of them")
        address = Address(self.project.location(path) if path else None, table)
        return ForeignTable(self._warehouse.foreign(format, address))

    def topics(self) -> Listing[RelationSummary]:
        """Every topic: where it comes from, where it is, and whether it has data."""
        return Listing(self.topic(name).summary() for name in self._warehouse.names(Kind.TOPIC))

    def tables(self) -> Listing[RelationSummary]:
        """Every table: what keeps it, where it is, and whether it has data."""
        return Listing(self.table(name).summary() for name in self._warehouse.names(Kind.TABLE))

    def views(self) -> Listing[ViewSummary]:
        """Every view: how it is kept, and how its last refresh went."""
        from headwater.operations.view_lookups import list_views

        return Listing(list_views(self._warehouse))

    def create_view(
        self,
        name: str,
        sql: str,
        *,
        mode: str | None = None,
        every: str | timedelta | None = None,
        max_staleness: str | timedelta | None = None,
        policy: str = "auto",
        format: str | None = None,
        partition_by: Sequence[str] = (),
        description: str = "",
        replace: bool = False,
    ) -> Refreshed:
        """Make a view and build it; with `replace` alongside the one of its name, whose place it takes."""
        from headwater.operations.views import create_view, refresh_of

        self.project.require_whole()
        refresh = refresh_of(mode=mode, every=every, max_staleness=max_staleness, policy=policy)
        return create_view(
            self._warehouse,
            name,
            sql,
            refresh,
            replace=replace,
            format=format,
            partition_by=partition_by,
            description=description,
        )

    def drop_view(self, name: str, *, if_exists: bool = False) -> DroppedView:
        """Drop a view with its table; refused while another one reads it."""
        from headwater.operations.views import drop_view

        self.project.require_whole()
        return drop_view(self._warehouse, name, if_exists=if_exists)

    def dead_letters(
        self, topic: str | None = None, limit: int | None = None, reason: str | None = None
    ) -> Listing[DeadLetter]:
        """Events that could not be ingested, newest first; all of them without a `limit`."""
        self._require_lettered(topic)
        try:
            rows = self._letter_list().list(topic, limit, reason)
        except Unsupported:
            rows = self._letters(topic).list(topic, limit, reason)
        return Listing(DeadLetter(**one) for one in rows)

    def dead_letter(self, id: str) -> DeadLetterDetails:
        """One of them with its bytes, by its id or the beginning of it."""
        try:
            row = self._letter_list().find(id)
        except Unsupported:
            row = self._letters(None).find(id)
        raw = row.pop("raw")
        return DeadLetterDetails(**row, raw=None if raw is None else bytes(raw))

    def replay_dead_letters(
        self, topic: str | None = None, *, ids: Sequence[str] = (), reason: str | None = None
    ) -> Listing[ReplayedLetters]:
        """Run dead letters through today's pipeline; says per topic what came through."""
        from headwater.operations.late_rows import let_in
        from headwater.operations.replay import replay

        self.project.require_whole()
        dead_letters = self._letters(topic)
        chosen: dict[str, list[str]] = {}
        if ids and topic is None:
            for one in map(dead_letters.find, ids):
                chosen.setdefault(str(one["topic"]), []).append(str(one["id"]))
        else:
            project = self._warehouse.project
            known = {*project.topics, *(flow_name(table, Kind.TABLE) for table in project.tables)}
            topics = [topic] if topic is not None else [name for name in dead_letters.topics() if name in known]
            chosen = {name: list(ids) for name in topics}
        done: Listing[ReplayedLetters] = Listing()
        for name, some in chosen.items():
            _, of_table, table = name.partition("tables.")
            again, what = (let_in, table) if of_table else (replay, name)
            done.append(again(self._warehouse, what, ids=some, reason=reason))
        return done

    def drop_dead_letters(self, topic: str | None = None, *, ids: Sequence[str] = (), reason: str | None = None) -> int:
        """Forget dead letters for good; returns how many."""
        dead_letters = self._letters(topic)
        if ids:
            rows = [
                one
                for one in map(dead_letters.find, ids)
                if topic in (None, one["topic"]) and reason in (None, one["reason"])
            ]
            return sum(dead_letters.drop(str(one["topic"]), [str(one["id"])]) for one in rows)
        topics = [topic] if topic is not None else list(dead_letters.topics())
        return sum(dead_letters.drop(name, dead_letters.ids(name, (), reason, whole=True)) for name in topics)

    def _letters(self, topic: str | None) -> DeadLetters:
        from headwater.ingest.dead_letters import DeadLetters

        self._require_lettered(topic)
        return DeadLetters(self.spark, self._warehouse.context)

    def _letter_list(self) -> DeadLetterList:
        from headwater.ingest.dead_letter_list import DeadLetterList

        self._warehouse.require_lake()
        return DeadLetterList(self._warehouse.context)

    def _require_lettered(self, topic: str | None) -> None:
        """Raise where there is no such topic, or table by `tables.x`, that may have dead letters."""
        kind, name = Kind.TOPIC, topic
        if topic is not None and topic.startswith("tables."):
            kind, name = Kind.TABLE, topic.partition(".")[2]
        if name is not None and name not in self._warehouse.names(kind):
            raise self._warehouse.unknown(kind, name)

    # --- work

    def sql(
        self,
        statement: str,
        *,
        engine: Engine | None = None,
        limit: int | None = None,
        limits: Limits | None = None,
        stopping: QueryStop | None = None,
        read_only: bool = False,
        may_refresh: bool = False,
    ) -> Result:
        """The answer to a query over `topic('x')`, `table('x')`, `mv('x')`, or to any other statement.

        `limit` gives a query's first rows, `limits` what it may take, `stopping` a switch to cancel it by. `read_only`
        refuses whatever is not a question about the lake's own relations, by functions that reach no further; it
        refreshes a view of mode `on_query` that is too old only if it `may_refresh`.
        """
        from headwater.api.statements import execute

        require_text(statement, "a statement")
        return execute(
            self._warehouse,
            statement,
            self.settings,
            engine=engine,
            limit=limit,
            limits=limits,
            stopping=stopping,
            read_only=read_only,
            may_refresh=may_refresh,
        )

    def run(
        self,
        flows: Sequence[str] = (),
        *,
        exclude: Sequence[str] = (),
        once: bool = False,
        every: timedelta | None = None,
        on_event: Callable[[FlowEvent], None] | None = None,
        stopping: threading.Event | None = None,
        on_ready: Callable[[Sequence[FlowReport]], None] | None = None,
        answers: Answers | None = None,
        apply: bool = False,
        reloading: threading.Event | None = None,
        watch: bool = False,
    ) -> Listing[FlowResult]:
        """Run flows until they are up to date (`once`), or until `stopping` is set. `flows` are selectors (`orders`,
        `tag:nightly+`), all for none, without those of `exclude`. `apply`: also where the project has changed in a way
        that takes rows away.

        `on_event` is called, from the flows' threads, with everything that happens to them; `on_ready` when they
        begin, with the reports that they keep. `answers` runs the commands of other terminals meanwhile. `reloading`,
        when it is set, has the project's files read again; `watch` does that whenever they change.
        """
        from headwater.runner.runner import Runner

        self.project.require_whole()
        runner = Runner(self._warehouse, every, once, stopping=stopping or threading.Event(), answers=answers)
        runner.select, runner.exclude = flows, exclude
        runner.apply, runner.watch = apply, watch
        runner.reloading = reloading or runner.reloading
        runner.on_event = on_event or runner.on_event
        runner.on_ready = on_ready or runner.on_ready
        return Listing(report.result() for report in runner.run())

    @staticmethod
    def reload(path: Path | str = ".", target: str | None = None, *, apply: bool = False) -> Reloaded:
        """Have the runner of this process take up its project as the files are now; NO_RUNNER where there is none."""
        from headwater.project.load.files import find_project
        from headwater.runner.reload import reload_here

        return reload_here(find_project(path), target, apply=apply)

    def plan(self) -> Listing[PlannedAction]:
        """What a run would do to the lake: create, change, rebuild; why, and what that reads."""
        from headwater.operations.plan import planned

        self.project.require_whole()
        return Listing(planned(self._warehouse))

    # --- exports

    def export(self, what: str, *, format: str | None = None, to: str | None = None, **keys: object) -> Exported:
        """Copy a topic, table, view or query to another place, once: `lake.export("topic('orders')", format="parquet",
        to="s3://bucket/orders")`. `keys` are those of an export in the project file. Without `format` and `to`, `what`
        is the name of an export of the project.

        Returns when readers that are not Headwater's have found the same rows in the copy.
        """
        from headwater.operations.exports.definitions import definition_of
        from headwater.operations.exports.jobs import run_export

        return run_export(self._warehouse, definition_of(self._warehouse, what, {"format": format, "to": to, **keys}))

    def export_stream(self, what: str, *, format: str, to: str, **keys: object) -> ExportJob:
        """Begin a copy that is kept up to date: it is filled now, and whoever runs the lake's flows goes on with it."""
        from headwater.operations.exports.definitions import definition_of
        from headwater.operations.exports.jobs import begin_stream, export_job

        described = {"format": format, "to": to, **keys, "mode": "streaming"}
        flow = begin_stream(self._warehouse, definition_of(self._warehouse, what, described))
        for done in self.run([flow], once=True):
            if done.error is not None:
                raise TerminalError(Code.FLOW_BLOCKED, f"{flow}: {done.error}")
        return export_job(self._warehouse, flow.partition(".")[2])

    def export_jobs(self) -> Listing[ExportJob]:
        """The jobs of exports, newest first: what was copied, how far they are, who has read the copies back."""
        from headwater.operations.exports.jobs import export_jobs

        return Listing(export_jobs(self._warehouse))

    def export_job(self, id: str) -> ExportJob:
        """One of them, by its id or the beginning of it."""
        from headwater.operations.exports.jobs import export_job

        return export_job(self._warehouse, id)

    def stop_export(self, id: str) -> ExportJob:
        """Ask a job that runs in any process to stop: its target stays as it was."""
        from headwater.operations.exports.jobs import stop_export

        return stop_export(self._warehouse, id)

    def resume_export(self, id: str) -> Exported | None:
        """Run a job again that was stopped, has failed, or whose process has ended. A stream goes on where a runner is
        up; nothing is returned then."""
        from headwater.operations.exports.jobs import resume_export

        return resume_export(self._warehouse, id)

    def maintain(
        self,
        names: Sequence[str] = (),
        *,
        dry_run: bool = False,
        on_action: Callable[[MaintenanceAction], None] = lambda action: None,
    ) -> MaintenanceReport:
        """Compact, cluster, expire and clean up what is due, of the named relations or of all; no row changes.

        With `dry_run` nothing is done: the report says what is due, by which rule, and who needs which old version.
        """
        from headwater.maintenance.report import maintain

        return maintain(self._warehouse, names, dry_run=dry_run, on_action=on_action)

    def sync_interop(
        self, name: str, to: Sequence[str] = (), *, full: bool = False, replace: bool = False
    ) -> Listing[SyncResult]:
        """Bring a relation's tables in other formats (by default those of its `interop`) to its latest version.

        No row is copied, and what a reader that is not ours sees of the change is compared before anybody else does;
        `full`: of the whole table. `replace` makes a table again that somebody else has written to.
        """
        from headwater.operations.interop import sync_relation

        self.project.require_whole()
        return Listing(sync_relation(self._warehouse, name, to, full=full, replace_target=replace))

    def interop_targets(self) -> Listing[InteropTargetState]:
        """The tables of other formats over the lake's files: where they are, and how far. Needs no Spark."""
        from headwater.operations.interop import target_states

        return Listing(target_states(self._warehouse))

    def drop_interop(self, name: str, formats: Sequence[str]) -> list[str]:
        """Drop a relation's tables in other formats, and none of the files; those that there were."""
        from headwater.operations.interop import drop_relation_targets

        return drop_relation_targets(self._warehouse, name, formats)

    def status(self) -> Listing[FlowStatus]:
        """How every flow is, without Spark, and also while another process runs it."""
        from headwater.runner.status import flow_statuses

        return Listing(flow_statuses(self._warehouse))

    def flows(self, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[str]:
        """The flows that selectors mean, all for none: `orders`, `tag:nightly`, `+views.daily`, `source:crm+`."""
        from headwater.runner.selection import select_flows

        return list(select_flows(self._warehouse, select, exclude).flows)

    def pause(self, flow: str) -> None:
        """Take no further step of a flow, in whatever process runs it, until it is resumed."""
        from headwater.runner import control

        control.pause(self._warehouse, flow)

    def resume(self, flow: str) -> None:
        """Go on with a flow that was paused, or try one again that was given up."""
        from headwater.runner import control

        control.resume(self._warehouse, flow)

    def start_over(self, flow: str, *, empty: bool) -> int:
        """Read a flow's source from its beginning, into its table as it is or emptied: at once where a runner has it,
        else with the next run."""
        from headwater.runner import control

        return control.start_over(self._warehouse, flow, empty=empty)


def _require_path(path: object) -> None:
    if not isinstance(path, Path):
        require_text(path, "the path of a project")


def _require_right(project: ProjectDefinition) -> None:
    """Raise what is wrong with a project."""
    from headwater.project.check import check_project  # with a parser of SQL, which looking at a lake does without

    problems = check_project(project)
    if problems:
        raise ProjectError(problems)


def _count(names: Sequence[str], kind: Kind) -> str:
    return f"{len(names)} {kind.value if len(names) == 1 else kind.plural}"
