"""How streaming exports are run: after what they copy, as soon as something is there, each with the record of a job."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial

from pyspark.sql import SparkSession

from headwater.core.spec import Export
from headwater.core.state.export_jobs import RUNNING, ExportJob
from headwater.exports.definitions import streams
from headwater.exports.destinations import location_of, open_target
from headwater.exports.read_back import ReadBack
from headwater.exports.rejects import RejectsNote
from headwater.exports.selection import relation_named
from headwater.exports.stream import ExportInput, ExportStream
from headwater.flows.flow import Flow, Steps
from headwater.flows.ledger import Ledger, Positions, flow_name
from headwater.incremental.relations import relation_of
from headwater.runner.pace import Pace
from headwater.runner.setups.setup import FlowSetup, Guard, export_flow
from headwater.targets.base import ExportTarget
from headwater.warehouse import Warehouse, fingerprint

REPORTED_EVERY = 1.0
"""Seconds between two reports of a stream's job."""


def export_setups(warehouse: Warehouse) -> list[FlowSetup]:
    """The streaming exports, of the project and of statements."""
    return [_setup(warehouse, definition) for definition in streams(warehouse).values()]


def _setup(warehouse: Warehouse, definition: Export) -> FlowSetup:
    kind, name = relation_named(warehouse, definition.from_)
    return FlowSetup(
        flow=export_flow(definition.name),
        trigger=warehouse.project.trigger_of(definition),
        pace=Pace(1, timedelta(0)),
        open=partial(_open, warehouse, definition),
        after=frozenset({flow_name(name, kind)}),
        made_of=(definition.model_dump(), warehouse.project.trigger_of(definition)),
    )


def _open(warehouse: Warehouse, definition: Export, spark: SparkSession, guard: Guard) -> Steps:
    flow = export_flow(definition.name)
    kind, name = relation_named(warehouse, definition.from_)
    relation = relation_of(warehouse, kind, name, spark)
    target = open_target(warehouse, definition, spark)
    job = _StreamJob(warehouse, definition, flow_name(name, kind), target)
    return Flow(
        flow,
        fingerprint(definition),
        ExportInput(relation, definition, warehouse.committed, job.closed),
        ExportStream(target, relation, guard, job.report),
        Ledger(warehouse.files, flow),
        guard,
        record=warehouse.state.note,
    )


class _StreamJob:
    """The record of a stream's job: how far it is, and who has read it back. One for each open stream."""

    def __init__(self, warehouse: Warehouse, definition: Export, source: str, target: ExportTarget) -> None:
        self._warehouse = warehouse
        self._target = target
        self._rejects = RejectsNote(warehouse.files, export_flow(definition.name))
        known = next((job for job in warehouse.state.exports() if job.id == definition.name), None)
        now = datetime.now(timezone.utc)
        self._job = ExportJob(
            definition.name,
            definition.name,
            source,
            definition.format,
            location_of(warehouse, definition),
            definition.mode,
            RUNNING,
            None,
            None,
            now if known is None else known.started_at,
            now,
            rows=0 if known is None else known.rows,
            position=None if known is None else known.position,
            readers=None if known is None else known.readers,
            definition=None if known is None else known.definition,
        )
        self._reported = 0.0
        self._begun, self._rows = time.monotonic(), 0
        warehouse.state.put_export(self._job)

    def closed(self) -> None:
        """The flow is let go of."""
        self._target.close()
        self._job = replace(self._job, state="stopped", updated_at=datetime.now(timezone.utc))
        self._warehouse.state.put_export(self._job)

    def report(self, positions: Positions, rows: int | None, readings: Sequence[ReadBack]) -> None:
        """A step has landed."""
        self._rejects.write([one.to_dict() for one in self._target.rejected()])
        self._rows += rows or 0
        seconds = max(time.monotonic() - self._begun, 0.001)
        readers = json.dumps([one.to_dict() for one in readings]) if readings else self._job.readers
        self._job = replace(
            self._job,
            rows=(self._job.rows or 0) + (rows or 0),
            rows_per_second=round(self._rows / seconds, 1),
            position=json.dumps(dict(positions), sort_keys=True),
            readers=readers,
            updated_at=datetime.now(timezone.utc),
        )
        if readings or time.monotonic() - self._reported >= REPORTED_EVERY:
            self._reported = time.monotonic()
            self._warehouse.state.put_export(self._job)
