"""What conditions leave of a scan's files, by their footers: row groups and bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headwater.formats.file_scan import ScannedFile
from headwater.query.duckdb.scans import DuckScan
from headwater.query.duckdb.translation.terms import Origin
from headwater.query.statistics import row_groups, skipped


@dataclass(frozen=True)
class Counted:
    """Of some files: row groups in all, those that are ruled out by bounds, and beyond that by bloom filters; and bytes
    of the columns in the others."""

    groups: int
    by_bounds: int
    by_bloom_filter: int
    bytes: int
    rows: int
    """In the others."""


def count(
    scan: DuckScan, files: Sequence[ScannedFile], columns: Iterable[str], bloomed: Collection[tuple[str, int]] = ()
) -> Counted:
    """By footers; `bloomed` are files and the numbers of row groups in them that bloom filters rule out."""
    groups = by_bounds = by_bloom_filter = size = rows = 0
    wanted = set(columns)
    for file in files:
        found = row_groups(file.path)
        out = skipped(found, scan.predicates, partial(_own, scan, file))
        groups += len(found)
        for number, (group, gone) in enumerate(zip(found, out, strict=True)):
            if gone:
                by_bounds += 1
            elif (file.path, number) in bloomed:
                by_bloom_filter += 1
            else:
                rows += group.rows
                size += sum(bytes for name, bytes in group.bytes.items() if name in wanted)
    return Counted(groups, by_bounds, by_bloom_filter, size, rows)


def distinct(files: Sequence[ScannedFile]) -> int:
    """How many partitions files are of."""
    return len({tuple(sorted((key, str(value)) for key, value in file.partition.items())) for file in files})


def _own(scan: DuckScan, file: ScannedFile, origin: Any) -> str | None:
    if isinstance(origin, Origin) and origin.scan is scan and origin.column not in file.partition:
        return origin.column
    return None
