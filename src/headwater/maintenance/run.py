"""Maintenance of a lake: looks at its relations, and does what is due, one bounded piece after another.

Called by the runner, again and again alongside the flows, and by `headwater maintain` once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError, did_you_mean
from headwater.core.logs import get_logger
from headwater.core.model import Kind
from headwater.core.spec import MaintenanceSpec
from headwater.flows.ledger import Ledger, flow_name
from headwater.maintenance.jobs import JOBS, MaintenanceJob
from headwater.maintenance.letters import tidy_letters
from headwater.maintenance.rules import DAILY, Due, is_due_again
from headwater.maintenance.subject import (
    DUE,
    FAILED,
    YIELDED,
    JobEffect,
    MaintainedRelation,
    MaintenanceAction,
    MaintenanceMemory,
    partitions_of,
)
from headwater.runner.setups.setup import Guard, flow_names
from headwater.spark.errors import as_headwater_error
from headwater.spark.jvm import has_ended
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES = 5
"""How often a piece is tried that another writer comes before; then it is left for the next look."""
PIECES = 1_000
"""Pieces of one relation in a row at most: others wait."""
LAKE = "lake"
"""What stands for a relation's name where something is done for the lake as a whole."""
_CONFLICTS = frozenset({Code.COMMIT_FAILED, Code.SPARK_FAILED})

Holding = Callable[[Warehouse, str], AbstractContextManager[Guard]]
"""How the right to write a flow's table is taken for one piece."""

log = get_logger(__name__)


@dataclass
class LakeMaintenance:
    """One per runner or command: it remembers what it has found between two looks."""

    warehouse: Warehouse
    holding: Holding
    memory: MaintenanceMemory
    go_on: Callable[[], bool] = lambda: True
    """Asked before each piece: not outside of the window, and not when the runner is to stop."""
    patient: bool = False
    """It looks again and again: what has failed is tried later, and not at each look."""
    settings: MaintenanceSpec = field(default_factory=MaintenanceSpec)

    def relations(self, names: Sequence[str] = ()) -> list[tuple[Kind, str]]:
        """Those that have data and a definition; by name: those that are named."""
        known = [(record.kind, record.name) for record in self.warehouse.state.relations()]
        defined = [(kind, name) for kind, name in known if self._is_defined(kind, name)]
        return defined if not names else [one for name in names for one in self._named(name, defined)]

    def look(
        self, kind: Kind, name: str, spark: SparkSession | None = None, *, dry_run: bool = False
    ) -> Iterator[MaintenanceAction]:
        """Do what is due to one relation, and say what was done, as soon as it was."""
        subject = MaintainedRelation(self.warehouse, kind, name, self.settings, self.memory, spark, self.go_on)
        for job in JOBS:
            if self.patient and not self.memory.may_try(subject.label, job.name, subject.now):
                continue
            for done in self._act(job, subject, dry_run):
                if done.outcome == FAILED and self._is_gone(subject):
                    return  # it was dropped meanwhile, which is no failure
                if not dry_run:
                    self.warehouse.state.note(done.row())
                    log.info("maintenance", **{k: v for k, v in done.to_dict().items() if v is not None})
                yield done
            subject = subject.again()

    def prune(self, spark: SparkSession | None = None, *, dry_run: bool = False) -> MaintenanceAction | None:
        """Forget what tells of the past alone: old intents of the ledger, and old rows of the history; and look after
        the files of the dead letters, which are no relation of the project."""
        now = datetime.now(timezone.utc)
        if not is_due_again(self.memory.done_at.get((LAKE, "prune")), DAILY, now):
            return None
        self.memory.done_at[LAKE, "prune"] = now
        if dry_run:
            return None
        files, begun = self.warehouse.files, time.monotonic()
        gone = sum(Ledger(files, flow).prune() for flow in flow_names(self.warehouse))
        rows = self.warehouse.state.prune_history()
        letters = tidy_letters(spark or self.warehouse.spark, self.warehouse.context, now)
        if not gone and not rows and letters is None:
            return None
        removed = f"{gone} old intents of the ledger, {rows} old rows of the history"
        if letters is not None:
            removed += ", files of the dead letters"
        effect = replace(
            letters or JobEffect(), rows=rows, deleted_files=gone + ((letters and letters.deleted_files) or 0)
        )
        done = MaintenanceAction(LAKE, "prune", removed, now, _since(begun), effect=effect)
        self.warehouse.state.note(done.row())
        return done

    # --- one job

    def _act(self, job: MaintenanceJob, subject: MaintainedRelation, dry_run: bool) -> Iterator[MaintenanceAction]:
        """Piece after piece, until what was due at first is done: what came meanwhile waits for its turn."""
        left: int | None = None
        for _ in range(PIECES if job.in_pieces else 1):
            if not self.go_on():
                return
            begun, started = time.monotonic(), datetime.now(timezone.utc)
            due: Sequence[Due] = ()
            try:
                due = job.due(subject)
                left = sum(one.bytes for one in due) if left is None else left
                if not due:
                    return
                if dry_run:
                    yield from self._preview(job, subject, due)
                    return
                effect, subject = self._piece(job, subject, due)
            except Exception as caught:
                failed = self._failed(job, subject, due, caught)
                if failed is not None:
                    yield replace(failed, started_at=started, duration_ms=_since(begun))
                return
            self.memory.note(subject.label, job.name, datetime.now(timezone.utc), partitions_of(due))
            if effect is None:
                return
            yield MaintenanceAction(
                subject.label, job.name, _rule(due), started, _since(begun), partitions_of(due), effect
            )
            left -= effect.bytes_before or 0
            if left <= 0:
                return
            subject = subject.again()

    def _preview(
        self, job: MaintenanceJob, subject: MaintainedRelation, due: Sequence[Due]
    ) -> Iterator[MaintenanceAction]:
        if job.preview is not None:
            effect = job.preview(subject, due)
            if effect is not None:
                yield MaintenanceAction(subject.label, job.name, _rule(due), subject.now, effect=effect, outcome=DUE)
            return
        for one in due:
            effect = JobEffect(files_before=one.files or None, bytes_before=one.bytes or None)
            partitions = (one.partition,)
            yield MaintenanceAction(subject.label, job.name, one.rule, subject.now, 0, partitions, effect, outcome=DUE)

    def _piece(
        self, job: MaintenanceJob, subject: MaintainedRelation, due: Sequence[Due]
    ) -> tuple[JobEffect | None, MaintainedRelation]:
        """One piece; where another writer comes first, again on what that has written."""
        for attempt in range(1, TRIES + 1):
            try:
                with self.holding(self.warehouse, subject.label) as guard:
                    guard()
                    return job.run(subject, due), subject
            except Exception as caught:
                error = as_headwater_error(caught)
                if not _is_conflict(error) or attempt == TRIES or not self.go_on():
                    raise error from caught
                log.info("maintenance yields", relation=subject.label, action=job.name, error=str(error))
            time.sleep(0.1 * attempt)
            subject = subject.again()
            due = job.due(subject)
            if not due:
                return None, subject
        raise AssertionError("unreachable")

    def _failed(
        self, job: MaintenanceJob, subject: MaintainedRelation, due: Sequence[Due], caught: Exception
    ) -> MaintenanceAction | None:
        """What is told of an action that failed; None where it was cut off, or left to another writer for now."""
        error = as_headwater_error(caught)
        if not self.go_on() or has_ended():
            log.info("maintenance cut off", relation=subject.label, action=job.name, error=str(error))
            return None
        self.memory.failed(subject.label, job.name, subject.now)
        yielded = _is_conflict(error) or error.code is Code.FLOW_HELD
        if yielded and self.patient:
            log.info("maintenance left for later", relation=subject.label, action=job.name, error=str(error))
            return None
        if not yielded:
            log.warning("maintenance failed", relation=subject.label, action=job.name, error=str(error))
        outcome = YIELDED if yielded else FAILED
        return MaintenanceAction(
            subject.label,
            job.name,
            _rule(due) or "looking for what is due",
            subject.now,
            partitions=partitions_of(due),
            outcome=outcome,
            error=str(error),
        )

    # --- names

    def _is_defined(self, kind: Kind, name: str) -> bool:
        """What has left the project is left alone."""
        with suppress(HeadwaterError):
            self.warehouse.definition(kind, name)
            return True
        return False

    def _is_gone(self, subject: MaintainedRelation) -> bool:
        with suppress(HeadwaterError):
            return self.warehouse.record(subject.kind, subject.name) is None
        return False

    def _named(self, name: str, known: Sequence[tuple[Kind, str]]) -> list[tuple[Kind, str]]:
        matches = [one for one in known if name in (one[1], flow_name(one[1], one[0]))]
        if len(matches) == 1:
            return matches
        if matches:
            either = " or ".join(flow_name(one, kind) for kind, one in matches)
            raise UsageError(Code.NO_SUCH_RELATION, f"'{name}' is not one relation", hint=f"write {either}")
        for kind in Kind:
            for each in self.warehouse.names(kind):
                if name in (each, flow_name(each, kind)):
                    raise self.warehouse.without_data(kind, each)
        labels = [flow_name(each, kind) for kind in Kind for each in self.warehouse.names(kind)]
        raise UsageError(
            Code.NO_SUCH_RELATION,
            f"there is no topic, table or view '{name}'",
            hint=did_you_mean(name, [*labels, *(label.partition(".")[2] for label in labels)]),
        )


def _is_conflict(error: HeadwaterError) -> bool:
    return isinstance(error, TransientError) and error.code in _CONFLICTS


def _rule(due: Sequence[Due]) -> str:
    if not due:
        return ""
    others = len(due) - 1
    more = "" if not others else " (and another partition)" if others == 1 else f" (and {others} other partitions)"
    return f"{due[0].rule}{more}"


def _since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
