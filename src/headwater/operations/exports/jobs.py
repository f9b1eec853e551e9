"""Jobs of exports: each copy has a record in the state database, is stopped by command, and run again after a crash."""

from __future__ import annotations

import json
import threading
import time
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError, did_you_mean
from headwater.core.logs import get_logger
from headwater.core.model import Kind
from headwater.core.spec import Export
from headwater.core.spec.base import placed
from headwater.core.state.export_jobs import RUNNING, STOPPING, ExportJob
from headwater.exports.definitions import STREAMING
from headwater.exports.destinations import location_of
from headwater.exports.selection import relation_named
from headwater.exports.snapshot import Exported, export_snapshot
from headwater.flows.ledger import flow_name
from headwater.runner import control
from headwater.runner.holders import Holder
from headwater.runner.setups.setup import export_flow
from headwater.spark.errors import as_headwater_error
from headwater.sql.references import is_query
from headwater.targets.checks import require_right
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark import SparkContext

BEAT = 1.0
"""Seconds between two looks whether a job is to stop, and between two reports of it."""
DONE, FAILED, STOPPED, INTERRUPTED = "done", "failed", "stopped", "interrupted"

log = get_logger(__name__)


def run_export(warehouse: Warehouse, definition: Export, *, id: str | None = None) -> Exported:
    """Take a snapshot, as a job; `id`: of a job that is run again."""
    warehouse.project.require_whole()
    require_right(definition)
    if definition.mode == STREAMING:
        raise _is_a_flow(definition)
    destination = location_of(warehouse, definition)
    _require_free(warehouse, destination, id)
    now = datetime.now(timezone.utc)
    job = ExportJob(
        id or uuid.uuid4().hex[:12],
        definition.name or None,
        definition.from_,
        definition.format,
        destination,
        definition.mode,
        RUNNING,
        "reading",
        0.0,
        now,
        now,
        holder=json.dumps(Holder.here().record()),
        definition=definition.model_dump_json(exclude_unset=True),
    )
    warehouse.state.require_own()
    warehouse.state.put_export(job)
    with _Beat(warehouse, job) as beat:
        try:
            done = export_snapshot(warehouse, definition, job=job.id, progress=beat.at)
        except BaseException as error:
            beat.failed(error)
            if beat.stopping:
                raise TerminalError(
                    Code.CANCELLED, f"the job {job.id} was stopped", hint=f"headwater export jobs resume {job.id}"
                ) from error
            raise
        beat.done(done)
    return done


def begin_stream(warehouse: Warehouse, definition: Export) -> str:
    """Keep a streaming export that stands in no file; the name of its flow. Whoever runs flows keeps it up to date."""
    warehouse.project.require_whole()
    require_right(definition)
    if is_query(definition.from_):
        hint = "make it a view, and export that"
        raise UsageError(Code.UNSUPPORTED, "a query is not kept up to date by an export", hint=hint)
    destination = location_of(warehouse, definition)
    _require_free(warehouse, destination, None)
    kind, name = relation_named(warehouse, definition.from_)
    if kind is Kind.VIEW and not definition.primary_key:
        message = f"rows of {flow_name(name, kind)} change and go, which a copy without keys can't follow"
        hint = "name the columns that tell its rows apart: `primary_key`"
        raise UsageError(Code.UNSUPPORTED, message, hint=hint)
    taken, id = (
        {job.id for job in warehouse.state.exports()} | {*warehouse.project.exports},
        f"{name}_{definition.format}",
    )
    id = next(one for one in (id, *(f"{id}_{number}" for number in range(2, 10_000))) if one not in taken)
    now = datetime.now(timezone.utc)
    warehouse.state.require_own()
    warehouse.state.put_export(
        ExportJob(
            id, id, flow_name(name, kind), definition.format, destination, STREAMING, STOPPED, None, None, now, now,
            definition=definition.model_dump_json(exclude_unset=True),
        )
    )  # fmt: skip
    return export_flow(id)


def export_jobs(warehouse: Warehouse) -> list[ExportJob]:
    """Every job, the newest first."""
    return [_as_is(job) for job in reversed(warehouse.state.exports())]


def export_job(warehouse: Warehouse, id: str) -> ExportJob:
    """A job by its id or the beginning of it."""
    jobs = export_jobs(warehouse)
    found = [job for job in jobs if job.id.startswith(id)]
    if len(found) != 1:
        what = "is not one job" if found else "is no job"
        hint = did_you_mean(id, [job.id for job in found or jobs[:10]])
        raise UsageError(Code.UNKNOWN_JOB, f"'{id}' {what}", hint=hint)
    return found[0]


def _is_a_flow(definition: Export) -> UsageError:
    if definition.name:
        return UsageError(
            Code.USAGE,
            f"'{definition.name}' is kept up to date by a flow",
            hint=f"run it: headwater run exports.{definition.name}",
        )
    return UsageError(Code.USAGE, "a streaming export is begun, and then kept up to date by a flow")


def stop_export(warehouse: Warehouse, id: str) -> ExportJob:
    """Ask a job to stop: its target is as before. A stream is paused."""
    job = export_job(warehouse, id)
    if job.mode == STREAMING and job.export is not None:
        control.pause(warehouse, export_flow(job.export))
        return export_job(warehouse, job.id)
    if not warehouse.state.stop_export(job.id):
        raise UsageError(Code.USAGE, f"the job {job.id} is {job.state}: there is nothing to stop")
    return export_job(warehouse, job.id)


def resume_export(warehouse: Warehouse, id: str) -> Exported | None:
    """Run a job again that was stopped, has failed, or whose process has ended. A stream goes on where a runner is up:
    None."""
    job = export_job(warehouse, id)
    if job.mode == STREAMING and job.export is not None:
        control.resume(warehouse, export_flow(job.export))
        return None
    if job.state in (RUNNING, STOPPING, DONE):
        raise UsageError(Code.USAGE, f"the job {job.id} is {job.state}: there is nothing to resume")
    named = None if job.export is None else warehouse.project.exports.get(job.export)
    if named is not None:
        return run_export(warehouse, named, id=job.id)
    definition = Export.model_validate_json(job.definition or "{}")
    return run_export(warehouse, placed(definition, "", definition.where), id=job.id)


def _as_is(job: ExportJob) -> ExportJob:
    """A job as it is: one whose process has ended runs no more."""
    if not job.is_open or job.holder is None:
        return job  # a stream says itself when it ends
    holder = Holder.from_record(json.loads(job.holder))
    if not holder.is_on_this_machine or holder.is_alive:
        return job
    return replace(job, state=INTERRUPTED, doing=None)


def _require_free(warehouse: Warehouse, destination: str, id: str | None) -> None:
    for job in export_jobs(warehouse):
        if job.destination == destination and job.is_open and job.id != id:
            raise UsageError(
                Code.EXPORT_BUSY,
                f"the job {job.id} is exporting to {destination}",
                hint=f"wait for it, or stop it: headwater export jobs stop {job.id}",
            )


class _Beat:
    """Tells the state now and then how a job is, and stops it when it is asked to."""

    def __init__(self, warehouse: Warehouse, job: ExportJob) -> None:
        self._warehouse = warehouse
        self._job = job
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"export {job.id}", daemon=True)
        self._group = f"export-{job.id}"
        self._context: SparkContext | None = None
        """Where its work is done, once there is any."""
        self.stopping = False

    def __enter__(self) -> _Beat:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()
        if self._context is not None:
            self._context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    def at(self, doing: str) -> None:
        """What the job is at now. Called by its own thread."""
        self._context = self._warehouse.spark.sparkContext
        self._context.setJobGroup(self._group, f"export {self._job.id}", interruptOnCancel=True)
        if self.stopping:
            raise TerminalError(Code.CANCELLED, "the job is to stop")
        self._put(replace(self._job, doing=doing, progress=None))

    def done(self, exported: Exported) -> None:
        """The copy is there."""
        rate = None if exported.rows is None else round(exported.rows / max(exported.seconds, 0.001), 1)
        self._end(
            replace(
                self._job,
                state=DONE,
                progress=1.0,
                rows=exported.rows,
                bytes=exported.bytes,
                files=exported.files,
                rows_per_second=rate,
                position=json.dumps(dict(exported.versions), sort_keys=True),
                checksum=exported.checksum,
                readers=json.dumps([one.to_dict() for one in exported.readers]),
                error_code=None,
                error=None,
            )
        )

    def failed(self, error: BaseException) -> None:
        """There is no copy."""
        if self.stopping or not isinstance(error, Exception):
            self._end(replace(self._job, state=STOPPED))
            return
        problem = as_headwater_error(error).problem
        self._end(replace(self._job, state=FAILED, error_code=str(problem.code), error=problem.message))

    def _end(self, job: ExportJob) -> None:
        self._over.set()
        self._thread.join()
        self._put(replace(job, doing=None, finished_at=datetime.now(timezone.utc)))

    def _put(self, job: ExportJob) -> None:
        with self._lock:
            self._job = replace(job, updated_at=datetime.now(timezone.utc))
            self._warehouse.state.put_export(self._job)

    def _run(self) -> None:
        while not self._over.wait(BEAT):
            try:
                self._look()
            except HeadwaterError as error:  # the next beat may go through
                log.warning("job not reported", job=self._job.id, error=str(error))

    def _look(self) -> None:
        known = next((job for job in self._warehouse.state.exports() if job.id == self._job.id), None)
        if known is not None and known.state == STOPPING and not self.stopping:
            self.stopping = True
        if self.stopping and self._context is not None:
            self._context.cancelJobGroup(self._group)
        elif not self.stopping and not self._over.is_set():
            self._put(replace(self._job, progress=self._progress()))

    def _progress(self) -> float | None:
        """The part of the tasks that are over, of the stages that run."""
        if self._context is None:
            return None
        tracker = self._context.statusTracker()
        total = finished = 0
        for number in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(number)
            for stage in () if info is None else info.stageIds:
                told = tracker.getStageInfo(stage)
                if told is not None:
                    total, finished = total + told.numTasks, finished + told.numCompletedTasks
        return round(finished / total, 3) if total else None
