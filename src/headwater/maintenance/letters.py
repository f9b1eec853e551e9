"""The files of the dead letters, which all topics and tables of a lake share: looked after by the usual rules."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from headwater.core.errors import TransientError
from headwater.core.spec.layout import Compaction, Retention
from headwater.formats.base import DEFAULT_FILE_SIZE, LakeContext
from headwater.ingest.dead_letters import DeadLetters
from headwater.maintenance.rules import ORPHAN_AGE, compaction_due
from headwater.maintenance.subject import JobEffect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECES = 100


def tidy_letters(spark: SparkSession, context: LakeContext, now: datetime) -> JobEffect | None:
    """Compact, expire and clean up the table of dead letters; None if nothing was due."""
    table = DeadLetters(spark, context).table
    if not table.exists():
        return None
    before = table.files()
    with suppress(TransientError):  # a step has put letters there meanwhile, and comes first
        for _ in range(PIECES):
            if not compaction_due(table.files(), DEFAULT_FILE_SIZE, Compaction(), now) or table.compact() is None:
                break
    kept = Retention().versions
    gone = None if kept is None else table.expire(now - kept)
    orphans = table.orphans(now - ORPHAN_AGE)
    if orphans:
        table.remove_files([file.path for file in orphans])
    table.optimize_metadata()
    after = table.files()
    expired = 0 if gone is None else gone.files
    if len(after) == len(before) and not expired and not orphans:
        return None
    return JobEffect(
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(file.bytes for file in before),
        bytes_after=sum(file.bytes for file in after),
        deleted_files=expired + len(orphans),
        deleted_bytes=(0 if gone is None else gone.bytes) + sum(file.bytes for file in orphans),
    )
