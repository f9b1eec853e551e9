"""Maintenance alongside the flows of a runner: in threads of its own, within the project's window."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from headwater.core.errors import HeadwaterError
from headwater.core.logs import get_logger
from headwater.core.model import Kind
from headwater.core.spec import MaintenanceSpec, RelationSpec
from headwater.flows.ledger import flow_name
from headwater.maintenance.rules import is_in_window
from headwater.maintenance.run import LakeMaintenance
from headwater.maintenance.subject import MaintenanceMemory
from headwater.runner.holds import holding_in_background
from headwater.runner.reports import FlowEvent
from headwater.spark.errors import as_headwater_error
from headwater.spark.jvm import has_ended
from headwater.spark.session import activate, fork
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = timedelta(minutes=1)
"""Between two looks at a relation, unless the project asks for something to be done more often."""
LEAST = timedelta(seconds=1)
SHARE = 0.05
"""The part of a thread's time that looks at a relation may take where nothing is found to do."""
LONGEST = 2 * EVERY
"""No relation waits longer than that for its next look, however slow the machine is: its files go on growing."""
NAP = 0.5
UNWINDING = 3.0
"""Seconds that a piece which is cut off may take to come to an end."""
TAG = "headwater:maintenance"
"""What its Spark jobs are found by."""
POOL = "maintenance"

log = get_logger(__name__)


class RunnerMaintenance:
    """`max_parallel` threads, each with a session: they take the relation whose turn it is, one at a time."""

    def __init__(
        self,
        warehouse: Warehouse,
        settings: MaintenanceSpec,
        spark: SparkSession,
        flows: frozenset[str],
        tell: Callable[[FlowEvent], None],
    ) -> None:
        """`flows`: those of the runner, if it is not for all; `tell` is called with what was done."""
        self._warehouse = warehouse
        self._settings = settings
        self._spark = spark
        self._flows = flows
        self._tell = tell
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._turns: dict[str, float] = {}
        """By relation: when it is looked at next; `inf` while it is."""
        self._pruned_at = time.monotonic() + EVERY.total_seconds()
        self._work: LakeMaintenance | None = None
        self._threads = [
            threading.Thread(target=self._go, name=f"maintenance {number}", daemon=True)
            for number in range(settings.max_parallel)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Begin no further piece, and cut off those that run: they are done again another time."""
        self._stopping.set()
        if any(thread.is_alive() for thread in self._threads):
            with suppress(Exception):  # py4j raises whatever it met: a Spark that is gone has no jobs
                self._spark.sparkContext.cancelJobsWithTag(TAG)
        until = time.monotonic() + UNWINDING
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    # --- a thread

    def _go(self) -> None:
        try:
            context = self._spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", POOL)
            context.addJobTag(TAG)
            context.setInterruptOnCancel(True)
            session = fork(self._spark)
            activate(session)
            while not self._stopping.wait(NAP):
                self._turn(session)
        except Exception as caught:
            if not self._stopping.is_set() and not has_ended():
                log.error("maintenance has ended", error=str(as_headwater_error(caught)), exc_info=caught)

    def _turn(self, session: SparkSession) -> None:
        """Look at the relation whose turn it is, if there is one."""
        if not self._may():
            return
        try:
            work = self._opened()
            relation = self._next(work)
            if relation is None:
                self._prune(work, session)
                return
            kind, name = relation
        except (HeadwaterError, OSError) as error:  # the state database may be away for a while
            log.warning("maintenance can't look", error=str(error))
            self._stopping.wait(EVERY.total_seconds() / 10)
            return
        begun, acted = time.monotonic(), False
        try:
            for done in work.look(kind, name, session):
                acted = True
                self._tell(FlowEvent("maintenance", done.relation, done.to_dict()))
        except (HeadwaterError, OSError) as error:
            log.warning("maintenance failed", relation=flow_name(name, kind), error=str(error))
        finally:
            ended = time.monotonic()
            rest = 0.0 if acted else min((ended - begun) / SHARE, LONGEST.total_seconds())
            with self._lock:
                self._turns[flow_name(name, kind)] = ended + max(rest, self._every(kind, name))

    def _prune(self, work: LakeMaintenance, session: SparkSession) -> None:
        """What is the lake's and no relation's, once a day; by one thread."""
        with self._lock:
            if self._pruned_at > time.monotonic():
                return
            self._pruned_at = time.monotonic() + EVERY.total_seconds()
        try:
            done = work.prune(session)
        except Exception as caught:
            if self._stopping.is_set() or has_ended():
                return
            log.warning("maintenance failed", relation="lake", error=str(as_headwater_error(caught)))
            return
        if done is not None:
            self._tell(FlowEvent("maintenance", done.relation, done.to_dict()))

    def _opened(self) -> LakeMaintenance:
        with self._lock:
            if self._work is None:
                self._work = LakeMaintenance(
                    self._warehouse,
                    holding_in_background,
                    MaintenanceMemory.of(self._warehouse.state),
                    self._may,
                    patient=True,
                    settings=self._settings,
                )
            return self._work

    def _next(self, work: LakeMaintenance) -> tuple[Kind, str] | None:
        """The relation that waits longest, taken for this thread. A new one waits for a whole turn first."""
        relations = {flow_name(name, kind): (kind, name) for kind, name in work.relations()}
        now = time.monotonic()
        with self._lock:
            wanted = {label: one for label, one in relations.items() if not self._flows or label in self._flows}
            for label in [one for one in self._turns if one not in wanted]:
                del self._turns[label]
            for label, (kind, name) in wanted.items():
                if label not in self._turns:
                    self._turns[label] = now + self._every(kind, name)
            due = [label for label, turn in self._turns.items() if turn <= now]
            if not due:
                return None
            first = min(due, key=lambda label: self._turns[label])
            self._turns[first] = float("inf")
            return wanted[first]

    def _every(self, kind: Kind, name: str) -> float:
        try:
            return _look_every(self._warehouse.definition(kind, name)).total_seconds()
        except HeadwaterError:  # it has left the project
            return EVERY.total_seconds()

    def _may(self) -> bool:
        """Whether another piece may begin."""
        return not self._stopping.is_set() and is_in_window(self._settings.window, datetime.now(timezone.utc))


def _look_every(definition: RelationSpec) -> timedelta:
    """How often a relation is looked at: as often as something of it may be due."""
    asked = [definition.compaction.every]
    if definition.clustered_by:
        asked.append(definition.clustering.every)
    if definition.retention.versions is not None:
        asked.append(definition.retention.versions)
    asked += [kept for kept in (definition.retention.rows, definition.retention.dead_letters) if kept is not None]
    return max(LEAST, min(EVERY, *asked))
