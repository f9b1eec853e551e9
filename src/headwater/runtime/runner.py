"""Runs flows: each in its own thread and session, none able to take the others down."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headwater.errors import Code, HeadwaterError, TerminalError
from headwater.jvm import HINT, Ending, Restarts, bury
from headwater.logs import get_logger
from headwater.project.runnable import kept_tables
from headwater.project.transforms import streaming_tables
from headwater.query.isolation import isolated
from headwater.runtime.door import Answers, Door
from headwater.runtime.holders import Holder
from headwater.runtime.keeper import Keeper
from headwater.runtime.leases import Lease
from headwater.runtime.mounts import Mount
from headwater.runtime.planning import prepare
from headwater.runtime.plans import Plan, named
from headwater.runtime.reports import FlowEvent, FlowReport, FlowState
from headwater.runtime.streams import stream_plan
from headwater.runtime.tables import table_plan
from headwater.runtime.tending import Tending
from headwater.runtime.topics import topic_plan
from headwater.runtime.views import view_plans
from headwater.session import jvm_pid
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

    def run(self, flows: Sequence[str] = ()) -> list[FlowReport]:
        """Run the named flows (all by default); returns when they are done or `stopping` is set.

        A flow that another runner holds is refused, in its report; the others run.
        """
        plans = self._chosen(flows)
        prepare(self.warehouse, {plan.flow for plan in plans}, apply=self.apply)
        reports = {plan.flow: FlowReport(plan.flow) for plan in plans}
        holder = Holder.here()
        tending = Tending(self.warehouse.state, holder, self.warehouse.project.settings.runtime.lease)
        taken = [plan for plan in plans if self._take(plan, reports[plan.flow], tending)]
        door = None if self.answers is None or self.once else Door(self.warehouse.project, self.answers)
        before, self.warehouse.restarts = self.warehouse.restarts, None  # a Spark that dies is replaced here
        try:
            if taken:
                tending.start()
                with nullcontext() if door is None else isolated(lambda: self.warehouse.project):
                    self._run(taken, reports, tending, door)
        finally:
            self.warehouse.restarts = before
            if door is not None:
                door.close()
            tending.end()
        return list(reports.values())

    def _run(self, plans: Sequence[Plan], reports: dict[str, FlowReport], tending: Tending, door: Door | None) -> None:
        """Until the flows are over; when Spark dies under them they go on in another, as after a crash."""
        restarts = Restarts(self.warehouse.project.settings.runtime.spark_restarts)
        spark = self.warehouse.spark  # started here, so that its failure is one failure and not one per flow
        while not self._run_on(spark, plans, reports, tending, door):
            plans = [plan for plan in plans if self._goes_on(reports[plan.flow], tending.leases.get(plan.flow))]
            left = [reports[plan.flow] for plan in plans]
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
                self._tell(FlowEvent("restart", report.flow, details))
            try:
                spark = self.warehouse.restart_spark()
            except HeadwaterError as error:
                self._give_up(left, error)
                return
            for report in left:
                report.state, report.error = FlowState.STARTING, None

    @cached_property
    def _mount(self) -> Mount:
        """Of the run as a whole: another Spark finds the same warehouse."""
        return Mount(self.warehouse.files)

    def _goes_on(self, report: FlowReport, lease: Lease | None) -> bool:
        """Whether a flow is to be run again in another Spark."""
        if lease is None or lease.lost or report.state is FlowState.DONE:
            return False
        return not (self.once and report.state is FlowState.FAILED)

    def _give_up(self, reports: Sequence[FlowReport], error: HeadwaterError) -> None:
        for report in reports:
            report.state, report.error = FlowState.FAILED, error
            self._tell(FlowEvent("failed", report.flow, {"error": str(error), "code": str(error.code)}))

    def _run_on(
        self,
        spark: SparkSession,
        plans: Sequence[Plan],
        reports: dict[str, FlowReport],
        tending: Tending,
        door: Door | None,
    ) -> bool:
        """Run the flows on a Spark; False if that has died under them."""
        tending.holder = tending.holder.with_jvm(jvm_pid())
        tending.renew()
        ending, spark_ended = threading.Event(), threading.Event()
        places = (self.warehouse.around.warehouse, str(self.warehouse.project.home), tempfile.gettempdir())
        keepers = [
            Keeper(
                plan,
                spark,
                tending.leases[plan.flow],
                "once" if self.once else self.every or plan.trigger,
                reports[plan.flow],
                self._tell,
                ending,
                tending.control(plan.flow),
                spark_ended,
                places,
                self._mount.check,
            )
            for plan in plans
        ]
        tending.keepers = keepers
        if door is not None:
            tending.also = door.open  # again and again: the runner that has the door may leave before this one
        self.on_ready(list(reports.values()))
        threads = [
            threading.Thread(
                target=keeper.run,
                args=(partial(self._turn_of, keeper, keepers, ending),),
                name=keeper.plan.flow,
                daemon=True,
            )
            for keeper in keepers
        ]
        for thread in threads:
            thread.start()
        stuck = self._await(threads, keepers, tending.holder, ending, spark_ended)
        for keeper in keepers:
            if keeper.plan.flow in stuck:
                # It may still write until the process ends: the lease is left to whoever finds the process dead.
                tending.leases.pop(keeper.plan.flow)
                if spark_ended.is_set():
                    error = TerminalError(
                        Code.SPARK_FAILED, "Spark has ended, and the step in hand does not", hint=HINT
                    )
                    self._give_up([keeper.report], error)
            elif self.stopping.is_set() and keeper.report.state in _ACTIVE:
                keeper.report.state = FlowState.STOPPED  # Spark ended while the flow was stopped
        return self.stopping.is_set() or not spark_ended.is_set()

    def _chosen(self, flows: Sequence[str]) -> list[Plan]:
        wanted = {named(self.warehouse, flow) for flow in flows}
        project = self.warehouse.project
        plans = [topic_plan(self.warehouse, topic) for topic in project.topics.values()]
        streaming = streaming_tables(project)
        for name in kept_tables(project):
            plans.append((stream_plan if name in streaming else table_plan)(self.warehouse, name))
        return [plan for plan in plans if not wanted or plan.flow in wanted] + view_plans(self.warehouse, wanted)

    def _take(self, plan: Plan, report: FlowReport, tending: Tending) -> bool:
        """Take the flow's lease; whether it is ours."""
        try:
            lease = Lease.take(tending.state, plan.flow, tending.holder, tending.duration)
        except HeadwaterError as error:
            report.state, report.error = FlowState.FAILED, error
            self._tell(FlowEvent("failed", plan.flow, {"error": str(error), "code": str(error.code)}))
            return False
        tending.leases[plan.flow] = lease
        tending.reports.append(report)
        return True

    def _turn_of(self, keeper: Keeper, keepers: Sequence[Keeper], ending: threading.Event) -> bool:
        """In a run that comes to an end: wait until every end is known, and what this flow reads is up to date."""
        awaited = [other.ready for other in keepers]
        awaited += [other.over for other in keepers if other.plan.flow in keeper.plan.after]
        for event in awaited:
            while not event.wait(0.05):
                if ending.is_set():
                    return False
        return True

    def _await(
        self,
        threads: Sequence[threading.Thread],
        keepers: Sequence[Keeper],
        holder: Holder,
        ending: threading.Event,
        spark_ended: threading.Event,
    ) -> set[str]:
        """Until all threads are over; those that can't be stopped are left, by their flows' names."""
        while not self.stopping.is_set() and any(thread.is_alive() for thread in threads):
            time.sleep(0.05)  # a join without a time-out would not let a signal through
            if holder.has_no_jvm:
                spark_ended.set()
            if spark_ended.is_set():
                break
            self._stop_if_pointless(threads, keepers)
        ending.set()
        grace = self.warehouse.project.settings.runtime.stop_within.total_seconds()
        if not _joined(threads, grace):
            for keeper in keepers:
                if not keeper.over.is_set() and not spark_ended.is_set():
                    log.info("step cancelled", flow=keeper.plan.flow)
                    keeper.spark.sparkContext.cancelJobsWithTag(keeper.tag)
            if not _joined(threads, UNWINDING) and self.warehouse.owns_spark:
                holder.end_jvm()  # what it has not committed is done again at the next start
                _joined(threads, UNWINDING)
        return {thread.name for thread in threads if thread.is_alive()}

    def _stop_if_pointless(self, threads: Sequence[threading.Thread], keepers: Sequence[Keeper]) -> None:
        """Stop when every flow that has not ended was given up."""
        running = [keeper for keeper, thread in zip(keepers, threads, strict=True) if thread.is_alive()]
        if running and all(keeper.given_up for keeper in running):
            self.stopping.set()

    def _tell(self, event: FlowEvent) -> None:
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
