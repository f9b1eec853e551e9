"""Signed changes of a Hudi table.

Copy-on-write: every commit names the files that it wrote and the ones that they take the place of. A row that
was only copied along keeps its record key and its sequence number, so the rows that came and went are those
without a partner on the other side. That is exact for every type and operation, needs no change log, and
reads only the files touched. Merge-on-read: the same comparison over the two whole states, which Hudi merges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pyspark.sql import DataFrame

from headwater.core.errors import Code, TerminalError
from headwater.formats.hudi.instants import Instant
from headwater.formats.hudi.timeline import HudiTimeline
from headwater.schema.types import has_map
from headwater.spark.frames import column, diff, signed

ROW_ID = ("_hoodie_record_key", "_hoodie_commit_seqno")


def touched_files(records: HudiTimeline, commits: Sequence[Instant]) -> tuple[list[str], list[str]]:
    """The files that went and those that came; what came and went within the range is in neither."""
    balance: Counter[str] = Counter()
    for instant in commits:
        commit = records.commit(instant)
        if commit.moves_only:
            continue
        for written in commit.written:
            balance[written.path] += 1
            if written.before is not None:
                balance[written.before] -= 1
        for partition, groups in commit.replaced.items():
            for path in _group_files(records, instant, partition, groups):
                balance[path] -= 1
    went = [path for path, n in balance.items() if n < 0]
    came = [path for path, n in balance.items() if n > 0]
    return went, came


def _group_files(records: HudiTimeline, instant: Instant, partition: str, groups: Sequence[str]) -> list[str]:
    """The base files that file groups had just before a commit took the groups away."""
    wanted = set(groups)
    before = str(int(instant.requested) - 1)
    found = {f.group: f.relative for f in records.live(before, [partition]) if f.group in wanted}
    if set(found) != wanted:
        raise TerminalError(
            Code.TABLE_CORRUPT,
            f"commit {instant.requested} of {records.path} removed file groups that don't exist",
            hint="another program has cleaned the table; read the whole state instead",
        )
    return list(found.values())


def partnerless(went: DataFrame, came: DataFrame) -> DataFrame:
    """Rows with their weight: those of each side that the other does not hold as the same written row."""
    ids = list(ROW_ID)
    new = came.join(went.select(*ids), ids, "left_anti").drop(*ids)
    old = went.join(came.select(*ids), ids, "left_anti").drop(*ids)
    return signed(new, 1).unionByName(signed(old, -1))


def compared(went: DataFrame, came: DataFrame) -> DataFrame:
    """The same by value, for rows that were all rewritten; maps can't be compared and stay as they are."""
    went, came = went.drop(*ROW_ID), came.drop(*ROW_ID)
    if any(has_map(f.dataType) for f in came.schema.fields):
        return signed(came, 1).unionByName(signed(went, -1))
    return diff(went, came.select(*map(column, came.columns)))
