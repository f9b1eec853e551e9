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
from headwater.runner.leases import Lease
from headwater.runner.reload import reloadable
from headwater.runner.reports import FlowEvent, FlowReport, FlowState
from headwater.runner.setups import FlowSetup, named
from headwater.runner.socket.server import Answers, RunnerSocket
from headwater.runner.streams import stream_plan
from headwater.runner.supervisor import Supervisor, Worker, plans_by_flow
from headwater.runner.tables import table_plan
from headwater.runner.topics import topic_plan
from headwater.runner.views import view_plans
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
    named: frozenset[str] = frozenset()
    """The flows that it was told by name; none: all."""
    door: RunnerSocket | None = None

    def run(self, flows: Sequence[str] = ()) -> list[FlowReport]:
        """Run the named flows (all by default); returns when they are done or `stopping` is set.

        A flow that another runner holds is refused, in its report; the others run.
        """
        self.named = frozenset(named(self.warehouse, flow) for flow in flows)
        plans = self.chosen()
        prepare(self.warehouse, {plan.flow for plan in plans}, apply=self.apply)
        reports = [FlowReport(plan.flow) for plan in plans]
        holder = Holder.here()
        tending = Heartbeat(self.warehouse.state, holder, self.warehouse.project.settings.runtime.lease)
        taken = [plan for plan, report in zip(plans, reports, strict=True) if self._take(plan, report, tending)]
        self.door = None if self.answers is None or self.once else RunnerSocket(self.warehouse.project, self.answers)
        before, self.warehouse.restarts = self.warehouse.restarts, None  # a Spark that dies is replaced here
        try:
            if taken:
                tending.start()
                with nullcontext() if self.door is None else isolated(lambda: self.warehouse.project):
                    self._run(taken, plans, reports, tending)
        finally:
            self.warehouse.restarts = before
            if self.door is not None:
                self.door.close()
            tending.end()
        return reports

    def _run(
        self, taken: Sequence[FlowSetup], plans: Sequence[FlowSetup], reports: list[FlowReport], tending: Heartbeat
    ) -> None:
        """Until the flows are over; when Spark dies under them they go on in another, as after a crash."""
        restarts = Restarts(self.warehouse.project.settings.runtime.spark_restarts)
        spark = self.warehouse.spark  # started here, so that its failure is one failure and not one per flow
        trigger: Trigger | None = "once" if self.once else self.every
        flows = Supervisor(self.warehouse, tending, reports, trigger, self.tell)
        flows.named, flows.left_out = self.named, frozenset({plan.flow for plan in plans} - set(tending.leases))
        flows.plans = dict(plans_by_flow(plans, self.warehouse.project.views))
        tending.keepers = lambda: flows.keepers
        with nullcontext() if self.once else reloadable(self, flows):
            while not self._run_on(spark, taken, flows, tending):
                workers = [worker for worker in flows.workers.values() if self._goes_on(worker, tending)]
                taken, left = [one.keeper.plan for one in workers], [one.keeper.report for one in workers]
                owned = self.warehouse.owns_spark
                ending = bury(spark.sparkContext._gateway) if owned else Ending("Spark has ended")
                log.error("Spark has ended", how=str(ending))
                if not left:
                    return
                if not owned or not restarts.allow():
                    self._give_up(left, restarts.exhausted(ending, owned=owned))
                    return
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

    def _goes_on(self, worker: Worker, tending: Heartbeat) -> bool:
        """Whether a flow is to be run again in another Spark."""
        report, lease = worker.keeper.report, tending.leases.get(worker.keeper.plan.flow)
        if lease is None or lease.lost or report.state in (FlowState.DONE, FlowState.BLOCKED):
            return False
        return not (self.once and report.state is FlowState.FAILED)

    def _give_up(self, reports: Sequence[FlowReport], error: HeadwaterError) -> None:
        for report in reports:
            report.state, report.error = FlowState.FAILED, error
            self.tell(FlowEvent("failed", report.flow, {"error": str(error), "code": str(error.code)}))

    def _run_on(self, spark: SparkSession, plans: Sequence[FlowSetup], flows: Supervisor, tending: Heartbeat) -> bool:
        """Run the flows on a Spark; False if that has died under them."""
        tending.holder = tending.holder.with_jvm(jvm_pid())
        tending.renew()
        flows.begin(spark)
        own = {report.flow: report for report in tending.reports}
        workers = [flows.prepared(plan, tending.leases[plan.flow], own[plan.flow]) for plan in plans]
        if self.door is not None:
            tending.also = self.door.open  # again and again: the runner that has the door may leave before this one
        self.on_ready(flows.reports)
        for worker in workers:
            worker.thread.start()
        if not self.once:
            flows.supervise()
        stuck = self._await(flows, tending.holder)
        for keeper in flows.keepers:
            if keeper.plan.flow in stuck:
                # It may still write until the process ends: the lease is left to whoever finds the process dead.
                tending.leases.pop(keeper.plan.flow, None)
                if flows.spark_ended.is_set():
                    error = TerminalError(
                        Code.SPARK_FAILED, "Spark has ended, and the step in hand does not", hint=HINT
                    )
                    self._give_up([keeper.report], error)
            elif self.stopping.is_set() and keeper.report.state in _ACTIVE:
                keeper.report.state = FlowState.STOPPED  # Spark ended while the flow was stopped
        return self.stopping.is_set() or not flows.spark_ended.is_set()

    def chosen(self) -> list[FlowSetup]:
        """The flows that this runner is for, by the project as it is now."""
        wanted, project = self.named, self.warehouse.project
        plans = [topic_plan(self.warehouse, topic) for topic in project.topics.values()]
        streaming = streaming_tables(project)
        for name in kept_tables(project):
            plans.append((stream_plan if name in streaming else table_plan)(self.warehouse, name))
        return [plan for plan in plans if not wanted or plan.flow in wanted] + view_plans(self.warehouse, set(wanted))

    def _take(self, plan: FlowSetup, report: FlowReport, tending: Heartbeat) -> bool:
        """Take the flow's lease; whether it is ours."""
        try:
            lease = Lease.take(tending.state, plan.flow, tending.holder, tending.duration)
        except HeadwaterError as error:
            report.state, report.error = FlowState.FAILED, error
            self.tell(FlowEvent("failed", plan.flow, {"error": str(error), "code": str(error.code)}))
            return False
        tending.leases[plan.flow] = lease
        tending.reports.append(report)
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
        flows.end()
        threads = flows.threads
        grace = self.warehouse.project.settings.runtime.stop_within.total_seconds()
        if not _joined(threads, grace):
            for keeper in flows.keepers:
                if not keeper.over.is_set() and not flows.spark_ended.is_set():
                    log.info("step cancelled", flow=keeper.plan.flow)
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
