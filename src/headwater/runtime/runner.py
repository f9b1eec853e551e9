"""Runs flows: each in its own thread and session, none able to take the others down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from pyspark.sql import SparkSession

from headwater.errors import Code, HeadwaterError, TransientError, UsageError, did_you_mean
from headwater.flows import Flow, StepDone
from headwater.runtime.topics import flow_name, topic_flow, topic_name
from headwater.session import fork
from headwater.sparkerrors import as_headwater_error
from headwater.spec.base import Trigger
from headwater.warehouse import Warehouse

POLL = timedelta(seconds=1)
"""How often a continuous flow looks for something new."""
BACK_OFF = (1.0, 60.0)
"""Seconds before the first and at most before any further try after a transient error."""

log = structlog.get_logger(__name__)


@dataclass
class FlowReport:
    """What a flow has done in this run."""

    flow: str
    steps: int = 0
    rows: int = 0
    rejected: int = 0
    error: HeadwaterError | None = None


@dataclass
class Runner:
    """The flows of one lake, until they are done or told to stop."""

    warehouse: Warehouse
    every: timedelta | None = None
    once: bool = False
    on_step: Callable[[StepDone], None] = lambda step: None
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self, flows: Sequence[str] = ()) -> list[FlowReport]:
        """Run the named flows (all by default); returns when they are done or `stop` was called."""
        reports = [FlowReport(name) for name in self._chosen(flows)]
        spark = self.warehouse.spark  # started here, so that its failure is one failure and not one per flow
        threads = [
            threading.Thread(target=self._keep, args=(report, fork(spark)), name=report.flow, daemon=True)
            for report in reports
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # a join without a time-out would not let a signal through
                thread.join(timeout=0.2)
        return reports

    def stop(self) -> None:
        self.stopping.set()

    def _chosen(self, flows: Sequence[str]) -> list[str]:
        known = {flow_name(name): name for name in self.warehouse.project.topics}
        chosen = []
        for flow in flows:
            name = flow if flow in known else flow_name(flow)
            if name not in known:
                raise UsageError(Code.UNKNOWN_FLOW, f"there is no flow '{flow}'", hint=did_you_mean(flow, known))
            chosen.append(name)
        return chosen or list(known)

    def _keep(self, report: FlowReport, spark: SparkSession) -> None:
        """One flow's loop. An error that may go away is tried again; any other ends this flow alone."""
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", report.flow)
        trigger = self._trigger(report.flow)
        delay = BACK_OFF[0]
        flow: Flow | None = None
        while not self.stopping.is_set():
            try:
                flow = flow or topic_flow(self.warehouse, topic_name(report.flow), spark)
                worked = self._steps(flow, report)
                delay, report.error = BACK_OFF[0], None
                if trigger == "once":
                    return
                if isinstance(trigger, timedelta):
                    self.stopping.wait(trigger.total_seconds())
                elif not worked:
                    self.stopping.wait(POLL.total_seconds())
            except Exception as caught:
                report.error = as_headwater_error(caught)
                flow = None  # what it held in memory may not be what is in the lake
                log.error("flow failed", flow=report.flow, error=str(report.error), exc_info=caught)
                if trigger == "once" or not isinstance(report.error, TransientError):
                    return
                self.stopping.wait(delay)
                delay = min(delay * 2, BACK_OFF[1])

    def _trigger(self, flow: str) -> Trigger:
        """When this flow takes its next step: as the command says, else as the project does."""
        if self.once:
            return "once"
        topic = self.warehouse.project.topics[topic_name(flow)]
        return self.every or self.warehouse.project.trigger_of(topic)

    def _steps(self, flow: Flow, report: FlowReport) -> bool:
        """All steps that can be taken now; whether there was one."""
        worked = False
        while not self.stopping.is_set():
            done = flow.step()
            if done is None:
                return worked
            worked = True
            report.steps += 1
            report.rows += done.landed.rows or 0
            report.rejected += done.landed.rejected
            self.on_step(done)
        return worked
