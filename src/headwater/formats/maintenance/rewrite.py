"""Which files one commit of compaction or clustering rewrites: a piece of bounded size, planned from metadata alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from headwater.core.model import DataFile, Rewrite, Version

if TYPE_CHECKING:
    from headwater.formats.maintenance.proof import Proof

SMALL = 0.7
"""A file under this share of the target size counts as small: what a rewrite makes is not rewritten again."""
WORN = 0.1
"""A file is rewritten for its deleted rows alone when they are more than this share of its rows."""
_GROUPS = 50
"""How many groups of files one commit rewrites at most: a plan in Spark takes no more of them kindly."""
_BEGINNING = datetime.fromtimestamp(0, timezone.utc)

Group = tuple[DataFile, ...]
"""Files of one partition that are rewritten together."""


@dataclass(frozen=True)
class RewriteScope:
    """What a caller lets one commit of maintenance rewrite."""

    target: int
    partitions: tuple[Mapping[str, str | None], ...] | None = None
    """Only files of these partitions, each told by some of its columns; None: of all."""
    max_bytes: int | None = None
    deleted_share: float = WORN
    small_share: float = SMALL

    def covers(self, partition: Mapping[str, str | None]) -> bool:
        if self.partitions is None:
            return True
        return any(all(partition.get(k, "") == v for k, v in wanted.items()) for wanted in self.partitions)

    def is_small(self, file: DataFile) -> bool:
        return file.bytes < self.target * self.small_share

    def is_worn(self, file: DataFile) -> bool:
        """Whether so many of its rows are deleted that it is rewritten for that alone."""
        return bool(file.deleted_rows) and (file.deleted_rows or 0) > self.deleted_share * (file.rows or 0)

    def compaction(self, files: Iterable[DataFile]) -> list[Group]:
        """The groups of files that one commit joins; each becomes one file. Nothing to do: none."""
        due = [file for file in files if self.covers(file.partition) and (self.is_small(file) or self.is_worn(file))]
        packed = [group for part in by_partition(due) for group in self._packed(part)]
        return self.bounded([g for g in packed if len(g) > 1 or self.is_worn(g[0])])

    def clustering(self, files: Iterable[DataFile], clustered: Collection[str] = ()) -> list[Group]:
        """The groups of files that one commit sorts: those of a partition whose paths are not among `clustered`."""
        due = [file for file in files if self.covers(file.partition) and file.path not in clustered]
        if self.max_bytes is None:
            return self.bounded([tuple(part) for part in by_partition(due)])
        bound = self.max_bytes
        return self.bounded([group for part in by_partition(due) for group in packed(part, bound, bound)])

    def files_of(self, group: Group) -> int:
        """How many files of the target size a group's bytes make."""
        return max(1, -(-size(group) // self.target))

    def _packed(self, files: Sequence[DataFile]) -> Iterable[Group]:
        return packed(files, self.target, self.max_bytes)

    def bounded(self, groups: Sequence[Group]) -> list[Group]:
        """The first of the groups that one commit takes."""
        chosen: list[Group] = []
        total = 0
        for group in groups[:_GROUPS]:
            total += size(group)
            if chosen and self.max_bytes is not None and total > self.max_bytes:
                break
            chosen.append(group)
        return chosen


def by_partition(files: Iterable[DataFile]) -> list[list[DataFile]]:
    """The files of each partition, oldest first."""
    found: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = defaultdict(list)
    for file in sorted(files, key=lambda f: (f.committed_at or _BEGINNING, f.path)):
        found[tuple(sorted(file.partition.items()))].append(file)
    return list(found.values())


def packed(files: Sequence[DataFile], target: int, max_bytes: int | None) -> Iterable[Group]:
    """Neighbours that together make about one target; a smaller bound still lets two of them come together."""
    group: list[DataFile] = []
    for file in files:
        together = size(group) + file.bytes
        if group and (together > target or (max_bytes is not None and together > max_bytes and len(group) > 1)):
            yield tuple(group)
            group = []
        group.append(file)
    if group:
        yield tuple(group)


def size(files: Iterable[DataFile]) -> int:
    return sum(file.bytes for file in files)


def described(
    before: Version, after: Version, read: Sequence[DataFile], written: Sequence[int], proof: Proof
) -> Rewrite:
    """What is told of a rewrite; `written` are the sizes of its new files."""
    return Rewrite(before, after, len(read), len(written), size(read), sum(written), proof.rows, proof.checksum)
