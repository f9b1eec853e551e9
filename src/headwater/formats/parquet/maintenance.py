"""Expiry and orphans of a plain Parquet table: which files are let go."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from headwater.core.model import DataFile, Expiry, Version
from headwater.core.storage import FileEntry, Files
from headwater.formats.base import Address
from headwater.formats.maintenance import orphans
from headwater.formats.parquet.log import FOLDER, Log, LogEntry
from headwater.formats.parquet.staged_files import OURS, STAGING


def expire(files: Files, log: Log, older_than: datetime, keep: Collection[Version], *, dry_run: bool) -> Expiry:
    """Forget old versions and delete the files that only they need."""
    latest = log.latest()
    entries = _entries(log)
    needed_from = min(keep, default=latest.version)
    newest_tagged = {version for _, version in latest.commit_tags.values()}
    gone = [
        version
        for version, entry in entries.items()
        if entry.committed_at < older_than
        and version < min(needed_from, latest.version)
        and version not in newest_tagged
    ]
    if not gone:
        return Expiry()
    kept = [version for version in entries if version not in set(gone)]
    needed = _needed(log, entries, kept, checkpoint=not dry_run)
    known = set(log.at(min(entries)).files) | {file.path for entry in entries.values() for file in entry.added}
    if not dry_run:
        log.checkpoint(latest)
        # Entries go before files: a crash between the two leaves orphans.
        log.forget(gone)
    return orphans.expired(files, gone, known - needed, dry_run=dry_run)


def find_orphans(address: Address, files: Files, log: Log, older_than: datetime) -> list[DataFile]:
    """The data files of attempts that were cut off."""
    with orphans.reading_references(address):
        entries = _entries(log)
        needed = _needed(log, entries, list(entries), checkpoint=False)
    return orphans.find(address, files, needed, log.latest().files, older_than, _is_ours)


def _entries(log: Log) -> dict[Version, LogEntry]:
    return {version: entry for version in log.versions() if (entry := log.entry(version)) is not None}


def _is_ours(entry: FileEntry) -> bool:
    return OURS.search(entry.name) is not None and not entry.path.startswith((f"{FOLDER}/", f"{STAGING}/"))


def _needed(log: Log, entries: dict[Version, LogEntry], kept: list[Version], *, checkpoint: bool) -> set[str]:
    """The files of all kept versions; a version whose forerunner goes gets a checkpoint to stand on."""
    needed: set[str] = set()
    for version in kept:
        if version - 1 in kept:
            needed.update(file.path for file in entries[version].added)
        else:
            state = log.at(version)
            if checkpoint:
                log.checkpoint(state)
            needed.update(state.files)
    return needed
