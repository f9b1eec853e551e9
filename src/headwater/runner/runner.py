"""Runs flows: each in its own thread and session, none able to take the others down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.logs import get_logger
from headwater.core.spec.base import Trigger
from headwater.operations.plan import prepare
from headwater.project.runnable import kept_tables
from headwater.project.transforms import streaming_tables
from headwater.query.spark.isolation import isolated
from headwater.runner.heartbeat import Heartbeat
from headwater.runner.holders import Holder
from headwater.runner.idle import are_idle
from headwater.runner.interop import InteropFollower
from headwater.runner.leases import Lease, is_lent
from headwater.runner.maintenance import RunnerMaintenance
from headwater.runner.reload import reloadable
from headwater.runner.reports import FlowEvent, FlowReport, FlowState
from headwater.runner.selection import flows_to_run
from headwater.runner.setups.exports import export_setups
from headwater.runner.setups.setup import FlowSetup
from headwater.runner.setups.streams import stream_setup
from headwater.runner.setups.tables import table_setup
from headwater.runner.setups.topics import topic_setup
from headwater.runner.setups.views import view_setups
from headwater.runner.socket.server import Answers, RunnerSocket
from headwater.runner.supervisor import Supervisor, Worker, setups_by_flow
from headwater.runner.suspects import Suspects
from headwater.sources.reader import Lag
from headwater.spark.internals import gateway_of
from headwater.spark.jvm import HINT, Ending, Restarts, bury
from headwater.spark.session import jvm_pid
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNWINDING = 3.0
"""Seconds that cancelled steps may take to come to an end, before Spark is ended under them and again after that."""

_ACTIVE = frozenset({FlowState.STARTING, FlowState.RUNNING, FlowState.WAITING, FlowState.RETRYING})

log = get_logger(__name__)


def _nothing(_: object = None) -> None:
    pass


@dataclass
class Runner:
    """The flows of one lake, until they are done or told to stop."""

    warehouse: Warehouse
    every: timedelta | None = None
    once: bool = False
    on_event: Callable[[FlowEvent], None] = _nothing
    stopping: threading.Event = field(default_factory=threading.Event)
    on_ready: Callable[[Sequence[FlowReport]], None] = _nothing
    """Called when Spark is up and the flows begin, with what they will report."""
    answers: Answers | None = None
    """Runs commands that come in by the socket; where there is none, or the run comes to an end, nobody listens."""
    apply: bool = False
    """Do what the project asks for also where that takes rows away."""
    reloading: threading.Event = field(default_factory=threading.Event)
    """Set from outside: read the project's files again, and go on by them."""
    watch: bool = False
    """Do that whenever they change."""
    select: Sequence[str] = ()
    """Selectors of the flows that it is for; none: all that run by themselves."""
    exclude: Sequence[str] = ()
    """Selectors of those among them that it is not for."""
    named: frozenset[str] = frozenset()
    """The flows that it is for; none: all."""
    door: RunnerSocket | None = None
    _maintenance: RunnerMaintenance | None = None
    _interop: InteropFollower | None = None
    _lent: set[str] = field(default_factory=set)
    """Flows that commands worked on when it began."""

    def run(self) -> list[FlowReport]:
        """Run the selected flows; returns when they are done or `stopping` is set.

        A flow that another runner holds is refused, in its report; the others run.
        """
        self.warehouse.require_lake()
        if self.select or self.exclude:
            self.named = flows_to_run(self.warehouse, self.select, self.exclude)
        setups = self.chosen()
        prepare(self.warehouse, {setup.flow for setup in setups}, apply=self.apply)
        known = self.warehouse.state.statuses()
        reports = [FlowReport.after(setup.flow, known.get(setup.flow)) for setup in setups]
        holder = Holder.here()
        heartbeat = Heartbeat(self.warehouse.state, holder, self.warehouse.project.settings.runtime.lease)
        taken = [setup for setup, report in zip(setups, reports, strict=True) if self._take(setup, report, heartbeat)]
        self.door = None if self.answers is None or self.once else RunnerSocket(self.warehouse.project, self.answers)
        before, self.warehouse.restarts = self.warehouse.restarts, None  # a Spark that dies is replaced here
        try:
            if taken or self._lent:
                heartbeat.start()
                if self.once and self._rests(taken, reports, heartbeat):
                    self._sync_interop(reports)
                    return reports
                with nullcontext() if self.door is None else isolated(lambda: self.warehouse.project):
                    self._run(taken, setups, reports, heartbeat)
                if self.once and not self.stopping.is_set():
                    self._sync_interop(reports)
        finally:
            self.warehouse.restarts = before
            if self.door is not None:
                self.door.close()
            heartbeat.end()
        return reports

    def _rests(self, taken: Sequence[FlowSetup], reports: Sequence[FlowReport], heartbeat: Heartbeat) -> bool:
        """Whether no flow has anything to do: then no Spark is started, and all are done."""
        paused = {setup.flow for setup in taken if heartbeat.control(setup.flow).paused}
        if not are_idle(self.warehouse, [setup.flow for setup in taken if setup.flow not in paused]):
            return False
        self.on_ready(reports)
        own = {report.flow: report for report in reports}
        for setup in taken:
            report, rests = own[setup.flow], setup.flow in paused
            self.tell(FlowEvent("started", setup.flow))
            report.state = FlowState.PAUSED if rests else FlowState.DONE
            if rests:
                self.tell(FlowEvent("paused", setup.flow))
            else:
                report.lag = Lag(records=0)
                self.tell(FlowEvent("finished", setup.flow, {"steps": 0, "rows": 0, "rejected": 0}))
        return True

    def _run(
        self, taken: Sequence[FlowSetup], setups: Sequence[FlowSetup], reports: list[FlowReport], heartbeat: Heartbeat
    ) -> None:
        """Until the flows are over; when Spark dies under them they go on in another, as after a crash."""
        restarts, suspects = Restarts(self.warehouse.project.settings.runtime.spark_restarts), Suspects()
        spark = self.warehouse.spark  # started here, so that its failure is one failure and not one per flow
        trigger: Trigger | None = "once" if self.once else self.every
        flows = Supervisor(self.warehouse, heartbeat, reports, trigger, self.tell)
        flows.named, flows.left_out = (
            self.named,
            frozenset({setup.flow for setup in setups} - {*heartbeat.leases, *self._lent}),
        )
        flows.lent = set(self._lent)
        flows.setups = dict(setups_by_flow(setups, self.warehouse.project.views))
        heartbeat.keepers = lambda: flows.keepers
        with nullcontext() if self.once else reloadable(self, flows):
            while not self._run_on(spark, taken, flows, heartbeat, suspects):
                workers = [worker for worker in flows.workers.values() if self._goes_on(worker, heartbeat)]
                taken, left = [one.keeper.setup for one in workers], [one.keeper.report for one in workers]
                suspects.note_end([one.keeper for one in workers], flows.ended_at)
                owned = self.warehouse.owns_spark
                ending = bury(gateway_of(spark.sparkContext)) if owned else Ending("Spark has ended")
                log.error("Spark has ended", how=str(ending))
                if not left:
                    return
                if not owned or not (restarts.allow() or self._goes_on_without(suspects, left, ending, restarts)):
                    self._give_up(left, restarts.exhausted(ending, owned=owned))
                    return
                left = [report for report in left if not suspects.is_given_up(report)]
                for report in left:
                    report.state, report.error = FlowState.RETRYING, restarts.pending(ending)
                    report.spark_restarts = restarts.count
                    details = {"error": str(report.error), "code": str(report.error.code), "count": restarts.count}
                    self.tell(FlowEvent("restart", report.flow, details))
                try:
                    with flows.changing:
                        spark = self.warehouse.restart_spark()
                except HeadwaterError as error:
                    self._give_up(left, error)
                    return
                for report in left:
                    report.state, report.error = FlowState.STARTING, None

    def _goes_on_without(
        self, suspects: Suspects, reports: Sequence[FlowReport], ending: Ending, restarts: Restarts
    ) -> bool:
        """Give up those flows alone that have ended Spark, if it can be told and there are others."""
        errors = suspects.give_up(ending)
        others = [one for one in reports if one.flow not in errors and not suspects.is_given_up(one)]
        if not errors or not others:
            return False
        for report in reports:
            if report.flow in errors:
                report.state, report.error = FlowState.FAILED, errors[report.flow]
        return restarts.allow_again()

    def _goes_on(self, worker: Worker, heartbeat: Heartbeat) -> bool:
        """Whether a flow is to be run again in another Spark."""
        report, lease = worker.keeper.report, heartbeat.leases.get(worker.keeper.setup.flow)
        if lease is None or lease.lost or report.state in (FlowState.DONE, FlowState.BLOCKED):
            return False
        return not (self.once and report.state is FlowState.FAILED)

    def _give_up(self, reports: Sequence[FlowReport], error: HeadwaterError) -> None:
        for report in reports:
            report.state, report.error = FlowState.FAILED, error
            self.tell(FlowEvent("failed", report.flow, {"error": str(error), "code": str(error.code)}))

    def _run_on(
        self,
        spark: SparkSession,
        setups: Sequence[FlowSetup],
        flows: Supervisor,
        heartbeat: Heartbeat,
        suspects: Suspects,
    ) -> bool:
        """Run the flows on a Spark; False if that has died under them."""
        heartbeat.holder = heartbeat.holder.with_jvm(jvm_pid())
        heartbeat.renew()
        flows.begin(spark)
        own = {report.flow: report for report in heartbeat.reports}
        workers = [flows.prepared(setup, heartbeat.leases[setup.flow], own[setup.flow]) for setup in setups]
        for worker in workers:
            suspects.prepare(worker.keeper)
        if self.door is not None:
            heartbeat.also = self.door.open  # again and again: the runner that has the door may leave before this one
        self.on_ready(flows.reports)
        for worker in workers:
            worker.thread.start()
        if not self.once:
            flows.supervise()
            self._maintain(spark)
            self._interop = self._follower(heartbeat.reports)
            self._interop.start()
        stuck = self._await(flows, heartbeat.holder)
        for keeper in flows.keepers:
            if keeper.setup.flow in stuck:
                # It may still write until the process ends: the lease is left to whoever finds the process dead.
                heartbeat.leases.pop(keeper.setup.flow, None)
                if flows.spark_ended.is_set():
                    error = TerminalError(
                        Code.SPARK_FAILED, "Spark has ended, and the step in hand does not", hint=HINT
                    )
                    self._give_up([keeper.report], error)
            elif self.stopping.is_set() and keeper.report.state in _ACTIVE:
                keeper.report.state = FlowState.STOPPED  # Spark ended while the flow was stopped
        return self.stopping.is_set() or not flows.spark_ended.is_set()

    def _maintain(self, spark: SparkSession) -> None:
        """From now on the lake's files are looked after, unless the project says that they are not to be."""
        settings = self.warehouse.project.settings.maintenance
        if settings is not None and not self.warehouse.project.problems:
            self._maintenance = RunnerMaintenance(self.warehouse, settings, spark, self.named, self.tell)
            self._maintenance.start()

    def _sync_interop(self, reports: Sequence[FlowReport]) -> None:
        """A run that ends by itself leaves tables of other formats up to date, or says of which flow they are not."""
        own = {report.flow: report for report in reports}
        for flow, error in self._follower(reports).sync_all().items():
            if flow in own and own[flow].error is None:
                own[flow].state, own[flow].error = FlowState.FAILED, error

    def _follower(self, reports: Sequence[FlowReport]) -> InteropFollower:
        def report_of(flow: str) -> FlowReport | None:
            return next((report for report in list(reports) if report.flow == flow), None)

        return InteropFollower(self.warehouse, self.named, self.tell, report_of)

    def choose_again(self) -> None:
        """By the project as it is now; where nothing of it is selected any more, there is nothing to run."""
        if self.select or self.exclude:
            self.named = flows_to_run(self.warehouse, self.select, self.exclude, strict=False) or self.named

    def chosen(self) -> list[FlowSetup]:
        """The flows that this runner is for, by the project as it is now."""
        wanted, project = self.named, self.warehouse.project
        setups = [topic_setup(self.warehouse, topic) for topic in project.topics.values()]
        streaming = streaming_tables(project)
        for name in kept_tables(project):
            setups.append((stream_setup if name in streaming else table_setup)(self.warehouse, name))
        setups += export_setups(self.warehouse)
        return [setup for setup in setups if not wanted or setup.flow in wanted] + view_setups(
            self.warehouse, set(wanted)
        )

    def _take(self, setup: FlowSetup, report: FlowReport, heartbeat: Heartbeat) -> bool:
        """Take the flow's lease; whether it is ours. One that a command has is taken later, when it comes back."""
        try:
            lease = Lease.take(heartbeat.state, setup.flow, heartbeat.holder, heartbeat.duration)
        except HeadwaterError as error:
            if error.code is Code.FLOW_HELD and not self.once and is_lent(heartbeat.state, setup.flow):
                self._lent.add(setup.flow)
                return False
            report.state, report.error = FlowState.FAILED, error
            self.tell(FlowEvent("failed", setup.flow, {"error": str(error), "code": str(error.code)}))
            return False
        heartbeat.leases[setup.flow] = lease
        heartbeat.reports.append(report)
        return True

    def _await(self, flows: Supervisor, holder: Holder) -> set[str]:
        """Until all flows are over; those that can't be stopped are left, by their names."""
        while not self.stopping.is_set() and not flows.is_idle:
            time.sleep(0.05)  # a join without a time-out would not let a signal through
            if holder.has_no_jvm:
                flows.spark_ended.set()
            if flows.spark_ended.is_set():
                break
            if not self.once:
                flows.note_blocked()
            self._stop_if_pointless(flows)
        flows.ended_at = time.monotonic()
        if self._interop is not None:
            self._interop.end()
        if self._maintenance is not None:  # first: a flow's last step may wait for a table
            self._maintenance.end()
        flows.end()
        threads = flows.threads
        grace = self.warehouse.project.settings.runtime.stop_within.total_seconds()
        if not _joined(threads, grace):
            for keeper in flows.keepers:
                if not keeper.over.is_set() and not flows.spark_ended.is_set():
                    log.info("step cancelled", flow=keeper.setup.flow)
                    keeper.cancel()
            if not _joined(threads, UNWINDING) and self.warehouse.owns_spark:
                holder.end_jvm()  # what it has not committed is done again at the next start
                _joined(threads, UNWINDING)
        return {thread.name for thread in threads if thread.is_alive()}

    def _stop_if_pointless(self, flows: Supervisor) -> None:
        """Stop when every flow that has not ended was given up."""
        running = [worker.keeper for worker in list(flows.workers.values()) if worker.thread.is_alive()]
        if running and not flows.lent and all(keeper.given_up for keeper in running):
            self.stopping.set()

    def tell(self, event: FlowEvent) -> None:
        """Pass on what has happened, from any thread."""
        if event.event == "step":
            with self.warehouse.committed:
                self.warehouse.committed.notify_all()
        try:
            self.on_event(event)
        except Exception as caught:  # whoever listens must not be able to stop a flow
            log.error("listener failed", error=str(caught), exc_info=caught)


def _joined(threads: Sequence[threading.Thread], seconds: float) -> bool:
    """Whether all threads were over within the time."""
    deadline = time.monotonic() + seconds
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(thread.is_alive() for thread in threads)
