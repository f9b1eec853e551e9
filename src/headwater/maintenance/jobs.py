"""What maintenance does to a relation. Each action says when it is due, and does one piece of it.

A new one is a value with its line in `JOBS`; the runner and `headwater maintain` take it up from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import Rewrite, Version
from headwater.core.state.holds import HELD_AFTER
from headwater.core.units import format_duration
from headwater.flows.retention import note_removal, retention_tag
from headwater.formats.base import Capability
from headwater.ingest.dead_letters import DeadLetters
from headwater.maintenance.holds import Holds
from headwater.maintenance.retention import old_rows
from headwater.maintenance.rules import (
    DAILY,
    ORPHAN_AGE,
    Due,
    clustering_due,
    compaction_due,
    is_due_again,
    is_outgrown,
    is_small,
    partition_of,
)
from headwater.maintenance.subject import JobEffect, MaintainedRelation
from headwater.query import gathered

DueOf = Callable[[MaintainedRelation], Sequence[Due]]
Run = Callable[[MaintainedRelation, Sequence[Due]], JobEffect | None]


@dataclass(frozen=True)
class MaintenanceJob:
    """Something that maintenance does."""

    name: str
    due: DueOf
    """What of a relation is due; looks at metadata alone."""
    run: Run
    """Does one piece of what is due, by one commit at most; None: there was nothing to do after all."""
    preview: Run | None = None
    """What `run` would take away, for a dry run."""
    in_pieces: bool = False
    """Whether it is looked at again after a piece: more may be due."""


# --- files: compaction and clustering


def _compact_due(subject: MaintainedRelation) -> Sequence[Due]:
    if not subject.table.format.can(Capability.COMPACT):
        return ()
    left = subject.memory.left[subject.label]
    return compaction_due(subject.files, subject.target, subject.definition.compaction, subject.now, done_with=left)


def _compact(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    compaction = subject.definition.compaction
    done = subject.table.compact(
        subject.target,
        partitions=_partitions(due),
        max_bytes=subject.settings.max_bytes,
        deleted_share=compaction.deleted_rows,
        small_share=compaction.small_below,
    )
    if done is None or done.files_written >= done.files_read:
        _leave(subject, due)
    return None if done is None else _effect(done)


def _leave(subject: MaintainedRelation, due: Sequence[Due]) -> None:
    """What a compaction does not make fewer is no reason for another one: buckets have a file each."""
    after, partitions = subject.again(), {one.partition for one in due}
    small = (file for file in after.files if is_small(file, subject.target, subject.definition.compaction))
    stuck = {file.path for file in small if partition_of(file) in partitions}
    known = {file.path for file in after.files}
    subject.memory.left[subject.label] = frozenset((subject.memory.left[subject.label] & known) | stuck)


def _cluster_due(subject: MaintainedRelation) -> Sequence[Due]:
    definition = subject.definition
    if not definition.clustered_by or not subject.table.format.can(Capability.CLUSTER):
        return ()
    clustered_at = subject.memory.clustered_at[subject.label]
    return clustering_due(subject.files, definition.clustering, clustered_at, subject.now)


def _cluster(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    columns = subject.definition.clustered_by
    done = subject.table.cluster(columns, partitions=_partitions(due), max_bytes=subject.settings.max_bytes)
    return None if done is None else _effect(done)


def _partitions(due: Sequence[Due]) -> list[dict[str, str | None]] | None:
    """As the seam takes them: None for a table without partitions."""
    return [dict(one.partition) for one in due] if all(one.partition for one in due) else None


def _effect(done: Rewrite) -> JobEffect:
    return JobEffect(
        version_before=done.before,
        version_after=done.after,
        files_before=done.files_read,
        files_after=done.files_written,
        bytes_before=done.bytes_read,
        bytes_after=done.bytes_written,
        rows=done.rows,
        checksum=done.checksum,
    )


# --- rows and dead letters


def _rows_due(subject: MaintainedRelation) -> Sequence[Due]:
    kept = subject.definition.retention.rows
    if kept is None or not is_due_again(subject.last("rows"), min(kept, DAILY), subject.now):
        return ()
    return [Due(f"rows older than {format_duration(kept)}")]


def _find_rows(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    old = old_rows(subject.table, _rows_before(subject))
    return None if old is None else JobEffect(rows=old.rows)


def _remove_rows(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    table, before = subject.table, _rows_before(subject)
    old = old_rows(table, before)
    if old is None:
        return None
    note_removal(subject.warehouse.files, subject.label, before)
    version = table.version()
    after = table.remove(old.where, retention_tag(subject.label, before, datetime.now(timezone.utc)))
    return JobEffect(version_before=version, version_after=after, rows=old.rows)


def _rows_before(subject: MaintainedRelation) -> datetime:
    kept = subject.definition.retention.rows
    assert kept is not None
    return subject.now - kept


def _letters_due(subject: MaintainedRelation) -> Sequence[Due]:
    kept = subject.definition.retention.dead_letters
    if kept is None or not is_due_again(subject.last("dead_letters"), min(kept, DAILY), subject.now):
        return ()
    return [Due(f"dead letters older than {format_duration(kept)}")]


def _find_letters(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    _, old = _old_letters(subject)
    return JobEffect(rows=len(old)) if old else None


def _drop_letters(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    letters, old = _old_letters(subject)
    gone = letters.drop(subject.dead_letters, old)
    return JobEffect(rows=gone) if gone else None


def _old_letters(subject: MaintainedRelation) -> tuple[DeadLetters, Sequence[str]]:
    kept = subject.definition.retention.dead_letters
    assert kept is not None
    letters = DeadLetters(subject.spark or subject.warehouse.spark, subject.warehouse.context)
    return letters, letters.older_than(subject.dead_letters, subject.now - kept)


# --- versions


def _expire_due(subject: MaintainedRelation) -> Sequence[Due]:
    kept = subject.definition.retention.versions
    if kept is None or not subject.table.format.can(Capability.EXPIRE):
        return ()
    if not is_due_again(subject.last("expire"), min(kept, DAILY), subject.now) or _latest_before(subject, kept) is None:
        return ()
    return [Due(f"versions older than {format_duration(kept)}")]


def _latest_before(subject: MaintainedRelation, kept: timedelta) -> Version | None:
    """The version that was the latest when the time began that can be travelled to."""
    try:
        return subject.table.version_at(subject.now - kept)
    except HeadwaterError as error:
        if error.code is Code.NO_SUCH_VERSION:
            return None
        raise


def _expire(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    if _expiry(subject, dry_run=True) is None:
        return None
    # A query of this moment says what it reads when it has lasted a little: it has said so by then.
    return _expiry(subject, dry_run=False) if subject.wait(2 * HELD_AFTER) else None


def _expiry(subject: MaintainedRelation, *, dry_run: bool) -> JobEffect | None:
    kept = subject.definition.retention.versions
    latest = None if kept is None else _latest_before(subject, kept)
    if kept is None or latest is None:
        return None
    held = Holds.of(subject.warehouse).versions(subject.kind, subject.name)
    gone = subject.table.expire(subject.now - kept, keep={*held, latest}, dry_run=dry_run)
    return JobEffect(deleted_files=gone.files, deleted_bytes=gone.bytes) if gone.versions else None


# --- what no version needs


def _orphans_due(subject: MaintainedRelation) -> Sequence[Due]:
    if not subject.table.format.can(Capability.ORPHANS):
        return ()
    if not is_due_again(subject.last("orphans"), DAILY, subject.now):
        return ()
    return [Due(f"files that no version names, older than {format_duration(ORPHAN_AGE)}")]


def _find_orphans(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    orphans = subject.table.orphans(subject.now - ORPHAN_AGE)
    return JobEffect(deleted_files=len(orphans), deleted_bytes=sum(file.bytes for file in orphans)) if orphans else None


def _remove_orphans(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    orphans = subject.table.orphans(subject.now - ORPHAN_AGE)
    if not orphans:
        return None
    gone = subject.table.remove_files([file.path for file in orphans])
    return JobEffect(deleted_files=gone, deleted_bytes=sum(file.bytes for file in orphans))


# --- the table's own records


def _metadata_due(subject: MaintainedRelation) -> Sequence[Due]:
    if not is_due_again(subject.last("metadata"), DAILY, subject.now):
        return ()
    return [Due(f"its own records were not brought together for {format_duration(DAILY)}")]


def _optimize_metadata(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    before = subject.table.version()
    if not subject.table.optimize_metadata():
        return None
    return JobEffect(version_before=before, version_after=subject.table.version())


# --- what queries are planned by


def _statistics_due(subject: MaintainedRelation) -> Sequence[Due]:
    """Where they were gathered once, and the relation has got half as many rows again, or lost a third."""
    known = gathered.gathered(subject.warehouse, subject.kind, subject.name)
    if known is None or not is_due_again(subject.last("statistics"), DAILY, subject.now):
        return ()
    if not subject.table.format.can(Capability.STATS):
        return ()
    counts = [file.rows for file in subject.files]
    if any(count is None for count in counts):
        return ()
    now = sum((file.rows or 0) - (file.deleted_rows or 0) for file in subject.files)
    if not is_outgrown(known.rows, now):
        return ()
    return [Due(f"statistics are of {known.rows} rows, and it has {now}", files=len(counts))]


def _gather_statistics(subject: MaintainedRelation, due: Sequence[Due]) -> JobEffect | None:
    of = gathered.identity(subject.warehouse, subject.kind, subject.name)
    stats = subject.table.stats()
    gathered.keep(subject.warehouse, subject.kind, subject.name, stats, of)
    return JobEffect(rows=stats.rows)


JOBS: list[MaintenanceJob] = [
    MaintenanceJob("rows", _rows_due, _remove_rows, preview=_find_rows),
    MaintenanceJob("dead_letters", _letters_due, _drop_letters, preview=_find_letters),
    MaintenanceJob("compact", _compact_due, _compact, in_pieces=True),
    MaintenanceJob("cluster", _cluster_due, _cluster, in_pieces=True),
    MaintenanceJob("expire", _expire_due, _expire, preview=lambda subject, due: _expiry(subject, dry_run=True)),
    MaintenanceJob("orphans", _orphans_due, _remove_orphans, preview=_find_orphans),
    MaintenanceJob("metadata", _metadata_due, _optimize_metadata),
    MaintenanceJob("statistics", _statistics_due, _gather_statistics),
]
"""In the order in which a relation's are done: what is rewritten first leaves files for expiry."""
