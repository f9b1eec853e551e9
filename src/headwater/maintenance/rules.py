"""When something is due, from metadata alone: pure functions over the live files of a table, its commits and the time.

Each gives what is due and which rule fired, in words with the figures that it went by.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from headwater.core.model import DataFile
from headwater.core.spec.layout import Clustering, Compaction
from headwater.core.units import format_duration, parse_window, readable_size

Partition: TypeAlias = "tuple[tuple[str, str | None], ...]"
"""A partition's values by column, sorted; empty for a table without partitions."""

GROWTH = 0.25
"""Small files are joined with a small file that is much larger than they are when they have so much of its size …"""
PATIENCE = 8
"""… or there are so many times as many of them as would make the partition due: what one partition of a steady stream
rewrites again and again stays bounded."""
MORE, LESS = 1.5, 2 / 3
"""Statistics are gathered again when a relation has so many times the rows of then."""
ORPHAN_AGE = timedelta(days=1)
"""A file that no commit names may be of a commit that is being made: it is left alone for so long."""
DAILY = timedelta(days=1)
"""What looks at a whole table is done so often."""


@dataclass(frozen=True)
class Due:
    """A partition, or a whole table, that something is to be done with."""

    rule: str
    """Which rule fired: `12 small files`."""
    partition: Partition = ()
    files: int = 0
    """Those that it is about."""
    bytes: int = 0


def partition_of(file: DataFile) -> Partition:
    """The partition that a file lies in."""
    return tuple(sorted(file.partition.items()))


def by_partition(files: Iterable[DataFile]) -> Mapping[Partition, list[DataFile]]:
    """The files of each partition."""
    files_of: defaultdict[Partition, list[DataFile]] = defaultdict(list)
    for file in files:
        files_of[partition_of(file)].append(file)
    return files_of


def is_small(file: DataFile, target: int, compaction: Compaction) -> bool:
    """Whether a file counts as small: well under the target, so that what was compacted is not compacted again."""
    return file.bytes < compaction.small_below * target


def is_worn(file: DataFile, compaction: Compaction) -> bool:
    """Whether so many of a file's rows are deleted that it is worth to be rewritten."""
    return bool(file.rows and file.deleted_rows and file.deleted_rows > compaction.deleted_rows * file.rows)


def compaction_due(
    files: Iterable[DataFile],
    target: int,
    compaction: Compaction,
    now: datetime,
    *,
    done_with: Collection[str] = (),
) -> list[Due]:
    """The partitions that are to be compacted. `done_with`: small files that a compaction has left as they are."""
    dues = [
        _partition_due(partition, [file for file in its if file.path not in done_with], target, compaction, now)
        for partition, its in by_partition(files).items()
    ]
    return [due for due in dues if due is not None]


def _partition_due(
    partition: Partition, files: Sequence[DataFile], target: int, compaction: Compaction, now: datetime
) -> Due | None:
    small = [file for file in files if is_small(file, target, compaction)]
    worn = [file for file in files if is_worn(file, compaction)]
    size = sum(file.bytes for file in {file.path: file for file in (*small, *worn)}.values())
    if len(small) >= compaction.small_files and len(small) > 1 and _are_worth_it(small, compaction):
        return Due(f"{len(small)} small files", partition, len(small), size)
    first = min((file.committed_at for file in small if file.committed_at is not None), default=None)
    if len(small) > 1 and first is not None and now - first >= compaction.every:
        age = f"{len(small)} small files, the first older than {format_duration(compaction.every)}"
        return Due(age, partition, len(small), size)
    if worn:
        share = f"more than {compaction.deleted_rows:.0%} of the rows of {_files(len(worn))} are deleted"
        return Due(share, partition, len(worn), size)
    return None


def _are_worth_it(small: Sequence[DataFile], compaction: Compaction) -> bool:
    """Whether what came is not too little next to the largest of them, which is written once more with it."""
    largest = max(file.bytes for file in small)
    others = sum(file.bytes for file in small) - largest
    return others >= GROWTH * largest or len(small) >= PATIENCE * compaction.small_files


def clustering_due(
    files: Iterable[DataFile],
    clustering: Clustering,
    clustered_at: Mapping[Partition, datetime],
    now: datetime,
) -> list[Due]:
    """The partitions with files that came after they were clustered, long enough ago."""
    dues = []
    for partition, its in by_partition(files).items():
        since = clustered_at.get(partition)
        new = [file for file in its if since is None or file.committed_at is None or file.committed_at > since]
        first = min((file.committed_at for file in new if file.committed_at is not None), default=None)
        if first is None or now - first < clustering.every:
            continue
        size = sum(file.bytes for file in new)
        what = f"{_files(len(new))}, {readable_size(size)}, not clustered for {format_duration(clustering.every)}"
        dues.append(Due(what, partition, len(new), size))
    return dues


def is_due_again(last: datetime | None, every: timedelta, now: datetime) -> bool:
    """Whether something that is done every so often is to be done now."""
    return last is None or now - last >= every


def is_outgrown(then: int, now: int) -> bool:
    """Whether statistics of so many rows say too little of the rows of now."""
    return now >= MORE * then + 1 or now <= LESS * then - 1


def is_in_window(window: str | None, now: datetime) -> bool:
    """Whether maintenance may run now; a window may go over midnight."""
    if window is None:
        return True
    start, end = parse_window(window)
    at = now.time().replace(tzinfo=None)
    return start <= at < end if start < end else at >= start or at < end


def partition_text(partition: Partition) -> str:
    """`event_date=2026-01-01, tenant=a`; nothing for a table without partitions."""
    return ", ".join(f"{column}={'null' if value is None else value}" for column, value in partition)


def partitions_json(partitions: Iterable[Partition]) -> str | None:
    """As the history keeps them; None for a table without partitions."""
    named = [dict(partition) for partition in partitions if partition]
    return json.dumps(named, sort_keys=True) if named else None


def partitions_of_json(text: str | None) -> list[Partition]:
    """What `partitions_json` has written; the whole table for None."""
    return [()] if text is None else [tuple(sorted(one.items())) for one in json.loads(text)]


def _files(count: int) -> str:
    return "one file" if count == 1 else f"{count} files"
