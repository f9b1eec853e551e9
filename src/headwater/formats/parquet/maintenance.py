"""Compaction and expiry of a plain Parquet table: which files are joined, which are let go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from headwater.core.model import Version
from headwater.core.storage import Files
from headwater.formats.parquet.log import FOLDER, Log, LogEntry, TableLogFile
from headwater.formats.parquet.staged_files import OURS, STAGING

_SMALL = 0.75
_LARGE = 1.5


@dataclass(frozen=True)
class CompactionPlan:
    """Which files become one, and which are cut."""

    joins: tuple[tuple[TableLogFile, ...], ...]
    cuts: tuple[TableLogFile, ...]

    @property
    def files(self) -> list[TableLogFile]:
        return [file for group in self.joins for file in group] + list(self.cuts)


def plan_compaction(files: Iterable[TableLogFile], target: int) -> CompactionPlan:
    """Per partition, neighbours in time that together make about one target; a file far above it is cut."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[TableLogFile]] = defaultdict(list)
    cuts = []
    for file in files:
        if file.bytes > target * _LARGE:
            cuts.append(file)
        elif file.bytes < target * _SMALL:
            partitions[tuple(sorted(file.partition.items()))].append(file)
    joins = [group for small in partitions.values() for group in _packed(small, target) if len(group) > 1]
    return CompactionPlan(tuple(joins), tuple(cuts))


def _packed(files: Iterable[TableLogFile], target: int) -> Iterable[tuple[TableLogFile, ...]]:
    group: list[TableLogFile] = []
    for file in files:
        if group and sum(member.bytes for member in group) + file.bytes > target:
            yield tuple(group)
            group = []
        group.append(file)
    yield tuple(group)


def expire(files: Files, log: Log, older_than: datetime, keep: Collection[Version]) -> list[Version]:
    """Forget old versions and delete the files that only they need, and those that no version ever named."""
    latest = log.latest()
    entries = {version: entry for version in log.versions() if (entry := log.entry(version)) is not None}
    needed_from = min(keep, default=latest.version)
    newest_tagged = {version for _, version in latest.commit_tags.values()}
    gone = [
        version
        for version, entry in entries.items()
        if entry.committed_at < older_than
        and version < min(needed_from, latest.version)
        and version not in newest_tagged
    ]
    kept = [version for version in entries if version not in set(gone)]
    needed = _needed(log, entries, kept)
    known = set(log.at(min(entries)).files) | {file.path for entry in entries.values() for file in entry.added}
    log.checkpoint(latest)
    # Entries go before files: a crash between the two leaves files that the next expiry finds to be nobody's.
    log.forget(gone)
    for path in sorted(known - needed):
        files.delete(path)
    for path in _orphans(files, older_than, needed):
        files.delete(path)
    return gone


def _needed(log: Log, entries: dict[Version, LogEntry], kept: list[Version]) -> set[str]:
    """The files of all kept versions; a version whose forerunner goes gets a checkpoint to stand on."""
    needed: set[str] = set()
    for version in kept:
        if version - 1 in kept:
            needed.update(file.path for file in entries[version].added)
        else:
            state = log.at(version)
            log.checkpoint(state)
            needed.update(state.files)
    return needed


def _orphans(files: Files, older_than: datetime, needed: set[str]) -> list[str]:
    return [
        found.path
        for found in files.list(recursive=True)
        if not found.is_folder
        and OURS.search(found.name)
        and found.path not in needed
        and found.modified < older_than
        and not found.path.startswith((f"{FOLDER}/", f"{STAGING}/"))
    ]
