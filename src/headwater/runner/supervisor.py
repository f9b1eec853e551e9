"""The flows that a runner runs now: each is started, let go of and taken back by itself, while the others go on."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.core.logs import get_logger
from headwater.core.model import Kind
from headwater.core.spec.base import Trigger
from headwater.runner.flow_worker import FlowWorker
from headwater.runner.heartbeat import Heartbeat
from headwater.runner.holds import LETTING_GO, is_written_alongside
from headwater.runner.leases import Lease
from headwater.runner.mounts import Mount
from headwater.runner.reports import FlowEvent, FlowReport, FlowState
from headwater.runner.setups.setup import FlowSetup
from headwater.runner.setups.views import view_setups
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = 0.3
"""Seconds between two looks at what statements have made or dropped and what commands ask for."""
_HELD_ELSEWHERE = (Code.FLOW_HELD, Code.LEASE_LOST)

log = get_logger(__name__)


@dataclass
class Worker:
    """A flow that runs here, in a thread of its own."""

    keeper: FlowWorker
    thread: threading.Thread
    leaving_since: float | None = None
    """When it was told to end, because somebody else wants the flow or nobody does any more."""
    cancelled: bool = False


class Supervisor:
    """One per runner. Its thread compares what should run with what does; `reload` changes what should."""

    def __init__(
        self,
        warehouse: Warehouse,
        heartbeat: Heartbeat,
        reports: list[FlowReport],
        trigger: Trigger | None,
        tell: Callable[[FlowEvent], None],
    ) -> None:
        """`trigger` stands in place of each flow's own; `reports` are of the flows that run, and change with them."""
        self.workers: dict[str, Worker] = {}
        self.reports = reports
        self.changing = threading.RLock()
        """Held while what should run is looked at or changed."""
        self.setups: dict[str, FlowSetup] = {}
        """What should run, but for views that statements make."""
        self.named: frozenset[str] = frozenset()
        """The flows that the runner was told by name; none: it runs all."""
        self.left_out: frozenset[str] = frozenset()
        """Flows that another runner had when this one began."""
        self._warehouse = warehouse
        self._spark: SparkSession
        self._heartbeat = heartbeat
        self._trigger = trigger
        self._tell = tell
        self._mount = Mount(warehouse.files)
        self._places = (warehouse.context.warehouse, str(warehouse.project.home), tempfile.gettempdir())
        self._views: tuple[object, list[FlowSetup]] = (None, [])
        self._blocked: dict[str, tuple[str, ...]] = {}
        self.lent: set[str] = set()
        """Flows that a command works on, and that come back."""
        self.spark_ended = threading.Event()
        """Set by whoever finds Spark dead."""
        self.ended_at = 0.0
        """When the runner has seen that, or that all flows are over."""
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def keepers(self) -> list[FlowWorker]:
        return [worker.keeper for worker in list(self.workers.values())]

    @property
    def threads(self) -> list[threading.Thread]:
        return [worker.thread for worker in list(self.workers.values())]

    @property
    def is_idle(self) -> bool:
        """Whether no flow runs, and none that is lent to a command comes back."""
        return not self.lent and not any(thread.is_alive() for thread in self.threads)

    # --- flows that come

    def prepared(self, setup: FlowSetup, lease: Lease, report: FlowReport) -> Worker:
        """A flow that is ours, ready to be started."""
        keeper = FlowWorker(
            setup,
            self._spark,
            lease,
            self._trigger or setup.trigger,
            report,
            self._tell,
            threading.Event(),
            self._heartbeat.control(setup.flow),
            self.spark_ended,
            self._places,
            self._mount.check,
            blockers=partial(self.blockers, setup.flow),
        )
        thread = threading.Thread(
            target=keeper.run, args=(partial(self._turn_of, keeper),), name=setup.flow, daemon=True
        )
        worker = Worker(keeper, thread)
        self.workers[setup.flow] = worker
        return worker

    def begin(self, spark: SparkSession) -> None:
        """No flow runs yet, or none any more: those that come run on this Spark."""
        self._spark, self.workers = spark, {}
        self.spark_ended, self._ending = threading.Event(), threading.Event()

    def supervise(self) -> None:
        """From now on flows come and go by what statements make and what commands ask for."""
        self._thread = threading.Thread(target=self._go, name="supervisor", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Nothing comes or goes any more; every flow is told to stop."""
        self._ending.set()
        for keeper in self.keepers:
            keeper.stopping.set()
        if self._thread is not None:
            self._thread.join()
        for keeper in self.keepers:  # one may have come meanwhile
            keeper.stopping.set()
        with self._warehouse.committed:
            self._warehouse.committed.notify_all()

    def _turn_of(self, keeper: FlowWorker) -> bool:
        """In a run that comes to an end: wait until every end is known, and what this flow reads is up to date."""
        keepers = self.keepers
        awaited = [other.ready for other in keepers]
        awaited += [other.over for other in keepers if other.setup.flow in keeper.setup.after]
        for event in awaited:
            while not event.wait(0.05):
                if keeper.stopping.is_set():
                    return False
        return True

    # --- flows that come and go

    def _go(self) -> None:
        while not self._ending.wait(EVERY):
            try:
                self.look()
            except (HeadwaterError, OSError) as error:  # the state database may be away for a while
                log.warning("flows not looked at", error=str(error))

    def look(self) -> None:
        """Let go of what is not wanted here, and take what is."""
        with self.changing:
            asked, wanted = self._warehouse.state.releases(), self._wanted()
            for flow, worker in list(self.workers.items()):
                setup = wanted.get(flow)
                stays = setup is not None and setup.made_of == worker.keeper.setup.made_of and flow not in asked
                if not stays or worker.leaving_since is not None:
                    self._let_go(flow, worker)
                    if flow not in self.workers and setup is not None:
                        self.lent.add(flow)
            self.lent &= set(wanted)
            shown = {*wanted, *self.workers, *self.left_out}
            self.reports[:] = [report for report in self.reports if report.flow in shown]
            for flow, setup in wanted.items():
                if flow not in self.workers and flow not in asked and not self._ending.is_set():
                    self._take(setup)

    def follow(self, setups: Mapping[str, FlowSetup], spark: SparkSession) -> None:
        """From now on these should run, in sessions like this one."""
        with self.changing:
            self.setups, self._spark, self._views = dict(setups), spark, (None, [])
            self.look()

    def stop(self, flows: Collection[str]) -> None:
        """Let go of these flows, each at the end of its step; a step that takes too long is cancelled."""
        patience = self._warehouse.project.settings.runtime.stop_within.total_seconds() + LETTING_GO
        until = time.monotonic() + patience
        while left := [flow for flow in flows if flow in self.workers]:
            for flow in left:
                self._let_go(flow, self.workers[flow])
            if time.monotonic() > until:
                raise TransientError(Code.FLOW_HELD, f"{left[0]} has not finished its step", hint="try again")
            time.sleep(0.05)

    def _wanted(self) -> dict[str, FlowSetup]:
        """What should run here now."""
        records = self._warehouse.state.relations(Kind.VIEW)
        made = [(record.name, record.statement) for record in records if record.statement is not None]
        if self._views[0] != made:
            project = self._warehouse.project
            setups = view_setups(self._warehouse, set(self.named))
            self._views = (made, [one for one in setups if one.flow.partition(".")[2] not in project.views])
        setup_of = {**self.setups, **{setup.flow: setup for setup in self._views[1]}}
        return {flow: setup for flow, setup in setup_of.items() if flow not in self.left_out}

    def _take(self, setup: FlowSetup) -> None:
        try:
            lease = Lease.take(self._warehouse.state, setup.flow, self._heartbeat.holder, self._heartbeat.duration)
        except HeadwaterError as error:
            if error.code is Code.FLOW_HELD:
                return  # a command is still at work on it, or another runner has it
            raise
        report = next((one for one in self.reports if one.flow == setup.flow), None)
        if report is None:
            report = FlowReport.after(setup.flow, self._warehouse.state.statuses().get(setup.flow))
            self.reports.append(report)
        self._heartbeat.add(lease, report)
        self.prepared(setup, lease, report).thread.start()
        self.lent.discard(setup.flow)

    def _let_go(self, flow: str, worker: Worker) -> None:
        """Once a round until the flow has ended: tell it to, cancel a step that takes too long, give its lease back."""
        now = time.monotonic()
        if worker.leaving_since is None:
            worker.leaving_since = now
            worker.keeper.stopping.set()
            with self._warehouse.committed:
                self._warehouse.committed.notify_all()  # it may wait for a commit
        if worker.thread.is_alive():
            grace = self._warehouse.project.settings.runtime.stop_within.total_seconds()
            if now - worker.leaving_since > grace and not worker.cancelled:
                worker.cancelled = True
                log.info("step cancelled", flow=flow)
                worker.keeper.cancel()
            worker.thread.join(0.05)
        if worker.thread.is_alive() or is_written_alongside(self._warehouse, flow):
            return
        del self.workers[flow]
        self._heartbeat.remove(flow)

    # --- flows that can't go on

    def blockers(self, flow: str) -> tuple[str, ...]:
        """The flows above this one, however far, that have been given up."""
        blocking, seen, waiting = list[str](), {flow}, [flow]
        while waiting:
            worker = self.workers.get(waiting.pop())
            for above in sorted(() if worker is None else worker.keeper.setup.after - seen):
                seen.add(above)
                other = self.workers.get(above)
                if other is None:
                    continue
                error = other.keeper.report.error
                if other.keeper.given_up and error is not None and error.code not in _HELD_ELSEWHERE:
                    blocking.append(above)
                else:
                    waiting.append(above)
        return tuple(sorted(blocking))

    def note_blocked(self) -> None:
        """Keep in each report what blocks its flow, and say when that changes."""
        now = {keeper.setup.flow: self.blockers(keeper.setup.flow) for keeper in self.keepers}
        for keeper in self.keepers:
            flow = keeper.setup.flow
            by, before = now.get(flow, ()), self._blocked.get(flow, ())
            keeper.report.blocked_by = by
            if by != before and keeper.report.state is not FlowState.FAILED:
                self._tell(FlowEvent("blocked", flow, {"by": list(by)}) if by else FlowEvent("unblocked", flow))
        self._blocked = now


def setups_by_flow(setups: Collection[FlowSetup], views: Collection[str]) -> Mapping[str, FlowSetup]:
    """By their flows, without those of views that statements made: these are looked up again and again."""
    return {
        setup.flow: setup
        for setup in setups
        if not setup.flow.startswith(f"{Kind.VIEW.plural}.") or setup.flow.partition(".")[2] in views
    }
