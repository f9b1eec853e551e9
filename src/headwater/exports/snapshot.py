"""A snapshot: staged, read back by readers that are not ours, then published; or the target is as before."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import Version
from headwater.core.record import Record
from headwater.core.spec import Export
from headwater.exports.checksum import measure, measured_on_the_way
from headwater.exports.destinations import open_target
from headwater.exports.read_back import ReadBack, found_before, read_back
from headwater.exports.schema_checks import check_schema
from headwater.exports.selection import require_columns, select
from headwater.spark.errors import as_headwater_error
from headwater.targets.base import Checksum, SourceState, StagedCopy
from headwater.warehouse import Warehouse

Progress = Callable[[str], None]
"""Is told what is being done: staging, reading back, publishing."""


def _silent(doing: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class Exported(Record):
    """What a snapshot has done."""

    job: str
    source: str
    versions: Mapping[str, Version | None]
    format: str
    to: str
    rows: int | None
    bytes: int
    files: int
    checksum: str | None
    """None: nothing was read back."""
    readers: tuple[ReadBack, ...]
    seconds: float


def export_snapshot(
    warehouse: Warehouse, definition: Export, *, job: str | None = None, progress: Progress = _silent
) -> Exported:
    """Copy what a definition says, once."""
    begun = time.monotonic()
    run = job or uuid.uuid4().hex[:12]
    target = open_target(warehouse, definition)
    if definition.if_exists == "fail" and target.exists():
        raise UsageError(
            Code.ALREADY_EXISTS,
            f"something is at {target.destination.location} already",
            hint="export to another place, or say what to do with it: --if-exists append or overwrite",
        )
    selected = select(warehouse, definition, target.destination.spark)
    require_columns(selected.rows.schema, definition)
    check_schema(target.kind, definition, selected.rows.schema)
    target.check(selected.rows.schema)
    source = SourceState(selected.label, selected.versions, run)
    rows = target.prepared(selected.rows)
    told: Callable[[], Checksum] | None = None
    if definition.verify != "off" and target.kind.single_pass:
        rows, told = measured_on_the_way(rows)
    elif definition.verify != "off":
        told = partial(measure, rows)
    before: dict[str, Checksum] = {}
    if told is not None and target.reads_whole and definition.if_exists == "append" and target.exists():
        before = found_before(target.readers(), rows.schema, target.destination.location)
    try:
        progress("writing")
        written: StagedCopy = target.stage(rows, source)
        checksum = None if told is None else told()
        readers: tuple[ReadBack, ...] = ()
        if checksum is not None:
            progress("reading back")
            sample = definition.verify == "sample"
            location = target.destination.location
            readers = read_back(target.readers(sample=sample), rows.schema, checksum, location, before)
        progress("publishing")
        target.publish(written, source, checksum)
    except BaseException as error:
        target.discard()
        if isinstance(error, HeadwaterError) or not isinstance(error, Exception):
            raise
        raise as_headwater_error(error, [target.destination.location]) from error
    finally:
        target.close()
    return Exported(
        run,
        selected.label,
        selected.versions,
        target.kind.name,
        target.destination.location,
        written.rows if checksum is None else checksum.rows,
        written.bytes,
        written.files,
        None if checksum is None else checksum.value,
        readers,
        round(time.monotonic() - begun, 3),
    )
